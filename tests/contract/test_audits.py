"""Reports of audits."""

from uuid import UUID

import pytest

from cql.storage import Storage
from scheduler_service.domain.audits import Audit, AuditCounts, AuditFinding, AuditId, new_audit_id
from scheduler_service.domain.ids import ClientId, UnixMillis
from tests.contract.builders import START
from tests.contract.conftest import Names
from tests.support.api import SeededRandomness

pytestmark = pytest.mark.asyncio(loop_scope="session")
RANDOM = SeededRandomness(8)


def audit(client_id: ClientId, at: int) -> Audit:
    return Audit(
        client_id=client_id,
        audit_id=new_audit_id(at=START + at, randomness=RANDOM),
        window_start=UnixMillis(START),
        window_end=UnixMillis(START + 3_600_000),
    )


async def test_audits_come_back_as_they_were(storage: Storage, names: Names) -> None:
    full = Audit(
        client_id=names.client(),
        audit_id=AuditId(UUID("019b5a3a-fc00-8000-8000-000000000001")),
        window_start=UnixMillis(1),
        window_end=UnixMillis(2),
        counts=AuditCounts(accepted=1 << 40, delivered=2, failed=3, cancelled=4, skipped=5, open=6),
        findings={"stranded": 1, "overdue-cron": 1 << 33},
        shown=(
            AuditFinding(
                kind="stranded", detail="é", poller_id=0, minute=UnixMillis(0), due=UnixMillis(9), schedule_id="i"
            ),
            AuditFinding(kind="overdue-cron", detail=""),
        ),
        repaired={"requeued": 1},
        left_out=("one sentence.",),
        told=True,
    )
    for _ in range(2):
        await storage.audits.insert(full)
    assert await storage.audits.read_page(full.client_id) == [full]
    assert full.audited_at == 0x019B5A3AFC00
    bare = audit(names.client("-bare"), 0)
    await storage.audits.insert(bare)
    assert await storage.audits.read_page(bare.client_id) == [bare]


async def test_audits_are_listed_newest_first(storage: Storage, names: Names) -> None:
    client = names.client()
    audits = [audit(client, at) for at in (0, 0, 1, 1 << 40, -1)]
    for one in audits:
        await storage.audits.insert(one)
    newest = sorted(audits, key=lambda one: one.audit_id, reverse=True)
    assert [one.audited_at for one in newest] == [START + at for at in (1 << 40, 1, 0, 0, -1)]
    assert await storage.audits.read_page(client) == newest
    assert await storage.audits.read_page(client, limit=2) == newest[:2]
    assert await storage.audits.read_page(client, after=newest[1].audit_id, limit=2) == newest[2:4]
    assert await storage.audits.read_page(client, after=newest[4].audit_id) == []
    assert await storage.audits.read_page(names.client("-none")) == []
