"""GET .../audits: the reports and their pages."""

from collections.abc import AsyncIterator

import pytest

from scheduler_service.domain.audits import Audit, AuditCounts, AuditFinding, new_audit_id
from scheduler_service.domain.ids import ClientId, UnixMillis
from tests.contract.builders import START
from tests.support.api import ApiHarness, SeededRandomness

AUDITS = "/v1/clients/shop/audits"


@pytest.fixture
async def api() -> AsyncIterator[ApiHarness]:
    async with ApiHarness() as harness:
        yield harness


@pytest.fixture
async def key(api: ApiHarness) -> str:
    return await api.register()


async def store(api: ApiHarness, count: int, *, client_id: str = "shop") -> list[str]:
    """Store reports; returns them newest first."""
    randomness, ids = SeededRandomness(4), []
    for number in range(count):
        audit = Audit(
            client_id=ClientId(client_id),
            audit_id=new_audit_id(at=START + number, randomness=randomness),
            window_start=UnixMillis(START),
            window_end=UnixMillis(START + 3_600_000),
            counts=AuditCounts(accepted=3, delivered=2, open=1),
            findings={"stranded": 1, "wrong-balance": 1},
            shown=(
                AuditFinding(
                    kind="stranded",
                    detail="has no outcome",
                    poller_id=3,
                    minute=UnixMillis(START),
                    due=UnixMillis(START + 1),
                    schedule_id="i",
                ),
                AuditFinding(kind="wrong-balance", detail="differs"),
            ),
            repaired={"requeued": 1},
            left_out=("The index was not looked at.",),
        )
        await api.storage.audits.insert(audit)
        ids.insert(0, str(audit.audit_id))
    return ids


async def test_what_an_audit_found(api: ApiHarness, key: str) -> None:
    (audit_id,) = await store(api, 1)
    await store(api, 1, client_id="other")
    reply = await api.send("GET", AUDITS, key=key)
    assert reply.json == {
        "items": [
            {
                "audit_id": audit_id,
                "audited_at": "2026-06-21T00:00:00.000Z",
                "from": "2026-06-21T00:00:00.000Z",
                "to": "2026-06-21T01:00:00.000Z",
                "counts": {"accepted": 3, "delivered": 2, "failed": 0, "cancelled": 0, "skipped": 0, "open": 1},
                "findings": {"stranded": 1, "wrong-balance": 1},
                "shown": [
                    {
                        "kind": "stranded",
                        "detail": "has no outcome",
                        "poller_id": 3,
                        "minute": "2026-06-21T00:00:00.000Z",
                        "due": "2026-06-21T00:00:00.001Z",
                        "schedule_id": "i",
                    },
                    {
                        "kind": "wrong-balance",
                        "detail": "differs",
                        "poller_id": None,
                        "minute": None,
                        "due": None,
                        "schedule_id": None,
                    },
                ],
                "repaired": {"requeued": 1},
                "left_out": ["The index was not looked at."],
            }
        ],
        "next_cursor": None,
    }


async def test_audits_are_paged(api: ApiHarness, key: str) -> None:
    ids = await store(api, 41)
    found, query = [], {}
    pages = 0
    while True:
        reply = await api.send("GET", AUDITS, key=key, params=query)
        found += [one["audit_id"] for one in reply.json["items"]]
        pages += 1
        if reply.json["next_cursor"] is None:
            break
        query = {"cursor": reply.json["next_cursor"]}
    assert found == ids
    assert pages == 3
    reply = await api.send("GET", AUDITS, key=key, params={"limit": "41"})
    assert [one["audit_id"] for one in reply.json["items"]] == ids
    assert reply.json["next_cursor"] is None


@pytest.mark.parametrize(
    ("query", "pointers"),
    [
        ({"limit": "0"}, {"/limit"}),
        ({"limit": "101", "cursor": "x"}, {"/limit", "/cursor"}),
        ({"cursor": "AAAA"}, {"/cursor"}),
    ],
)
async def test_what_can_not_be_asked(api: ApiHarness, key: str, query: dict[str, str], pointers: set[str]) -> None:
    reply = await api.send("GET", AUDITS, key=key, params=query)
    assert reply.status == 422
    assert set(reply.faults) == pointers
