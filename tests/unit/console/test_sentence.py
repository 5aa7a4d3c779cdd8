"""What an operator's first page says: what is wrong and what to do, the most urgent first."""

from typing import Any

import pytest

from membership.errors import StoreUnavailable
from scheduler_service.console.findings import findings_of, sentence_of
from scheduler_service.runtime.health import CLOCK_UNTRUSTED, Reason
from tests.support.api import ADMIN_KEY, ApiHarness
from tests.unit.console.conftest import browser_of
from tests.unit.console.test_login import Wire

NODE: dict[str, Any] = {
    "node_id": "a",
    "state": "live",
    "beat_age_seconds": 0.5,
    "clock_offset_ms": 3,
    "capacity_per_minute": 60_000,
}
ALL_OWNED: dict[str, Any] = {
    "pollers": {"total": 3, "owned": 3},
    "nodes": [NODE],
    "not_calling": None,
    "guaranteed_calls_per_minute": 3_000,
    "capacity_per_minute": 60_000,
}
NO_NODE = {"not_calling": "no node beats: start a node, or find out why", "pollers": {"total": 3, "owned": 0}}
DRAINED = {
    "not_calling": "all nodes are drained: undrain one, or start one",
    "nodes": [{**NODE, "state": "draining"}],
    "pollers": {"total": 3, "owned": 0},
}
EMPTY_AND_DRAINING = {"nodes": [{**NODE, "state": "draining"}]}
CLOCK_OFF = {"nodes": [NODE, {**NODE, "node_id": "b", "clock_offset_ms": -4200}]}
UNOWNED = {"pollers": {"total": 3, "owned": 1}}
TOO_SMALL = {"guaranteed_calls_per_minute": 150_000}


def calls_of(rate: float = 0.0, *, silent: tuple[str, ...] = ()) -> dict[str, Any]:
    late = [{"part": part, "seconds": 0.05} for part in (0.5, 0.9, 0.99, 1.0)]
    return {"per_second": rate, "late": late, "nodes_not_answering": list(silent)}


def backlog_of(rows: int, *held_by: str) -> list[dict[str, Any]]:
    return [{"overdue": {"rows": rows}, "held_by": list(held_by)}]


@pytest.mark.parametrize(
    ("cluster", "tone", "text", "advice"),
    [
        (NO_NODE, "bad", "No calls are made: no node beats.", "Start a node, or find out why."),
        (DRAINED, "bad", "No calls are made: all nodes are drained.", "Undrain one, or start one."),
        (EMPTY_AND_DRAINING, "bad", "No node is live, so no call would be made.", "Undrain a, or start one"),
        (CLOCK_OFF, "bad", "The clock of b is 4.2 s behind the others: it makes no calls.", "time service"),
        (UNOWNED, "warn", "2 of 3 pollers have no owner: their calls are late.", "start more nodes"),
        (TOO_SMALL, "warn", "Nodes can call 60,000 a minute, and 150,000 are guaranteed.", "Start 2 more like these"),
    ],
)
def test_each_case_says_what_is_wrong_and_what_to_do(
    cluster: dict[str, Any], tone: str, text: str, advice: str
) -> None:
    first = sentence_of({**ALL_OWNED, **cluster}, calls_of(), [])
    assert (first.tone, first.text) == (tone, text)
    assert first.advice is not None
    assert advice in first.advice


@pytest.mark.parametrize(
    ("held_by", "advice"),
    [
        (("overdue-rate", "quota", "recovery"), "An overdue rate holds them back on purpose"),
        (("quota", "recovery"), "raise the quota"),
        (("client-paused",), "unpause it"),
        (("client-suspended",), "resume it"),
        (("no-owner", "overdue-rate"), "start nodes"),
        (("recovery",), "nothing has to be done"),
        ((), "Below is whose they are"),
    ],
)
def test_overdue_calls_say_what_holds_them(held_by: tuple[str, ...], advice: str) -> None:
    first = sentence_of(ALL_OWNED, calls_of(), backlog_of(1234, *held_by))
    assert (first.tone, first.text) == ("warn", "1,234 calls are overdue.")
    assert first.advice is not None
    assert advice in first.advice


