"""Reconciliations over REST: requested, read, listed, stopped; permissions and bad requests."""

from typing import Any

import msgspec
import pytest

from membership.conditional import Applied
from scheduler_service.api.http.paging import seal
from scheduler_service.api.resources.reconciliations import ReconciledCursor
from scheduler_service.domain.ids import MAX_DUE, UnixMillis, compose_schedule_id
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.reconciliations import ReconciledSchedule, Reconciliation, Seen, advanced
from scheduler_service.domain.schedule_filters import EVERY, ScheduleFilter
from scheduler_service.domain.schedules import State
from scheduler_service.usecases import reconciliations
from scheduler_service.usecases.reconciliations import ReconciliationRequest
from tests.support.api import NOW, ApiHarness, Reply
from tests.support.outcomes import SHOP

ALL = "/v1/clients/shop/reconciliations"
ASKED = {"from": "2026-11-21T09:00:00Z", "to": "2026-11-21T10:00:00Z", "states": ["failed"], "action": "redeliver"}


async def ask(api: ApiHarness, key: str, **fields: object) -> Reply:
    return await api.send("POST", ALL, key=key, json={**ASKED, **fields})


async def asked(api: ApiHarness, key: str, **fields: object) -> dict[str, Any]:
    reply = await ask(api, key, **fields)
    assert reply.status == 202, reply.body
    assert reply.headers["Location"] == f"{ALL}/{reply.json['reconciliation_id']}"
    return dict(reply.json)


async def worked_on(api: ApiHarness, *, finish: bool) -> Reconciliation:
    """Change the newest one as a node would while it works on it."""
    (found,) = await api.storage.reconciliations.read_newest(SHOP, limit=1)
    further = advanced(
        found,
        following=None if finish else (type(found.progress.minute)(found.progress.minute + 7), None),
        seen={State.FAILED: 3},
        outcomes={Seen.REDELIVERED: 2, Seen.GONE: 1},
        lead=0,
        at=api.clock.now,
    )
    assert isinstance(await api.storage.reconciliations.write(further, expected_version=found.version), Applied)
    return further


async def test_one_is_requested_and_read_while_it_runs(api: ApiHarness, key: str) -> None:
    made = await asked(api, key, states=["skipped", "failed", "failed"])
    one = f"{ALL}/{made['reconciliation_id']}"
    assert (await api.send("GET", one, key=key)).json == made
    assert (made["states"], made["created_by"], made["state"]) == (["failed", "skipped"], "shop", "running")
    api.clock.advance(9)
    await worked_on(api, finish=False)
    shown = (await api.send("GET", one, key=key)).json
    progress = {"minutes_done": 7, "minutes_total": 60, "through": "2026-11-21T09:07:00.000Z"}
    assert (shown["progress"], shown["seen"]) == (progress, {"failed": 3})
    assert shown["outcomes"] == {"redelivered": 2, "gone": 1}
    assert shown["updated_at"] == format_instant(NOW + 9_000)
    await worked_on(api, finish=True)
    shown = (await api.send("GET", one, key=key)).json
    assert (shown["state"], shown["progress"]["minutes_done"]) == ("finished", 60)
    assert shown["progress"]["through"] == made["to"]
    assert shown["outcomes"] == {"redelivered": 4, "gone": 2}


async def test_one_is_stopped_and_stays_so(api: ApiHarness, key: str) -> None:
    one = f"{ALL}/{(await asked(api, key))['reconciliation_id']}"
    await worked_on(api, finish=False)
    for _ in range(2):
        reply = await api.send("POST", f"{one}:stop", key=key)
        assert (reply.status, reply.json["state"], reply.json["progress"]["minutes_done"]) == (200, "stopped", 7)
    await asked(api, key)
    await worked_on(api, finish=True)
    (newest, _) = (await api.send("GET", ALL, key=key)).json["items"]
    refused = await api.send("POST", f"{ALL}/{newest['reconciliation_id']}:stop", key=key)
    assert (refused.status, refused.json["type"]) == (409, "/problems/reconciliation-finished")
    assert refused.json["state"] == "finished"


@pytest.mark.parametrize("name", ["x", "019aa5c8-1bc0-7a4e-9c1d-5b7e2f90a364", "019aa5c81bc07a4e9c1d5b7e2f90a364"])
async def test_an_unknown_reconciliation_is_not_found(api: ApiHarness, key: str, name: str) -> None:
    await asked(api, key)
    for method, verb in (("GET", ""), ("GET", "/schedules"), ("POST", ":stop")):
        assert (await api.send(method, f"{ALL}/{name}{verb}", key=key)).status == 404


async def test_they_are_listed_page_by_page_the_newest_first(api: ApiHarness, key: str) -> None:
    made = []
    for _ in range(5):
        made.append(await asked(api, key, action="report"))
        api.clock.advance(1)
    first = (await api.send("GET", ALL, key=key, params={"limit": "3"})).json
    assert first["items"] == made[:1:-1]
    rest = (await api.send("GET", ALL, key=key, params={"cursor": first["next_cursor"]})).json
    assert rest == {"items": made[1::-1], "next_cursor": None}
    for params in ({"cursor": "x"}, {"limit": "101"}):
        assert (await api.send("GET", ALL, key=key, params=params)).status == 422


