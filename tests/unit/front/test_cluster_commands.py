"""`cluster`, `nodes drain` and `clients pollers`, and the SDK's methods behind them."""

import json
import threading
from typing import Any

import httpx
import pytest
from rich.console import Console

from minutehand.cli import cluster, failures
from tests.unit.front.test_client import Script, methods

NODE: dict[str, Any] = {
    "node_id": "one",
    "incarnation": 1795253400000,
    "state": "live",
    "beat_age_seconds": 0.42,
    "pollers": 1500,
    "clock_offset_ms": -12,
    "capacity_per_minute": 300_000,
    "weight": 1.0,
    "version": "0.1.0",
    "address": "127.0.0.1:7000",
}
CLUSTER: dict[str, Any] = {
    "nodes": [NODE, {**NODE, "node_id": "two", "state": "dead", "beat_age_seconds": None, "clock_offset_ms": None}],
    "pollers": {"total": 2000, "owned": 1500},
    "guaranteed_calls_per_minute": 75_000,
    "capacity_per_minute": 300_000,
}
POLLER: dict[str, Any] = {
    "poller_id": 3,
    "owner": {"node_id": "one", "incarnation": 1795253400000},
    "epoch": 17,
    "watermark": "2026-11-21T09:30:00.000Z",
    "lagging": False,
    "open_minutes": 2,
    "backlog": 1234,
    "cut": True,
}
POLLERS = {"items": [POLLER, {**POLLER, "poller_id": 4, "owner": None, "backlog": 0, "cut": False}]}


