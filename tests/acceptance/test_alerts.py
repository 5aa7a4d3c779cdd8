"""Prometheus over a real deployment: the documented metrics are shown, and alerts fire when Cassandra stops
answering.
"""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from minutehand.client import Callback
from minutehand.local import RunningCassandra
from tests.support.cassandra import SuiteCassandra
from tests.support.exposition import check_exposition
from tests.support.processes import Deployment
from tests.support.prometheus import Prometheus, await_true, load_rules, running_prometheus, write_rules

NODE = "a"
CALLS = 20
ALERTS = {"MinutehandStorageUnavailable", "MinutehandStorageErrors", "MinutehandNodeUntrusted", "MinutehandNoNodes"}
OF_NODES = {"MinutehandNodeUntrusted", "MinutehandNoNodes"}
UP_SECONDS = 20.0
FIRES_SECONDS = 40.0
OVER_SECONDS = 40.0


@pytest.fixture
def server(cassandra: SuiteCassandra) -> RunningCassandra:
    if cassandra.running is None:
        pytest.skip("this Cassandra is not ours to freeze: no alert was fired for real")
    return cassandra.running


def test_programs_at_work_show_what_is_documented(cluster: Deployment) -> None:
    cluster.start_api()
    cluster.start_node(NODE)
    key = cluster.register("shop", poller_quota=2)
    cluster.await_owners([NODE], pollers=2)
    with cluster.client("shop", key) as shop:
        for _ in range(CALLS):
            shop.schedules.create(Callback(url=cluster.receiver.url), delay_seconds=1)
    assert cluster.receiver.await_count(CALLS, seconds=20.0) == CALLS
    await_true(
        lambda: cluster.metrics(NODE)['minutehand_schedules_total{outcome="delivered"}'] == CALLS,
        seconds=10.0,
        what=lambda: cluster.metrics(NODE),
    )
    for name in ("api", NODE):
        lines = cluster.programs[name].log_file.read_text(encoding="utf-8").splitlines()
        said = Counter(json.loads(line)["action"] for line in lines)
        assert max(said.values()) < CALLS, f"calls are not worth a line each: {said}"
    shown = cluster.metrics(NODE)
    assert shown['minutehand_attempts_total{code_class="2xx",kind="http"}'] == CALLS
    assert shown['minutehand_client_fires_total{client="other"}'] == CALLS, "unless asked for, names stay unsaid"
    assert shown['minutehand_fire_lateness_seconds_count{share="guaranteed"}'] == CALLS
    valued = check_exposition(exposition(f"http://127.0.0.1:{cluster.ops_port(NODE)}"), program="node")
    assert "minutehand_storage_request_duration_seconds" in valued
    of_api = check_exposition(exposition(cluster.api_url), program="api")
    assert "minutehand_group_commit_rows" in of_api


def test_alerts_fire_when_cassandra_stops_and_end_when_it_is_back(
    cluster: Deployment, server: RunningCassandra, tmp_path: Path
) -> None:
    """Uses the chart's own expressions, without the minutes for which they must hold before an alert fires."""
    rules = [{**rule, "for": "1s"} for rule in load_rules() if rule["alert"] in ALERTS]
    assert len(rules) == len(ALERTS)
    cluster.start_api()
    cluster.start_node(NODE)
    targets = [cluster.api_url.removeprefix("http://"), f"127.0.0.1:{cluster.ops_port(NODE)}"]
    file = write_rules(tmp_path / "rules.yaml", rules)
    with running_prometheus(tmp_path, rules=file, targets=targets) as prometheus:
        await_true(lambda: prometheus.healthy_targets() == len(targets), seconds=UP_SECONDS, what=prometheus.firing)
        await_true(lambda: not prometheus.firing(), seconds=UP_SECONDS, what=prometheus.firing)
        with frozen(server):
            assert (
                httpx.get(
                    f"{cluster.api_url}/v1/clients/none", headers=admin(cluster), timeout=30, trust_env=False
                ).status_code
                == 503
            )
            await_true(lambda: prometheus.firing() == ALERTS, seconds=FIRES_SECONDS, what=prometheus.firing)
        await_true(
            lambda: quiet_again(prometheus, cluster), seconds=OVER_SECONDS, what=lambda: sorted(prometheus.firing())
        )


def quiet_again(prometheus: Prometheus, cluster: Deployment) -> bool:
    """Whether the alerts about the present have ended; those about rates last longer than the test."""
    httpx.get(f"{cluster.api_url}/v1/clients/none", headers=admin(cluster), timeout=30, trust_env=False)
    return not prometheus.firing() & OF_NODES


def admin(cluster: Deployment) -> dict[str, str]:
    return {"Authorization": f"Bearer {cluster.admin_key}"}


def exposition(url: str) -> str:
    return httpx.get(f"{url}/metrics", timeout=30, trust_env=False).raise_for_status().text


@contextmanager
def frozen(server: RunningCassandra) -> Iterator[None]:
    server.pause()
    try:
        yield
    finally:
        server.resume()
