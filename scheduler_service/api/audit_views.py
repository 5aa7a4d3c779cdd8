"""How audits are shown."""

import msgspec

from scheduler_service.api.schemas import Instant
from scheduler_service.domain.audits import Audit, AuditCounts, AuditFinding
from scheduler_service.domain.instants import format_instant


class AuditCountsView(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of the window as their rows tell: accepted is the sum of the others, unless a finding says why not."""

    accepted: int
    delivered: int
    failed: int
    cancelled: int
    skipped: int
    open: int


class AuditFindingView(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that must not be. Null is what does not apply: it may be about a lane's minute, or about a cron."""

    kind: str
    detail: str
    poller_id: int | None
    minute: Instant | None
    due: Instant | None
    schedule_id: str | None


class AuditView(msgspec.Struct, frozen=True, kw_only=True):
    """One audit of the window from `from` to before `to`. `findings` counts them by kind, `shown` are the first of
    them; `repaired` counts what was done about them; `left_out` says what was not looked at."""

    audit_id: str
    audited_at: Instant
    start: Instant = msgspec.field(name="from")
    end: Instant = msgspec.field(name="to")
    counts: AuditCountsView
    findings: dict[str, int]
    shown: list[AuditFindingView]
    repaired: dict[str, int]
    left_out: list[str]


def audit_view(audit: Audit) -> AuditView:
    return AuditView(
        audit_id=str(audit.audit_id),
        audited_at=format_instant(audit.audited_at),
        start=format_instant(audit.window_start),
        end=format_instant(audit.window_end),
        counts=_counts(audit.counts),
        findings=audit.findings,
        shown=[_finding(finding) for finding in audit.shown],
        repaired=audit.repaired,
        left_out=list(audit.left_out),
    )


def _counts(counts: AuditCounts) -> AuditCountsView:
    return AuditCountsView(**msgspec.structs.asdict(counts))


def _finding(finding: AuditFinding) -> AuditFindingView:
    instants = {name: getattr(finding, name) for name in ("minute", "due")}
    told = {name: None if instant is None else format_instant(instant) for name, instant in instants.items()}
    return AuditFindingView(**{**msgspec.structs.asdict(finding), **told})