@pytest.mark.parametrize(
    ("fields", "faults"),
    [
        ({"from": "x", "to": "y"}, {"/from", "/to"}),
        ({"to": "2026-11-21T09:00:00Z"}, {"/to"}),
        ({"to": "2026-12-22T09:00:00.001Z"}, {"/to"}),
        ({"to": "9999-12-31T23:59:59Z"}, {"/to"}),
        ({"states": []}, {"/states"}),
        ({"states": ["failed", "scheduled", "cancelled"]}, {"/states/1", "/states/2"}),
        ({"action": "cancel", "states": ["delivered", "retrying"]}, {"/states/0"}),
        ({"action": "erase", "states": ["x"], "extra": 1}, {"/action", "/states/0", "/extra"}),
        ({"from": "x", "action": "cancel"}, {"/from", "/states/0"}),
        ({"action": "skip", "states": ["scheduled", "retrying"], "to": "2026-11-22T00:00:00Z"}, {"/to", "/states/1"}),
    ],
)
async def test_all_faults_are_named_at_once(
    api: ApiHarness, key: str, fields: dict[str, object], faults: set[str]
) -> None:
    reply = await ask(api, key, **fields)
    assert (reply.status, set(reply.faults)) == (422, faults)


async def test_a_month_may_be_asked_for(api: ApiHarness, key: str) -> None:
    made = await asked(api, key, to="2026-12-22T09:00:00Z", states=["scheduled"], action="cancel")
    assert made["progress"]["minutes_total"] == 31 * 1440


async def test_a_suspended_client_counts_and_cancels_but_redelivers_nothing(api: ApiHarness, key: str) -> None:
    await api.send("POST", "/v1/clients/shop:suspend")
    reply = await ask(api, key)
    assert (reply.status, reply.json["type"]) == (403, "/problems/client-suspended")
    await asked(api, key, action="report")
    await asked(api, key, action="cancel", states=["scheduled"])


async def test_built_in_clients_have_none(api: ApiHarness) -> None:
    await api.add_built_in_clients()
    for action, state in (("report", "failed"), ("cancel", "scheduled"), ("redeliver", "failed")):
        body = {**ASKED, "action": action, "states": [state]}
        reply = await api.send("POST", "/v1/clients/$cron/reconciliations", json=body)
        assert (reply.status, reply.json["type"]) == (409, "/problems/built-in-client")


async def test_a_clock_in_doubt_begins_nothing(api: ApiHarness, key: str) -> None:
    api.clock.trusted = False
    assert (await ask(api, key, action="report")).status == 503


async def test_ten_run_at_a_time_and_an_end_makes_room(api: ApiHarness, key: str) -> None:
    for _ in range(10):
        api.clock.advance(1)
        await asked(api, key)
    refused = await ask(api, key)
    assert (refused.status, refused.json["type"]) == (409, "/problems/too-many-reconciliations")
    assert (await api.send("GET", ALL, key=key)).json["items"][9]["state"] == "running"
    await worked_on(api, finish=True)
    await asked(api, key)
    assert (await ask(api, key)).status == 409
    stopped = (await api.send("GET", ALL, key=key)).json["items"][5]["reconciliation_id"]
    await api.send("POST", f"{ALL}/{stopped}:stop", key=key)
    assert (await ask(api, key)).status == 409, "what it does at this moment is still to be counted"
    api.clock.advance(61)
    await asked(api, key)


async def test_an_id_is_good_for_one_however_often_it_is_asked_for(api: ApiHarness, key: str) -> None:
    made = await asked(api, key)
    requests, store = api.services.reconciliations.request, api.storage.reconciliations
    client = await api.storage.clients.read_client(SHOP)
    (known,) = await store.read_newest(SHOP)
    request = msgspec.convert(ASKED, ReconciliationRequest)
    assert client is not None
    again = await requests.create(
        client, request, reconciliation_id=known.reconciliation_id, created_by=made["created_by"]
    )
    assert (again, await store.read_newest(SHOP)) == (known, [known])
    assert len(await store.read_slots(SHOP)) == 1
    assert known.created_at == UnixMillis(NOW)