def run(script: Script, arguments: str, *answers: Any) -> None:
    script.answers = [httpx.Response(200, json=one) for one in answers]
    assert failures.run(arguments.split()) == 0


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_the_cluster_at_a_glance(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    run(script, "cluster --once", CLUSTER)
    said = capsys.readouterr().out
    lines = words(said)
    assert lines[1] == ["one", "live", "0.4", "s", "1,500", "-12", "ms", "300,000", "0.1.0", "127.0.0.1:7000"]
    assert lines[2][:3] == ["two", "dead", "-"]
    assert "1,500 of 2,000 pollers are owned." in said
    assert "guarantee 75,000 calls a minute; the live nodes are sized for 300,000 (25%)." in said


def test_without_a_terminal_it_is_printed_once(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    run(script, "cluster", {**CLUSTER, "nodes": [], "capacity_per_minute": 0})
    assert "sized for 0." in capsys.readouterr().out


def test_with_the_pollers_of_a_client(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    run(script, "cluster --once --client shop", POLLERS, CLUSTER)
    said = capsys.readouterr().out
    assert "Pollers of shop" in said
    assert ["3", "one", "17", "2026-11-21", "09:30:00.000Z", "no", "2+", "1,234+"] in words(said)
    run(script, "cluster --client shop --json", POLLERS, CLUSTER)
    document = json.loads(capsys.readouterr().out)
    assert document["client"]["client_id"] == "shop"
    assert [one["poller_id"] for one in document["client"]["pollers"]] == [3, 4]
    assert document["pollers"] == {"total": 2000, "owned": 1500}


def test_the_cluster_as_json(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    run(script, "cluster --json", CLUSTER)
    document = json.loads(capsys.readouterr().out)
    assert document["nodes"][0]["clock_offset_ms"] == -12
    assert "client" not in document


def test_the_live_table_looks_again_and_keeps_its_picture_without_an_answer(
    script: Script, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waits: list[float] = []

    def wait(self: threading.Event, seconds: float | None = None) -> bool:
        assert seconds is not None
        waits.append(seconds)
        if len(waits) == 4:
            raise KeyboardInterrupt
        return False

    monkeypatch.setattr(threading.Event, "wait", wait)
    terminal = Console(force_terminal=True, width=150, color_system=None)
    monkeypatch.setattr(cluster, "make_console", lambda: terminal)
    script.answers = [
        httpx.Response(200, json=CLUSTER),
        httpx.Response(200, json={**CLUSTER, "pollers": {"total": 2000, "owned": 1999}}),
        httpx.Response(502, text="bad gateway"),
        httpx.Response(200, json={**CLUSTER, "pollers": {"total": 2000, "owned": 2000}}),
    ]
    assert failures.run(["cluster", "--every", "5"]) == 0
    said = capsys.readouterr().out
    assert waits == [5.0] * 4
    assert said.count("1,999 of 2,000") == 2
    assert "As it was before: the answer, HTTP status 502" in said
    assert "2,000 of 2,000" in said


def test_draining_a_node(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    draining = {"node_id": "one", "incarnation": 7, "state": "draining"}
    run(script, "nodes drain one", draining)
    (request,) = script.requests
    assert (request.method, request.url.path) == ("POST", "/v1/cluster/nodes/one:drain")
    assert "The node one hands over its pollers" in capsys.readouterr().out
    run(script, "nodes drain one --json", draining)
    assert json.loads(capsys.readouterr().out) == draining


def test_the_last_node_is_drained_by_force_and_takes_pollers_again(
    script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    run(script, "nodes drain one --force", {"node_id": "one", "incarnation": 7, "state": "draining"})
    assert str(script.requests[-1].url).endswith("/v1/cluster/nodes/one:drain?force=true")
    live = {"node_id": "one", "incarnation": 7, "state": "live"}
    run(script, "nodes undrain one", live)
    assert (script.requests[-1].method, script.requests[-1].url.path) == ("POST", "/v1/cluster/nodes/one:undrain")
    assert "The node one takes pollers again" in capsys.readouterr().out
    run(script, "nodes undrain one --json", live)
    assert json.loads(capsys.readouterr().out) == live


@pytest.mark.parametrize("options", ["--once", "--json", ""])
def test_a_cluster_that_makes_no_calls_exits_with_1(
    script: Script, capsys: pytest.CaptureFixture[str], options: str
) -> None:
    script.answers = [httpx.Response(200, json={**CLUSTER, "not_calling": "every node\x1b[2J drains"})]
    assert failures.run(["cluster", *options.split()]) == 1
    said = capsys.readouterr().out
    if options == "--json":
        assert json.loads(said)["not_calling"] == "every node\x1b[2J drains"
    else:
        assert "No calls are made: every node\\x1b[2J drains." in said


def test_the_warning_is_red(
    script: Script, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    colours = Console(force_terminal=True, width=150, color_system="standard")
    monkeypatch.setattr(cluster, "make_console", lambda: colours)
    script.answers = [httpx.Response(200, json={**CLUSTER, "not_calling": "every node drains"})]
    assert failures.run(["cluster", "--once"]) == 1
    assert "\x1b[1;31mNo calls are made: every node drains." in capsys.readouterr().out


def test_the_pollers_of_a_client(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    run(script, "clients pollers shop", POLLERS)
    assert script.requests[0].url.path == "/v1/clients/shop/pollers"
    assert words(capsys.readouterr().out)[2][:3] == ["4", "-", "17"]
    run(script, "clients pollers shop --json", POLLERS)
    assert json.loads(capsys.readouterr().out)[0]["backlog"] == 1234


async def test_both_kinds_of_client_have_these_methods() -> None:
    draining = {"node_id": "one", "incarnation": 7, "state": "draining"}
    answers = [CLUSTER, draining, {**draining, "state": "live"}, POLLERS]
    plain, waiting = (Script(*(httpx.Response(200, json=one) for one in answers)) for _ in range(2))
    with plain.api() as api:
        nodes, scope = api.nodes, api.client("shop")
        found = (api.cluster(), nodes.drain("one", force=True), nodes.undrain("one"), scope.pollers())
    async with waiting.async_api() as other:
        cluster_found = await other.cluster()
        drained, taken = await other.nodes.drain("one", force=True), await other.nodes.undrain("one")
        assert (cluster_found, drained, taken, await other.client("shop").pollers()) == found
        assert methods(type(other.nodes)) == methods(type(nodes))
        assert methods(type(other.client("shop"))) == methods(type(scope))
        assert methods(type(other)) == methods(type(api))
    assert [str(one.url) for one in plain.requests] == [str(one.url) for one in waiting.requests]
    assert found[0].nodes[1].beat_age_seconds is None
    assert found[3][0].owner is not None
