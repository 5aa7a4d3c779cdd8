"""What became of schedules, and of what was asked of many of them. Instants are aware datetimes."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from minutehand.client._models import SentCallback


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of a schedule, its number from 1. `outcome` is delivered or failed; `error` a stable word where no
    answer came; `excerpt` the beginning of what was answered to a failed one. None is what nobody has written down."""

    attempt: int
    outcome: str
    started_at: datetime | None = None
    finished_at: datetime | None = None
    duration_seconds: float | None = None
    status: int | None = None
    error: str | None = None
    excerpt: str | None = None


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that gave up at `failed_at`, and why. `state` is the present one, expired where it is not kept any
    more."""

    schedule_id: str
    failed_at: datetime
    state: str
    attempts: int = 0
    reason: str | None = None
    last_status: int | None = None
    last_error: str | None = None
    label: str | None = None


class CancelItem(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one cancel of many: status 200 cancelled, 404 there is none, 409 in flight or ended otherwise
    (`state` says how), 503 unknown: ask again.

    `reason` in-doubt beside 200: it is not called again, and may have been called before. `rescheduled_to` beside 409:
    the schedule that is called instead, which was left as it is.
    """

    schedule_id: str
    status: int
    state: str | None = None
    reason: str | None = None
    rescheduled_to: str | None = None

    @property
    def cancelled(self) -> bool:
        return self.status == 200


class Redriven(msgspec.Struct, frozen=True, kw_only=True):
    """How many schedules that gave up are called again, and how many letters were passed over: their schedules are not
    kept any more, or have been redelivered since. `next_cursor` None: there are no more."""

    redelivered: int
    passed_over: int
    next_cursor: str | None = None


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What an administrator did. `actor` is the administrator's name, `key_id` None for the key from configuration;
    `action` an operation of the API, `target` the names in its path, `details` the ids of what was done.

    `result`: done; refused, then nothing was changed; or unknown, then it may have been done."""

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


class TrialCallTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds from the start of a trial call until so much was done. None: it did not come to that, or was not
    needed."""

    ended_seconds: float
    resolved_seconds: float | None = None
    connected_seconds: float | None = None
    secured_seconds: float | None = None
    first_byte_seconds: float | None = None


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """A trial call and what its receiver made of it: `delivered` is what a schedule would be said to be.

    `request` is what was written, or with `sent` False what was to be, credentials masked. `addresses` are those that a
    connection was tried to. Without `status`, `error` is a stable word for why, and `detail` says it in words.
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