@pytest.mark.parametrize(
    ("name", "most"), [("MAX_RECONCILED_MINUTES", 100), ("MAX_RECONCILED_MINUTES", 1), ("MAX_SEEN", 1)]
)
@pytest.mark.parametrize("limit", ["1", "2", "4", "1000"])
async def test_what_was_done_is_listed_page_by_page(
    api: ApiHarness, key: str, monkeypatch: pytest.MonkeyPatch, limit: str, name: str, most: int
) -> None:
    monkeypatch.setattr(reconciliations, name, most)
    monkeypatch.setattr(reconciliations, "LEAST_READ", 1)
    of = f"{ALL}/{(await asked(api, key))['reconciliation_id']}/schedules"
    assert (await api.send("GET", of, key=key)).json == {"items": [], "next_cursor": None}
    (one,) = await api.storage.reconciliations.read_newest(SHOP)
    outcomes = [Seen.REDELIVERED, Seen.OPEN, Seen.REFUSED, Seen.REDELIVERED, Seen.OPEN]
    done = [
        ReconciledSchedule(
            due := UnixMillis(one.start + at // 2 * 60_000),
            compose_schedule_id(due=due, poller_id=0, tail=at),
            outcome,
            None if outcome is Seen.REDELIVERED else "retrying",
        )
        for at, outcome in enumerate(outcomes)
    ]
    await api.storage.reconciliations.write_reconciled(one, done)

    async def listed(**query: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        params = {"limit": limit, **query}
        while True:
            api.clock.advance(1)
            reply = await api.send("GET", of, key=key, params=params)
            assert reply.status == 200, reply.body
            assert len(reply.json["items"]) <= int(limit)
            found += reply.json["items"]
            if reply.json["next_cursor"] is None:
                return found
            params = {"limit": limit, "cursor": reply.json["next_cursor"]}

    shown = [
        {
            "schedule_id": str(handled.schedule_id),
            "due": format_instant(handled.due),
            "outcome": handled.outcome.value,
            "reason": handled.reason,
        }
        for handled in done
    ]
    assert await listed() == shown
    assert await listed(outcome="open") == [shown[1], shown[4]]
    assert await listed(outcome="gone") == []


async def test_a_cursor_lists_what_its_own_reconciliation_did(api: ApiHarness, key: str) -> None:
    first = (await asked(api, key))["reconciliation_id"]
    (one,) = await api.storage.reconciliations.read_newest(SHOP)
    done = [
        ReconciledSchedule(one.start, compose_schedule_id(due=one.start, poller_id=0, tail=tail), Seen.OPEN)
        for tail in range(2)
    ]
    await api.storage.reconciliations.write_reconciled(one, done)
    api.clock.advance(1)
    second = (await asked(api, key))["reconciliation_id"]
    cursor = (await api.send("GET", f"{ALL}/{first}/schedules", key=key, params={"limit": "1"})).json["next_cursor"]
    assert cursor is not None
    for of, params, faults in (
        (second, {"cursor": cursor}, {"/cursor"}),
        (first, {"cursor": cursor, "outcome": "gone"}, {"/outcome"}),
        (first, {"cursor": "x", "outcome": "x", "limit": "0"}, {"/cursor", "/outcome", "/limit"}),
    ):
        reply = await api.send("GET", f"{ALL}/{of}/schedules", key=key, params=params)
        assert (reply.status, set(reply.faults)) == (422, faults)
    for due in (-1, MAX_DUE + 1):
        forged = seal(SHOP, ReconciledCursor(one.reconciliation_id, None, due, done[0].schedule_id))
        reply = await api.send("GET", f"{ALL}/{first}/schedules", key=key, params={"cursor": forged})
        assert (reply.status, set(reply.faults)) == (422, {"/cursor"})


async def test_filters_are_kept_and_shown(api: ApiHarness, key: str) -> None:
    given = {"label": ["b", "a", "b"], "host": "A.example", "key_prefix": "cart-", "destination": "mail"}
    made = await asked(api, key, **given, cron_id="nightly")
    assert made["filters"] == {
        "label": ["a", "b"],
        "cron_id": "nightly",
        "destination": "mail",
        "host": "a.example",
        "key_prefix": "cart-",
    }
    assert (await api.send("GET", f"{ALL}/{made['reconciliation_id']}", key=key)).json == made
    assert (await asked(api, key, label="x"))["filters"] == {"label": ["x"]}
    assert (await asked(api, key))["filters"] == {}
    stored = {row["action"]: row["filter"] for row in api.connection.rows("reconciliations")}
    assert stored["redeliver"] is None
    assert set(stored) == {"redeliver", "redeliver filtered"}, "programs that know no filters know no such action"
    kept = [one.filter for one in await api.storage.reconciliations.read_newest(SHOP)]
    assert EVERY in kept
    assert ScheduleFilter(labels=("x",)) in kept


async def test_all_faults_of_filters_are_named_with_the_others(api: ApiHarness, key: str) -> None:
    reply = await ask(
        api, key, to="x", states=["gone"], label=["x" * 257], host="a:1", destination="A", key_prefix="", no=1
    )
    assert reply.status == 422
    assert set(reply.faults) == {"/to", "/states/0", "/label", "/host", "/destination", "/key_prefix", "/no"}
    reply = await ask(api, key, states=["cancelled"], label=[str(number) for number in range(21)], host="")
    assert (reply.status, set(reply.faults)) == (422, {"/states/0", "/label", "/host"})
    assert await api.storage.reconciliations.read_newest(SHOP) == []


async def test_a_repeat_that_gives_no_filter_is_the_same_request_as_before_there_were_any() -> None:
    """Its fingerprint is that of what it says, so a repeat across an upgrade is recognised."""
    request = msgspec.convert(ASKED, ReconciliationRequest)
    assert sorted(msgspec.json.decode(msgspec.json.encode(request))) == sorted(ASKED)
