"""Whether the findings of all clients' audits still hold."""

import re

import pytest

from cql.memory.connection import InMemoryConnection
from cql.storage import Storage
from membership.errors import StoreUnavailable
from scheduler_service.domain.audits import (
    EVERY_CLIENT,
    Audit,
    AuditCounts,
    AuditFinding,
    new_audit_id,
    standing_findings,
    together,
)
from scheduler_service.domain.clients import CLIENT_ID_PATTERN
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.usecases.storage_probes import AUDITS_LOOK_SECONDS, WatchAudits
from tests.support.api import SeededRandomness
from tests.support.virtual_clock import VirtualClock
from tests.support.virtual_loop import run_virtual

RANDOM = SeededRandomness(3)


def audit(start: int, end: int, *, at: int = 0, client: str = EVERY_CLIENT, **findings: int) -> Audit:
    return Audit(
        client_id=ClientId(client),
        audit_id=new_audit_id(at=1_000_000 + at, randomness=RANDOM),
        window_start=UnixMillis(start),
        window_end=UnixMillis(end),
        findings=findings,
    )


def test_a_window_counts_as_it_was_found_last() -> None:
    assert standing_findings([]) == 0
    assert standing_findings([audit(1, 2, lost=2, left=1), audit(0, 1, lost=4)]) == 7
    # A later audit of the same window, or of one that contains it, replaces the findings.
    assert standing_findings([audit(0, 2), audit(1, 2, lost=1), audit(0, 2, lost=2)]) == 0
    # An audit of a part of it, or of another window, does not cover the rest.
    assert standing_findings([audit(1, 2), audit(0, 2, lost=3)]) == 3
    assert standing_findings([audit(2, 3), audit(0, 2, lost=3)]) == 3


def test_a_run_is_summed_up() -> None:
    one = audit(5, 6, client="a", stranded=1, undefined=2)
    shown = (AuditFinding(kind="stranded", detail=""),)
    both = [
        Audit(
            **{
                name: getattr(each, name)
                for name in ("client_id", "audit_id", "window_start", "window_end", "findings")
            },
            counts=AuditCounts(accepted=accepted, open=1),
            shown=shown,
            repaired={"requeued": 1},
            left_out=("a sentence.",),
        )
        for each, accepted in ((one, 10), (audit(5, 6, client="b", stranded=4), 20))
    ]
    total = together(both)
    assert (total.client_id, total.audit_id) == (EVERY_CLIENT, one.audit_id)
    assert (total.window_start, total.window_end) == (5, 6)
    assert total.counts == AuditCounts(accepted=30, open=2)
    assert total.findings == {"stranded": 5, "undefined": 2}
    assert (total.shown, total.repaired, total.left_out) == ((), {"requeued": 2}, ("a sentence.",))


def test_no_client_can_have_its_name() -> None:
    assert re.match(CLIENT_ID_PATTERN, EVERY_CLIENT) is None


def test_it_is_read_again_and_an_outage_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def crashed(name: str, error: BaseException) -> None:
        raise AssertionError(name) from error

    async def watched() -> None:
        clock = VirtualClock()
        storage = Storage.over(InMemoryConnection())
        watch = WatchAudits(store=storage.audits, clock=clock, on_crash=crashed)
        await watch.stop()
        watch = WatchAudits(store=storage.audits, clock=clock, on_crash=crashed)
        await watch.start()
        await clock.sleep(1)
        assert watch.findings is None, "nobody audits"
        await storage.audits.insert(audit(0, 1, at=0, lost=2))
        await clock.sleep(AUDITS_LOOK_SECONDS)
        assert watch.findings == 2

        async def away(*arguments: object, **named: object) -> None:
            raise StoreUnavailable("no answer")

        with monkeypatch.context() as patched:
            patched.setattr(type(storage.audits), "read_page", away)
            await clock.sleep(AUDITS_LOOK_SECONDS)
            assert watch.findings == 2
        await storage.audits.insert(audit(0, 1, at=1))
        await clock.sleep(AUDITS_LOOK_SECONDS)
        assert watch.findings == 0
        await watch.stop()
        await watch.stop()
        await storage.close()

    run_virtual(watched)
