"""The results of audits of a client's books."""

from datetime import datetime

import msgspec

from minutehand.client._calls import Operation, client_path, given, number
from minutehand.client._models import Page


class AuditCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The schedules of an audited window by their state, counted from the rows. Accepted is the sum of the others,
    unless a finding says why not."""

    accepted: int
    delivered: int
    failed: int
    cancelled: int
    skipped: int
    open: int


class AuditFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One inconsistency. Fields that do not apply are None: it may be about a poller's minute, or about a cron."""

    kind: str
    detail: str
    poller_id: int | None = None
    minute: datetime | None = None
    due: datetime | None = None
    schedule_id: str | None = None


class Audit(msgspec.Struct, frozen=True, kw_only=True, rename={"start": "from", "end": "to"}):
    """An audit of the books between `start` and `end`. `findings` counts findings by kind, `shown` holds the first of
    them; `repaired` counts repairs, `left_out` says what was not examined."""

    audit_id: str
    audited_at: datetime
    start: datetime
    end: datetime
    counts: AuditCounts
    findings: dict[str, int] = {}
    shown: tuple[AuditFinding, ...] = ()
    repaired: dict[str, int] = {}
    left_out: tuple[str, ...] = ()


class LatestAudit(msgspec.Struct, frozen=True, kw_only=True, rename={"start": "from", "end": "to"}):
    """A client's newest audit, as `Audit` without what was found in full."""

    client_id: str
    audit_id: str
    audited_at: datetime
    start: datetime
    end: datetime
    counts: AuditCounts
    findings: dict[str, int] = {}
    repaired: dict[str, int] = {}
    left_out: tuple[str, ...] = ()


class LatestAudits(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the newest audits, one of each client, those with most findings first. `clients` have one,
    `clients_unaudited` have none, `clients_left_out` were not looked at. `findings_standing`: findings of runs over all
    clients that no newer run supersedes; None: there was no such run. Give `next_cursor` for the next page; None: there
    is none."""

    items: tuple[LatestAudit, ...]
    clients: int
    clients_unaudited: int
    clients_left_out: int
    findings_standing: int | None = None
    next_cursor: str | None = None


def list_latest_audits(*, cursor: str | None, page_size: int | None) -> Operation[LatestAudits]:
    query = given({"cursor": cursor, "limit": number(page_size)})
    return Operation(method="GET", path="/v1/cluster/audits", answer=LatestAudits, query=query)


def list_audits(client_id: str, *, page_size: int | None) -> Operation[Page[Audit]]:
    query = given({"limit": number(page_size)})
    return Operation(method="GET", path=f"{client_path(client_id)}/audits", answer=Page[Audit], query=query)
