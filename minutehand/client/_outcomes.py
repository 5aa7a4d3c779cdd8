"""Outcomes of schedules, and of operations on many of them. Instants are aware datetimes."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

import msgspec

from minutehand.client._models import SentCallback


class Acknowledgement(msgspec.Struct, frozen=True, kw_only=True):
    """What a receiver said later of a call that it had taken by 202. `result` is done, failed or extend; `data` is what
    it handed over."""

    result: str
    at: datetime
    reason: str | None = None
    data: Any = None


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of a schedule, numbered from 1. `outcome` is delivered, failed, snoozed, or awaiting while its
    receiver has yet to say; `error` is a stable word where there was no answer, and `excerpt` says then in a sentence
    why; otherwise it is the beginning of the answer to a failed one. `verb`: what the receiver asked for in its
    answer's headers; `verb_ignored`: why it was not obeyed. `acknowledgement`: the last that it said after a 202.
    Fields that were not recorded are None."""

    attempt: int
    outcome: str
    started_at: datetime | None = None
    finished_at: datetime | None = None
    duration_seconds: float | None = None
    status: int | None = None
    error: str | None = None
    excerpt: str | None = None
    verb: str | None = None
    verb_ignored: str | None = None
    acknowledgement: Acknowledgement | None = None


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that failed for good at `failed_at`, and why. `letter_id` names this failure. `state` is the present
    one, expired once it is not kept any more. `acknowledged_by`: the id of a key, or an administrator's name."""

    schedule_id: str
    failed_at: datetime
    state: str
    letter_id: str = ""
    attempts: int = 0
    reason: str | None = None
    last_status: int | None = None
    last_error: str | None = None
    label: str | None = None
    host: str | None = None
    destination: str | None = None
    acknowledged_at: datetime | None = None
    acknowledged_by: str | None = None


class LetterFilters(TypedDict, total=False):
    """Which dead letters: by the instant of failure, from `start` (24 hours before `end`, the most there is) until
    before `end` (now); by host, destination, last HTTP status (503, or a class such as "5xx"), reason, last
    error and label."""

    start: datetime | str | None
    end: datetime | str | None
    host: str | None
    destination: str | None
    status: int | str | None
    reason: str | None
    error: str | None
    label: str | None


class LetterSelection(LetterFilters, total=False):
    """Dead letters to act on: listed ones by their `letter_id`, or those of a window that are not acknowledged, `limit`
    (100, at most 1,000) at a time. Continue with the cursor of the answer alone."""

    letter_ids: Sequence[str]
    limit: int
    cursor: str


class RescheduleItem(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one reschedule of many: status 200 `rescheduled_to` is called instead, 404 not found, 409 it stays
    (in flight, ended otherwise as `state` says, in-doubt or rescheduled-since as `reason` says, or rescheduled to
    `rescheduled_to` before), 422 it can't be due then (`reason`), 503 unknown: ask again."""

    schedule_id: str
    status: int
    state: str | None = None
    reason: str | None = None
    rescheduled_to: str | None = None

    @property
    def rescheduled(self) -> bool:
        return self.status == 200


class CronChange(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one cron of many: status 200 it is as wanted (`changed`: by this request; in a dry run it would
    be), 404 deleted meanwhile, 409 finished, 503 unknown: ask again."""

    cron_id: str
    status: int
    state: str | None = None
    changed: bool = False
    revision: int | None = None


class BackfillItem(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one fire of a backfill: status 202 it is called at `due` (in a dry run it would be), 409 it is
    left as it is (`state` and `reason` say how), 404 it is not kept any more, 503 unknown: ask again."""

    nominal_due: datetime
    status: int
    schedule_id: str
    due: datetime | None = None
    state: str | None = None
    reason: str | None = None

    @property
    def called(self) -> bool:
        return self.status == 202


class CancelItem(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one cancel of many: status 200 cancelled, 404 not found, 409 in flight or ended otherwise (`state`
    says how), 503 unknown: ask again.

    `reason` in-doubt with 200: it is not called any more, but may have been called before. `rescheduled_to` with 409:
    the schedule that is called instead, which was not cancelled.
    """

    schedule_id: str
    status: int
    state: str | None = None
    reason: str | None = None
    rescheduled_to: str | None = None

    @property
    def cancelled(self) -> bool:
        return self.status == 200


class RedrivenItem(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one dead letter: status 202 its schedule is called again, 404 it is not kept any more, 409 it is
    open or was redelivered since (`state` says how it is), or, with the `reason` events-gone, a notice whose events are
    not kept any more."""

    letter_id: str
    status: int
    state: str | None = None
    reason: str | None = None


class AcknowledgedItem(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one dead letter: status 200 it is acknowledged, 404 there is no such letter."""

    letter_id: str
    status: int
    acknowledged_at: datetime | None = None
    acknowledged_by: str | None = None


class Acknowledged(msgspec.Struct, frozen=True, kw_only=True):
    """How many dead letters were not acknowledged before, and the result for each. `next_cursor` None: there are no
    more."""

    acknowledged: int
    items: tuple[AcknowledgedItem, ...] = ()
    next_cursor: str | None = None


class Redriven(msgspec.Struct, frozen=True, kw_only=True):
    """How many dead letters are called again, and how many were passed over because their schedules are not kept any
    more or have been redelivered since, or their notices have nothing to tell any more. `next_cursor` None: there are
    no more."""

    redelivered: int
    passed_over: int
    items: tuple[RedrivenItem, ...] = ()
    next_cursor: str | None = None


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What an administrator did, with `by_client` a client about itself, or a node by itself. `actor` is the
    administrator's name, the client's, or `$system`, and then `details` name the node; `key_id` is None for the
    configured key, and where a client looks at administrators; `action` is an operation of the API, `target` the names
    in its path, `details` the ids of what was created.

    `result`: done; refused (nothing was changed); or unknown (it may have been done).
    """

    entry_id: str
    at: datetime
    actor: str
    action: str
    result: str
    request_id: str
    key_id: str | None = None
    client_id: str | None = None
    target: Mapping[str, str] = {}
    status: int | None = None
    problem: str | None = None
    details: Mapping[str, str | int] = {}
    by_client: bool = False


class TrialCallTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds from the start of a trial call to the end of each phase. None: the phase was not reached, or not
    needed."""

    ended_seconds: float
    resolved_seconds: float | None = None
    connected_seconds: float | None = None
    secured_seconds: float | None = None
    first_byte_seconds: float | None = None


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """A trial call and its receiver's answer: `delivered` says whether a schedule would count as delivered.

    `request` is what was written, or with `sent` False what would have been, credentials masked. `addresses` are those
    to which a connection was tried. Without `status`, `error` is a stable word for the reason, and `detail` a sentence;
    a target that knows no statuses delivers with neither. `verb`: what the answer's headers ask for, and `verb_ignored`
    why that would not be obeyed.
    """

    schedule_id: str
    delivered: bool
    sent: bool
    started_at: datetime
    request: SentCallback
    times: TrialCallTimes
    addresses: tuple[str, ...] = ()
    connected_to: str | None = None
    status: int | None = None
    http_version: str | None = None
    response_headers: dict[str, str] = {}
    excerpt: str = ""
    error: str | None = None
    detail: str | None = None
    verb: str | None = None
    verb_ignored: str | None = None