def test_the_most_urgent_comes_first_and_nothing_is_left_out() -> None:
    cluster = {**ALL_OWNED, **CLOCK_OFF, **UNOWNED, **TOO_SMALL}
    unready = [{"reason": "clock-untrusted", "detail": "the clock is 3 s ahead: creates are refused"}]
    found = findings_of(cluster, calls_of(silent=("c",)), backlog_of(1), unready=unready)
    begins = ["The clock of b", "This API refuses", "2 of 3", "Nodes can call", "1 call is overdue", "c does not"]
    assert [one.text.startswith(begin) for one, begin in zip(found, begins, strict=True)] == [True] * len(begins)
    assert [one.tone for one in found] == sorted((one.tone for one in found), key=["bad", "warn"].index)
    both = findings_of({**ALL_OWNED, **NO_NODE}, calls_of(), backlog_of(7))
    assert [one.tone for one in both] == ["bad", "warn"], "pollers without owner follow from it"


def test_it_says_how_many_calls_are_made_and_how_late() -> None:
    assert sentence_of(ALL_OWNED, calls_of(1204.0), []) == (
        "good",
        "Calls are made: 1,204 a second, 99 % within 50 ms.",
        None,
    )
    assert sentence_of(ALL_OWNED, calls_of(), [])[1] == "Calls are made; none was due within the last minute."
    advice = sentence_of(ALL_OWNED, calls_of(1204.0), backlog_of(3))[2]
    assert advice is not None
    assert advice.startswith("Calls are made: 1,204 a second"), "what works is said where something does not"


def test_a_node_that_dies_is_told_of_until_it_is_there_again() -> None:
    def with_other(**state: Any) -> list[tuple[str, str, str | None]]:
        return [*findings_of({**ALL_OWNED, "nodes": [NODE, {**NODE, "node_id": "b", **state}]}, calls, [])]

    calls = calls_of(2.0, silent=("b",))
    begins = [one[1].partition(":")[0] for one in with_other(beat_age_seconds=3.9)]
    assert begins == ["b does not answer this API"]
    ((tone, text, advice),) = with_other(beat_age_seconds=4.0)
    assert (tone, text) == ("warn", "b does not beat: what it has to call is late.")
    assert advice is not None
    assert "restart it" in advice
    calls = calls_of(2.0)
    ((tone, text, advice),) = with_other(state="dead", beat_age_seconds=300.0)
    assert (tone, text[:14]) == ("good", "Calls are made")
    assert advice == "b died, and other nodes have taken over. Restart what should run."
    for well in ({"state": "left", "beat_age_seconds": 300.0}, {"beat_age_seconds": None}, {}):
        assert with_other(**well)[0][2] is None


async def test_without_storage_a_page_says_what_to_do(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(api)
    cookie = await wire.session()

    async def silent(*_: object) -> None:
        raise StoreUnavailable("no answer")

    monkeypatch.setattr(api.services.cluster, "show", silent)
    answer = await wire.send("GET", "/console/cluster", cookie=cookie)
    assert (answer.status, "Cassandra does not answer this API" in answer.text) == (503, True)
    monkeypatch.setattr(api.services.sessions, "find", silent)
    answer = await wire.send("GET", "/console/cluster", cookie=cookie)
    assert (answer.status, "nodetool status" in answer.text) == (503, True)
    await wire.close()


async def test_an_api_whose_clock_is_in_doubt_says_so(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unready() -> list[Reason]:
        return [Reason(CLOCK_UNTRUSTED, "the clock is 3 s ahead of the nodes': creates are refused")]

    async with browser_of(api) as browser:
        await browser.log_in(ADMIN_KEY)
        assert "This API refuses" not in (await browser.open("/console/cluster")).text
        monkeypatch.setattr(api.services.health, "unready", unready)
        shown = await browser.open("/console/cluster")
    assert "This API refuses creates: the clock is 3 s ahead of the nodes'." in shown.text
    assert "Set this machine's clock right" in shown.text


async def test_an_overdue_rate_is_put_and_taken_away(api: ApiHarness) -> None:
    async with browser_of(api) as browser:
        await browser.log_in(ADMIN_KEY)
        shown = await browser.open("/console/cluster")
        form = next(one for one in shown.forms if one.action.endswith("/overdue-rate"))
        wrong = await browser.submit(shown, form, overdue_per_second="fast")
        assert (wrong.status, 'aria-invalid="true"' in wrong.source) == (422, True)
        shown = await browser.submit(shown, form, overdue_per_second="50")
        assert "At most 50 overdue calls are made a second" in shown.text
        assert (await api.send("GET", "/v1/cluster/overdue-rate")).json == {"overdue_per_second": 50.0}
        form = next(one for one in shown.forms if one.action.endswith("/overdue-rate"))
        shown = await browser.submit(shown, form, overdue_per_second="")
        assert "as fast as limits permit" in shown.text
    assert (await api.send("GET", "/v1/cluster/overdue-rate")).json == {"overdue_per_second": None}
