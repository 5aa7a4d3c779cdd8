"""What an audit of the books found: one report for each client and run."""

from typing import NewType
from uuid import UUID

import msgspec

from scheduler_service.domain.ids import ClientId, UnixMillis, due_of, new_schedule_id
from scheduler_service.runtime.randomness import Randomness

AuditId = NewType("AuditId", UUID)
"""Of a run. It begins with the run's instant, as a schedule's id does with its due, so audits are in order of time."""
SHOWN = 100
"""Findings that a report holds in full; it counts them all."""


def new_audit_id(*, at: int, randomness: Randomness) -> AuditId:
    return AuditId(new_schedule_id(due=at, poller_id=0, randomness=randomness))


class AuditCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of the window as their rows tell: accepted = delivered + failed + cancelled + skipped + open, and what
    is in a state that there is not (each of which is a finding)."""

    accepted: int = 0
    delivered: int = 0
    failed: int = 0
    cancelled: int = 0
    skipped: int = 0
    open: int = 0


class AuditFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that must not be. What it is about is null where it is about more: a partition, a cron. `minute` and
    `due` are Unix milliseconds."""

    kind: str
    detail: str
    poller_id: int | None = None
    minute: UnixMillis | None = None
    due: UnixMillis | None = None
    schedule_id: str | None = None


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """`audit_id` is that of the run, whose reports all have it. The window is [window_start, window_end).

    `findings` counts them by kind, `shown` are the first of them; `repaired` says what was done about them, by what was
    done; `left_out` says in sentences what was not looked at.
    """

    client_id: ClientId
    audit_id: AuditId
    window_start: UnixMillis
    window_end: UnixMillis
    counts: AuditCounts = AuditCounts()
    findings: dict[str, int] = {}
    shown: tuple[AuditFinding, ...] = ()
    repaired: dict[str, int] = {}
    left_out: tuple[str, ...] = ()

    @property
    def audited_at(self) -> UnixMillis:
        return due_of(self.audit_id)
