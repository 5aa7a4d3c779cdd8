"""Programs show exactly the documented metrics on their own ports."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from cql.memory.connection import InMemoryConnection
from cql.metrics import METRICS as STORAGE_METRICS
from cql.storage import Storage
from membership.identity import IncarnationNumber, NodeId, NodeIncarnation
from membership.membership_agent import NodeProfile
from membership.settings import MembershipSettings
from minutehand.cli import failures
from minutehand.reference_pages import PROGRAMS, documented
from minutehand.tracing.export import METRICS as TRACE_METRICS
from poller_cluster.background_budget import BackgroundBudget
from poller_cluster.node import Node
from poller_cluster.ops.metrics import EndedElsewhere, show_node
from poller_cluster.ops.server import OpsServer, OpsSettings, advertised_address, listen
from poller_cluster.settings import BackgroundSettings, NodeSettings
from scheduler_service.api.metrics import PROCESS_METRICS, Shown
from scheduler_service.runtime.certificates import METRICS as CERTIFICATE_METRICS
from scheduler_service.runtime.certificates import Certificates
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.metrics import Count, Kind, Metric, Metrics
from scheduler_service.runtime.randomness import SystemRandomness
from scheduler_service.usecases.secret_encryption import NoEncryption
from tests.support.api import ApiHarness, schedule
from tests.support.certificates import Authority
from tests.support.exposition import check_exposition
from tests.support.nodes import Nodes
from tests.support.prometheus import series_names
from tests.support.token_fetches import HeldFetches


def certificates(directory: Path) -> Certificates:
    """One that is there, one that is not, and a setting that names none."""
    (directory / "authority").mkdir()
    certificate, _ = Authority(directory / "authority").issue(directory)
    return Certificates({"a.tls_cert_file": str(certificate), "b.tls_cert_file": "/nowhere", "c.tls_cert_file": None})


def test_when_certificates_expire_is_read_at_each_scrape(tmp_path: Path) -> None:
    shown = certificates(tmp_path)
    now = SystemClock().wall_ms() / 1000
    assert shown.expiries() == {"a.tls_cert_file": pytest.approx(now + 3600, abs=60)}
    (tmp_path / "tls.crt").write_text("no certificate")
    assert shown.expiries() == {}


async def test_an_api_shows_what_is_documented(tmp_path: Path) -> None:
    metrics = Metrics(program="api", version="1")
    async with ApiHarness(registry=metrics.registry) as api:
        shown = Shown(
            members=api.members,
            clock=api.clock,
            ended=api.storage.metrics.external_updates.ended,
            hints_dropped=Count(),
            audits=api.audits,
        )
        metrics.show(PROCESS_METRICS, of=shown)
        metrics.show(STORAGE_METRICS, of=api.storage.metrics)
        metrics.show(TRACE_METRICS, of=None)
        metrics.show(CERTIFICATE_METRICS, of=certificates(tmp_path))
        key = await api.register("shop")
        made = await api.send("POST", "/v1/clients/shop/schedules", key=key, json=schedule())
        await api.send("DELETE", f"/v1/clients/shop/schedules/{made.json['schedule_id']}", key=key)
        before = (await api.send("GET", "/metrics", key=None)).body.decode()
        api.audits.findings = 3
        await Nodes(api).beat(seconds=4)
        text = (await api.send("GET", "/metrics", key=None)).body.decode()
    assert "minutehand_audit_findings" not in check_exposition(before, program="api")
    assert "minutehand_audit_findings 3.0" in text
    valued = check_exposition(text, program="api")
    assert valued >= {metric.name for metric in PROGRAMS["api"]} - {
        "minutehand_storage_errors_total",
        "minutehand_trace_spans_total",
    }
    assert 'minutehand_schedules_total{outcome="cancelled"} 1.0' in text


class Engine:
    capacity, in_flight = 10, 0

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def start_attempt(self, *arguments: Any, **options: Any) -> None:
        raise AssertionError("there is nothing to call")


async def test_a_node_shows_what_is_documented(tmp_path: Path) -> None:
    storage, clock, metrics = Storage.over(InMemoryConnection()), SystemClock(), Metrics(program="node", version="1")
    randomness = SystemRandomness()
    incarnation = NodeIncarnation(NodeId("one"), IncarnationNumber(1))
    process: Any = SimpleNamespace(node_over=_never, task_crashed=_never, work_failed=_never)
    node = Node(
        incarnation=incarnation,
        profile=NodeProfile(address="", version="1"),
        stores=storage,
        encryption=NoEncryption(),
        engine=Engine(),
        fetcher=HeldFetches(),
        clock=clock,
        randomness=randomness,
        settings=NodeSettings(),
        membership=MembershipSettings(),
        process=process,
        budget=BackgroundBudget(clock=clock, randomness=randomness, settings=BackgroundSettings()),
    )
    show_node(
        node,
        clock=clock,
        metrics=metrics,
        attempts_in_flight=lambda: 0,
        hints_dropped=lambda: 0,
        ended=EndedElsewhere(ended={}, skipped={}),
    )
    metrics.show(STORAGE_METRICS, of=storage.metrics)
    metrics.show(TRACE_METRICS, of=None)
    metrics.show(CERTIFICATE_METRICS, of=certificates(tmp_path))
    listener = listen(OpsSettings())
    ops = OpsServer(
        listener,
        node=node,
        token="t" * 16,
        unhealthy=lambda: (),
        unready=lambda: (),
        metrics=metrics,
    )
    await ops.start()
    url = f"http://{advertised_address(OpsSettings(), listener)}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        text = await answer.text()
    await ops.stop()
    valued = check_exposition(text, program="node")
    of_others = {
        "minutehand_trace_spans_total",
        "minutehand_storage_errors_total",
        "minutehand_storage_request_duration_seconds",
    }
    assert valued >= {metric.name for metric in PROGRAMS["node"]} - of_others
    await node._tasks.close()
    await storage.close()


def _never(*about: object) -> None:
    raise AssertionError(about)


def test_what_is_shown_and_not_documented_is_found() -> None:
    metrics = Metrics(program="api", version="1")
    metrics.show([Metric("minutehand_x", Kind.GAUGE, "X.", lambda of: 1)], of=None)
    with pytest.raises(AssertionError, match="minutehand_x is not documented"):
        check_exposition(metrics.exposition().decode(), program="api")
    with pytest.raises(AssertionError, match="not shown"):
        check_exposition(Metrics(program="api", version="1").exposition().decode(), program="api")


def test_names_say_their_units() -> None:
    """Metric names end in their unit, by Prometheus's rules for names."""
    for metric in documented():
        assert metric.meaning.endswith("."), metric
        assert not any(unit in metric.name for unit in ("_ms", "_millis", "_percent", "_count")), metric
        if metric.kind is Kind.HISTOGRAM:
            assert metric.name.endswith(("_seconds", "_rows")), metric
    names = list(series_names(documented()))
    assert len(names) == len(set(names))


def test_the_printed_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert failures.run(["metrics"]) == 0
    printed = capsys.readouterr().out
    assert all(one.name in printed for one in documented())
    assert failures.run(["metrics", "--json"]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)] == [one.name for one in documented()]
