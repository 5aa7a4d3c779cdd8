"""Reports of audits: one for each client and run, and one for each run over all clients."""

from collections import Counter
from collections.abc import Sequence
from typing import NewType
from uuid import UUID

import msgspec

from scheduler_service.domain.events import Event, EventType, derived_event_id
from scheduler_service.domain.ids import ClientId, UnixMillis, due_of, new_schedule_id
from scheduler_service.domain.instants import format_instant
from scheduler_service.runtime.randomness import Randomness

AuditId = NewType("AuditId", UUID)
"""Names a run. It begins with the run's instant, as a schedule_id does with its due, so audits sort by time."""
SHOWN = 100
"""Findings that a report holds in full; it counts them all."""
EVERY_CLIENT = ClientId("$every")
"""The reports of runs over all clients are stored under this name, which no client can have."""


def new_audit_id(*, at: int, randomness: Randomness) -> AuditId:
    return AuditId(new_schedule_id(due=at, poller_id=0, randomness=randomness))


class AuditCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of the window, counted from their rows: accepted = delivered + failed + cancelled + skipped + open,
    plus those in an unknown state (each of which is a finding)."""

    accepted: int = 0
    delivered: int = 0
    failed: int = 0
    cancelled: int = 0
    skipped: int = 0
    open: int = 0


class AuditFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One violation. Fields that do not apply are null: it may concern a partition or a cron. `minute` and `due` are
    Unix milliseconds."""

    kind: str
    detail: str
    poller_id: int | None = None
    minute: UnixMillis | None = None
    due: UnixMillis | None = None
    schedule_id: str | None = None


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """`audit_id` is the run's, shared by all its reports. The window is [window_start, window_end).

    `findings` counts them by kind, `shown` holds the first of them; `repaired` counts repairs by kind; `left_out` says
    in sentences what was not audited; `told` says that an event tells the client of these findings.
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
    told: bool = False

    @property
    def audited_at(self) -> UnixMillis:
        return due_of(self.audit_id)


def together(audits: Sequence[Audit]) -> Audit:
    """The report of a run over all clients, summed from theirs, without findings in full. Needs one client at least."""
    findings: Counter[str] = Counter()
    repaired: Counter[str] = Counter()
    for audit in audits:
        findings.update(audit.findings)
        repaired.update(audit.repaired)
    names = AuditCounts.__struct_fields__
    return msgspec.structs.replace(
        audits[0],
        client_id=EVERY_CLIENT,
        counts=AuditCounts(**{name: sum(getattr(audit.counts, name) for audit in audits) for name in names}),
        findings=dict(findings),
        shown=(),
        repaired=dict(repaired),
    )


def unbalanced_event(audit: Audit) -> Event | None:
    """What tells the client of the findings; None: there are none. Its id derives from what was found, not from the
    window: an audit that finds the same again, such as a cron that is overdue hour after hour, tells nothing new."""
    if not audit.findings:
        return None
    told = {
        "from": format_instant(audit.window_start),
        "to": format_instant(audit.window_end),
        "findings": audit.findings,
        "audit_id": str(audit.audit_id),
    }
    kind = EventType.BOOKS_UNBALANCED
    found = msgspec.json.encode((sorted(audit.findings.items()), audit.shown)).decode()
    return Event(
        event_id=derived_event_id(audit.client_id, kind, found),
        type=kind,
        at=audit.audited_at,
        data=msgspec.json.encode(told).decode(),
    )


def is_news(audit: Audit, earlier: Sequence[Audit]) -> bool:
    """Whether the audit found anything of which no earlier report has told the client. Of findings beyond those that
    reports show, only their numbers are compared."""
    told = [one for one in earlier if one.told]
    known = {finding for one in told for finding in one.shown}
    if not known.issuperset(audit.shown):
        return True
    beyond = sum(audit.findings.values()) > len(audit.shown)
    return beyond and not any(
        all(count <= one.findings.get(kind, 0) for kind, count in audit.findings.items()) for one in told
    )


def standing_findings(audits: Sequence[Audit]) -> int:
    """How many findings stand. `audits` are newest first; a report is superseded by a newer one that covers its whole
    window."""
    counted: list[Audit] = []
    for audit in audits:
        newer = any(one.window_start <= audit.window_start and audit.window_end <= one.window_end for one in counted)
        if not newer:
            counted.append(audit)
    return sum(sum(audit.findings.values()) for audit in counted)
