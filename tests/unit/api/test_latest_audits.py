"""GET /v1/cluster/audits: the newest audit of each client, in which order, and what a look costs."""

from typing import Any

import pytest

from membership.errors import StoreUnavailable
from scheduler_service.domain.audits import EVERY_CLIENT, Audit, AuditCounts, AuditFinding, new_audit_id
from scheduler_service.domain.ids import HOUR_MS, ClientId, UnixMillis
from scheduler_service.usecases import latest_audits
from scheduler_service.usecases.latest_audits import LATEST_KEPT_SECONDS
from tests.contract.builders import START
from tests.support.api import ApiHarness, SeededRandomness

ALL = "/v1/cluster/audits"


async def audited(api: ApiHarness, name: str, *, hour: int = 0, findings: dict[str, int] | None = None) -> None:
    """A report of the window of an hour."""
    audit = Audit(
        client_id=ClientId(name),
        audit_id=new_audit_id(at=START + (hour + 1) * HOUR_MS, randomness=SeededRandomness(hour)),
        window_start=UnixMillis(START + hour * HOUR_MS),
        window_end=UnixMillis(START + (hour + 1) * HOUR_MS),
        counts=AuditCounts(accepted=3, delivered=2, open=1),
        findings=findings or {},
        shown=(AuditFinding(kind="stranded", detail="has no outcome"),),
        repaired={"requeued": 1},
        left_out=("The index was not looked at.",),
    )
    await api.storage.audits.insert(audit)


async def shown(api: ApiHarness, **query: str) -> Any:
    api.clock.advance(LATEST_KEPT_SECONDS * 2)
    reply = await api.send("GET", ALL, params=query)
    assert reply.status == 200, reply.body
    return reply.json


def names(found: Any) -> list[str]:
    return [one["client_id"] for one in found["items"]]


async def test_the_newest_of_each_client_is_shown_those_with_findings_first(api: ApiHarness) -> None:
    for name in ("bank", "mill", "shop", "zoo"):
        await api.register(name)
    await audited(api, "bank", hour=0, findings={"stranded": 9})
    await audited(api, "bank", hour=1)
    await audited(api, "mill", hour=1, findings={"stranded": 1})
    await audited(api, "shop", hour=1, findings={"stranded": 1, "wrong-balance": 2})
    found = await shown(api)
    assert names(found) == ["shop", "mill", "bank"]
    assert (found["clients"], found["clients_unaudited"], found["clients_left_out"]) == (3, 1, 0)
    assert found["items"][0] == {
        "client_id": "shop",
        "audit_id": found["items"][0]["audit_id"],
        "audited_at": "2026-06-21T02:00:00.000Z",
        "from": "2026-06-21T01:00:00.000Z",
        "to": "2026-06-21T02:00:00.000Z",
        "counts": {"accepted": 3, "delivered": 2, "failed": 0, "cancelled": 0, "skipped": 0, "open": 1},
        "findings": {"stranded": 1, "wrong-balance": 2},
        "repaired": {"requeued": 1},
        "left_out": ["The index was not looked at."],
    }
    assert found["items"][2]["findings"] == {}


async def test_pages_go_on_where_they_ended(api: ApiHarness) -> None:
    for at, name in enumerate("abcde"):
        await api.register(name)
        await audited(api, name, findings={"stranded": at % 2} if at % 2 else {})
    listed: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        found = await shown(api, limit="2", **cursor)
        listed += names(found)
        if found["next_cursor"] is None:
            break
        cursor = {"cursor": found["next_cursor"]}
    assert listed == ["b", "d", "a", "c", "e"]
    assert (await api.send("GET", ALL, params={"cursor": "x"})).status == 422


async def test_findings_that_stand_are_counted_also_where_the_newest_audit_found_none(api: ApiHarness) -> None:
    await api.register("shop")
    assert (await shown(api))["findings_standing"] is None
    for name in ("shop", EVERY_CLIENT):
        await audited(api, name, hour=0, findings={"stranded": 4})
        await audited(api, name, hour=1)
    found = await shown(api)
    assert (found["findings_standing"], found["items"][0]["findings"]) == (4, {})
    assert names(found) == ["shop"]


async def test_a_look_reads_a_bounded_number_of_clients_and_says_so(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latest_audits, "MAX_AUDITED_CLIENTS", 2)
    for name in "abc":
        await api.register(name)
        await audited(api, name)
    found = await shown(api)
    assert (names(found), found["clients"], found["clients_left_out"]) == (["a", "b"], 2, 1)


async def test_deleted_clients_are_not_shown_and_a_look_is_kept(api: ApiHarness) -> None:
    await api.register("shop")
    await audited(api, "shop")
    assert names(await shown(api)) == ["shop"]
    for method, path in (("POST", "/v1/clients/shop:suspend"), ("DELETE", "/v1/clients/shop")):
        assert (await api.send(method, path)).status < 300
    assert names((await api.send("GET", ALL)).json) == ["shop"]
    assert (await shown(api))["clients"] == 0


async def test_only_administrators_see_it(api: ApiHarness) -> None:
    assert (await api.send("GET", ALL, key=await api.register())).status == 403


async def test_storage_that_is_away_is_no_empty_list(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object, **__: object) -> list[Audit]:
        raise StoreUnavailable("no answer")

    await api.register()
    monkeypatch.setattr(type(api.storage.audits), "read_page", away)
    assert (await api.send("GET", ALL)).status == 503
