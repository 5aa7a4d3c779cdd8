"""What became of schedules, as it is shown: their attempts, and those that gave up."""

from uuid import UUID

import msgspec

from scheduler_service.api.schemas import Instant
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.schedules import State
from scheduler_service.usecases.list_dead_letters import LetterShown
from scheduler_service.usecases.show_attempts import AttemptShown

EXPIRED = "expired"
"""State of a schedule that is not kept any more."""


class AttemptView(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt. `outcome` is delivered or failed. `excerpt` is the beginning of what a receiver answered to a failed
    one. Null is what nobody has written down."""

    attempt: int
    outcome: str
    started_at: Instant | None
    finished_at: Instant | None
    duration_seconds: float | None
    status: int | None
    error: str | None
    excerpt: str | None


class LetterView(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that gave up at `failed_at`, and why. `state` is the present one, or expired where the schedule is not
    kept any more."""

    schedule_id: UUID
    failed_at: Instant
    reason: str | None
    last_status: int | None
    last_error: str | None
    attempts: int
    state: str
    label: str | None


class RedrivenView(msgspec.Struct, frozen=True, kw_only=True):
    """How many schedules are called again, and how many letters were passed over: their schedules are gone, or have
    been redelivered since. `next_cursor` null: there are no more."""

    redelivered: int
    passed_over: int
    next_cursor: str | None


def attempt_view(attempt: AttemptShown) -> AttemptView:
    return AttemptView(
        attempt=attempt.attempt,
        outcome=(State.DELIVERED if attempt.delivered else State.FAILED).value,
        started_at=_instant(attempt.started_at),
        finished_at=_instant(attempt.finished_at),
        duration_seconds=None if attempt.duration_ms is None else attempt.duration_ms / 1000,
        status=attempt.status,
        error=attempt.error,
        excerpt=attempt.excerpt,
    )


def letter_view(shown: LetterShown) -> LetterView:
    letter, row = shown.letter, shown.row
    return LetterView(
        schedule_id=letter.schedule_id,
        failed_at=format_instant(letter.failed_at),
        reason=letter.reason,
        last_status=letter.last_status,
        last_error=letter.last_error,
        attempts=letter.attempts,
        state=EXPIRED if row is None else row.state or State.SCHEDULED.value,
        label=None if row is None else row.label,
    )


def _instant(value: int | None) -> str | None:
    return None if value is None else format_instant(value)
