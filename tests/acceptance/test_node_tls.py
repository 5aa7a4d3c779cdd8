"""Nodes whose own port speaks TLS and asks for certificates, beside one that speaks plain HTTP."""

import ssl
import time
from pathlib import Path

import httpx
import pytest

from minutehand.client import Callback, MinutehandApiError
from tests.support.certificates import Authority
from tests.support.processes import Deployment

HERE = "127.0.0.1"


def test_apis_hint_and_drain_nodes_over_tls(cluster: Deployment, tmp_path: Path) -> None:
    (tmp_path / "authority").mkdir()
    authority = Authority(tmp_path / "authority")
    served, asking = (authority.issue(tmp_path, address=HERE, stem="node"), authority.issue(tmp_path, stem="caller"))
    caller = {
        "MINUTEHAND_CLUSTER_TLS_CA_FILE": str(authority.bundle),
        "MINUTEHAND_CLUSTER_TLS_CERT_FILE": str(asking[0]),
        "MINUTEHAND_CLUSTER_TLS_KEY_FILE": str(asking[1]),
    }
    port = {
        "MINUTEHAND_OPS_TLS_CERT_FILE": str(served[0]),
        "MINUTEHAND_OPS_TLS_KEY_FILE": str(served[1]),
        "MINUTEHAND_OPS_TLS_CLIENT_CA_FILE": str(authority.bundle),
    }
    cluster.start_api(variables=caller)
    cluster.start_node("tls", ready=False, variables={**caller, **port})
    key = cluster.register("shop", poller_quota=4)
    cluster.await_owners({"tls"}, pollers=4)

    trusting = ssl.create_default_context(cafile=authority.bundle)
    url = f"https://{HERE}:{cluster.ops_port('tls')}"
    with pytest.raises(httpx.HTTPError):
        httpx.get(f"{url}/livez", verify=trusting, trust_env=False)
    trusting.load_cert_chain(*asking)
    shown = httpx.get(f"{url}/metrics", verify=trusting, trust_env=False).text
    assert "minutehand_build_info" in shown

    # Rows that are due at once are called within a second only because of hints.
    with cluster.client("shop", key) as shop:
        for number in range(10):
            cluster.receiver.forget()
            shop.schedules.create(Callback(url=cluster.receiver.url, json={"n": number}), delay_seconds=0)
            assert cluster.receiver.await_count(1, seconds=5) == 1
        assert cluster.receiver.report()["calls"] == 1
    text = httpx.get(f"{cluster.api_url}/metrics", trust_env=False).text
    assert "minutehand_hints_dropped_total 0.0" in text

    cluster.start_node("plain", variables=caller)
    cluster.await_owners({"tls", "plain"}, pollers=4)
    with cluster.admin() as admin:
        for name in ("plain", "tls"):
            admin.nodes.drain(name)
            await_drained(cluster, name)
            admin.nodes.undrain(name)
            cluster.await_owners({"tls", "plain"}, pollers=4)
        addresses = {node.node_id: node.address for node in admin.cluster().nodes}
    assert addresses["tls"].startswith("https://")
    assert "://" not in addresses["plain"]


def await_drained(cluster: Deployment, name: str, *, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            with cluster.admin() as admin:
                (node,) = [one for one in admin.cluster().nodes if one.node_id == name]
                if node.pollers == 0:
                    return
        except MinutehandApiError:
            pass
        assert time.monotonic() < deadline
        time.sleep(0.2)
