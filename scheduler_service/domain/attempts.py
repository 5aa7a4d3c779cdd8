"""The attempts of one schedule as they are shown: recorded ones, and that which its original row tells of. Pure.

    failed attempts     records, written by the process that made them
    the delivering one  the schedule's own row has its end and status, and its start if it was the first attempt;
                        otherwise, and after a redelivery, a record like those of failed ones has the start

Of attempts that a process could not record before it was killed, failed ones are missing, so that the numbers have a
gap, and of one that delivered after others only the end is known. Nodes older than this record none of the latter.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from scheduler_service.domain.acknowledgements import ACCEPTED, NOT_ACKNOWLEDGED, RECEIVER_FAILED, KeptWord
from scheduler_service.domain.books import AttemptRecord
from scheduler_service.domain.ids import UnixMillis
from scheduler_service.domain.schedules import Row, State


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptShown:
    """One attempt, its number from 1. Instants are Unix milliseconds; None: not recorded. `verb`: what the receiver
    asked for beside its status (`domain.verbs`); `verb_ignored`: why it was not obeyed."""

    attempt: int
    delivered: bool
    started_at: UnixMillis | None = None
    finished_at: UnixMillis | None = None
    status: int | None = None
    error: str | None = None
    duration_ms: int | None = None
    excerpt: str | None = None
    verb: str | None = None
    verb_ignored: str | None = None
    awaiting: bool = False
    word: KeptWord | None = None

    @property
    def snoozed(self) -> bool:
        return self.verb == "snooze" and self.verb_ignored is None

    @property
    def obeyed(self) -> bool:
        """Whether a verb in its answer decided what followed."""
        return self.verb is not None and self.verb_ignored is None

    @property
    def state(self) -> State:
        if self.awaiting:
            return State.AWAITING
        return State.DELIVERED if self.delivered else State.FAILED


def attempts_of(row: Row, records: Iterable[AttemptRecord], words: Mapping[int, KeptWord] | None) -> list[AttemptShown]:
    """The attempts of a schedule: the recorded ones, and that which its original row tells of. `words`: what its
    receiver said of them; None: it may say nothing later."""
    shown = {each.attempt: _recorded(each) for each in records}
    if words is not None:
        shown = {number: _said(shown.get(number), number, row, words.get(number)) for number in (*shown, *words)}
    if row.state == State.DELIVERED:
        number = row.attempts or 1
        recorded = shown.get(number)
        if recorded is None or not recorded.delivered:
            shown[number] = replace(_success_of(row), word=None if recorded is None else recorded.word)
    return [shown[number] for number in sorted(shown)]


def _success_of(row: Row) -> AttemptShown:
    """The attempt that a delivered row tells of. Its start is known only if it was the first attempt."""
    number = row.attempts or 1
    started = row.first_attempt_at if number == 1 else None
    known = started is not None and row.finished_at is not None
    return AttemptShown(
        attempt=number,
        delivered=True,
        started_at=started,
        finished_at=row.finished_at,
        status=row.last_status,
        duration_ms=(row.finished_at or 0) - (started or 0) if known else None,
    )


def _said(recorded: AttemptShown | None, number: int, row: Row, word: KeptWord | None) -> AttemptShown:
    """An attempt of which the receiver said something, or may have. One that it took by 202 was delivered only if it
    said so."""
    known = recorded or AttemptShown(attempt=number, delivered=False, status=ACCEPTED)
    if known.status != ACCEPTED or known.obeyed or (row.state == State.DELIVERED and row.attempts == number):
        return replace(known, word=word)
    awaiting = row.shown_state is State.AWAITING and row.attempts == number
    delivered = word is not None and word.result == "done"
    error = None if delivered or awaiting else NOT_ACKNOWLEDGED
    if word is not None and word.result == "failed" and not awaiting:
        error = RECEIVER_FAILED
    return replace(known, delivered=delivered, awaiting=awaiting, error=error, word=word)


def _recorded(attempt: AttemptRecord) -> AttemptShown:
    # Of a success before a redelivery, only the end may be known.
    known = attempt.duration_ms > 0 or not attempt.delivered
    verb, ignored = attempt.verb or (None, None)
    return AttemptShown(
        attempt=attempt.attempt,
        delivered=attempt.delivered,
        started_at=attempt.started_at if known else None,
        finished_at=UnixMillis(attempt.started_at + attempt.duration_ms),
        status=attempt.status,
        error=attempt.error if verb is None else None,
        duration_ms=attempt.duration_ms if known else None,
        excerpt=None if attempt.delivered else attempt.excerpt,
        verb=verb,
        verb_ignored=ignored,
    )
