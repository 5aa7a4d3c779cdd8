"""Stories: what became of one schedule and why, as steps in their order and as one sentence. Pure.

    accepted, moved, updated     the row
    waited                       what nodes have remembered of a late call (`domain.waits`)
    claimed                      the node that called or calls, and its epoch
    attempt                      attempts, each with its answer
    redelivered, doubt, next     the row
    succeed-by                   the row's options: its success deadline
    ended, told                  the row

A call is late if its first attempt starts more than `LATE_MS` after its due. Nodes remember causes only for calls that
are late, deferred or retried; nodes of an older version never do, so a late call may have no known cause.

Which key accepted a schedule, and under which request id, is not stored with it. The steps of an exchange (DNS,
connect, TLS) are not stored either; a trial call shows them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from scheduler_service.domain.acknowledgements import ACKNOWLEDGED, AWAITING, RECEIVER_FAILED
from scheduler_service.domain.attempts import AttemptShown
from scheduler_service.domain.destinations import read_named_url
from scheduler_service.domain.ids import ScheduleId, UnixMillis, due_of, is_schedule_id
from scheduler_service.domain.options import tells_of
from scheduler_service.domain.reasons import REASONS
from scheduler_service.domain.retry_rows import IN_DOUBT, REDELIVERY, key_mark
from scheduler_service.domain.revisions import revision_of
from scheduler_service.domain.schedules import Row, State
from scheduler_service.domain.success_deadlines import deadline_of, met
from scheduler_service.domain.verbs import SNOOZED
from scheduler_service.domain.waits import CAUSES, LATE_MS, Wait, fired_by_of, read_waits

STEPS: Final = (
    *("accepted", "moved", "updated", "waited", "claimed", "attempt", "redelivered", "doubt", "next"),
    *("succeed-by", "ended", "told"),
)  # fmt: skip
_ENDS: Final = {
    State.DELIVERED.value: "delivered",
    State.FAILED.value: "given up",
    State.CANCELLED.value: "cancelled",
    State.SKIPPED.value: "skipped",
}
_UNITS: Final = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
_DECIMALS_BELOW_MS: Final = 120_000


class Verdict(StrEnum):
    """Of the first attempt."""

    ON_TIME = "on-time"
    """It began within a second of its due."""
    LATE = "late"
    WAITING = "waiting"
    OVERDUE = "overdue"
    NOT_CALLED = "not-called"
    """It never comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a story is told from. `claimed_by`: who holds the poller of a schedule that has not ended, with its epoch;
    None: nobody, or it has ended. `client_held`: the client is suspended or paused. `now` is Unix milliseconds."""

    row: Row
    in_flight: bool
    attempts: Sequence[AttemptShown]
    claimed_by: str | None
    epoch: int | None
    client_held: bool
    now: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step: its kind, one of `STEPS`; when it began (Unix milliseconds) and how long it took, where that is known;
    what happened, as a sentence. `cause` of a wait, one of `CAUSES`; `behind`: the schedule that came before it under
    its ordering key."""

    step: str
    at: UnixMillis | None
    ms: int | None = None
    text: str
    cause: str | None = None
    behind: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """`late_ms`: how much later than its due the first attempt began, or would begin
    now. `cause`: what most of that time was spent on, if it is known."""

    sentence: str
    verdict: Verdict
    late_ms: int | None
    cause: str | None
    steps: tuple[Step, ...]


def story_of(facts: Facts) -> Story:
    """Tell what is known of a schedule."""
    row = facts.row
    verdict, late_ms = _verdict(facts)
    waits = read_waits(row.fired_by)
    cause = _cause(facts, waits) if verdict in (Verdict.LATE, Verdict.OVERDUE, Verdict.NOT_CALLED) else None
    return Story(
        sentence=_sentence(facts, verdict, late_ms, cause),
        verdict=verdict,
        late_ms=late_ms,
        cause=cause,
        steps=(*_before(facts), *(_waited(row, wait) for wait in waits), *_calls(facts), *_after(facts)),
    )


def _verdict(facts: Facts) -> tuple[Verdict, int | None]:
    row = facts.row
    if row.first_attempt_at is not None:
        late_ms = max(row.first_attempt_at - row.due, 0)
        return (Verdict.LATE if late_ms > LATE_MS else Verdict.ON_TIME), late_ms
    if row.ended:
        # A row that is skipped for being late has an end after its due; any other end without a call is no delay.
        skipped = row.state == State.SKIPPED and row.finished_at is not None
        return Verdict.NOT_CALLED, max((row.finished_at or 0) - row.due, 0) if skipped else None
    late_ms = max(facts.now - row.due, 0)
    return (Verdict.OVERDUE if late_ms > LATE_MS else Verdict.WAITING), late_ms


def _cause(facts: Facts, waits: Sequence[Wait]) -> str | None:
    row = facts.row
    if waits:
        return max(waits, key=lambda wait: wait.ms).cause
    if row.state == State.RETRYING and row.first_attempt_at is None and row.reason in CAUSES:
        return row.reason
    if row.state is None and facts.client_held:
        return "client-inactive"
    if row.created_at is not None and row.created_at - row.due > LATE_MS:
        return "late-create"
    if row.state is None and facts.claimed_by is None:
        return "takeover"
    return None


def _sentence(facts: Facts, verdict: Verdict, late_ms: int | None, cause: str | None) -> str:
    row = facts.row
    because = "and what delayed it was not recorded" if cause is None else f"because {CAUSES.get(cause, cause)}"
    late = "" if late_ms is None else length(late_ms)
    went_on = _went_on(facts)
    match verdict:
        case Verdict.ON_TIME:
            return f"It was on time: its first attempt began {late} after its due; {went_on}."
        case Verdict.LATE:
            return f"It was late by {late} {because}; {went_on}."
        case Verdict.OVERDUE:
            return f"It is overdue by {late}{' ' + because if cause else ''}; {went_on}."
        case Verdict.WAITING:
            return f"It is due in {length(row.due - facts.now)}." if row.due > facts.now else "It is due now."
        case Verdict.NOT_CALLED:
            return _never_called(row, late, because if cause else "")


def _never_called(row: Row, late: str, because: str) -> str:
    if row.state == State.SKIPPED and row.reason == "late":
        return f"It was skipped, late by {late}{' ' if because else ''}{because}."
    if row.rescheduled_to is not None:
        return f"It was cancelled before it was called: {row.rescheduled_to} is called instead."
    return f"It was {_ENDS.get(row.state or '', row.state)} without a call{_why(row)}."


def _why(row: Row) -> str:
    said = REASONS.get(row.reason or "", "")
    return f": {said.partition('; ')[2] or said}" if said else ""


def _went_on(facts: Facts) -> str:
    """What followed: how it ended, or what comes next."""
    row = facts.row
    attempts = row.attempts or 0
    answer = f" ({row.last_status if row.last_status is not None else row.last_error})"
    if row.state == State.DELIVERED:
        if attempts <= 1:
            return "that attempt delivered it" if row.redelivered_at is None else "it was delivered again on request"
        took = "" if row.finished_at is None else f", {length(max(row.finished_at - row.due, 0))} after its due"
        return f"attempt {attempts} delivered it{took}"
    if row.ended:
        after = f" after {attempts} attempt{'' if attempts == 1 else 's'}" if attempts else ""
        last = row.last_error if row.last_status is None else f"status {row.last_status}"
        failed = f", {'the last ' if attempts > 1 else ''}with {last}" if row.state == State.FAILED and last else ""
        return f"it was {_ENDS.get(row.state or '', row.state)}{after}{failed}"
    if facts.in_flight:
        return "a node is calling it now"
    if row.state == State.RETRYING and row.next_attempt_at is not None:
        comes = length(max(row.next_attempt_at - facts.now, 0))
        if row.reason == SNOOZED:
            return f"its receiver asked in its answer to attempt {attempts}{answer} to be called again, in {comes}"
        if row.reason == REDELIVERY:
            return f"it is called again on request in {comes}"
        if row.shown_state is State.AWAITING:
            return f"attempt {attempts} was taken{answer} and {_awaited(row, comes)}"
        if attempts:
            return f"attempt {attempts} failed{answer} and the next one comes in {comes}"
        return f"it is looked at again in {comes}"
    if facts.claimed_by is None and not facts.client_held:
        return "no node holds its poller"
    return "it has not been called yet"


def _awaited(row: Row, comes: str) -> str:
    """What a receiver that has taken the call has said, or until when it may."""
    if row.reason == ACKNOWLEDGED:
        return "its receiver has said that the work is done"
    if row.reason == RECEIVER_FAILED:
        return "its receiver has said that the work has failed"
    return f"its receiver has {comes} left to say what became of it"


def _before(facts: Facts) -> Iterator[Step]:
    row = facts.row
    key = key_mark(row.options)
    under = "" if key is None else f" under the key {key.name}"
    of_cron = "" if row.cron_id is None else f" by the cron {row.cron_id}"
    ahead = row.due - (row.created_at or row.due)
    due = f"due {length(abs(ahead))} {'later' if ahead >= 0 else 'before'}"
    yield Step(step="accepted", at=row.created_at, text=f"It was stored{under}{of_cron}, {due}.")
    if row.rescheduled_from is not None:
        was, before = ScheduleId(row.rescheduled_from), ""
        if is_schedule_id(was):
            by_ms = row.due - due_of(was)
            before = f", which was due {length(abs(by_ms))} {'earlier' if by_ms >= 0 else 'later'}"
        yield Step(step="moved", at=row.created_at, text=f"It replaces the schedule {was}{before}.")
    if (revisions := revision_of(row.revision).number) > 0:
        times = "once" if revisions == 1 else f"{revisions} times"
        yield Step(step="updated", at=None, text=f"Its content was updated {times} before it was called.")


def _waited(row: Row, wait: Wait) -> Step:
    said = CAUSES.get(wait.cause, wait.cause)
    behind = "" if wait.behind is None else f", last of {wait.behind}"
    return Step(
        step="waited",
        at=row.due,
        ms=wait.ms,
        text=f"It waited {length(wait.ms)} because {said}{behind}.",
        cause=wait.cause,
        behind=wait.behind,
    )


def _calls(facts: Facts) -> Iterator[Step]:
    """Claim, attempts and redelivery, in their order."""
    row = facts.row
    node, epoch = fired_by_of(row.fired_by), row.fired_epoch
    calls = [_attempt(each) for each in facts.attempts]
    if node is not None:
        calls.append(
            Step(
                step="claimed",
                at=row.first_attempt_at if len(facts.attempts) <= 1 else facts.attempts[-1].started_at,
                text=f"Node {node} claimed it under epoch {epoch}.",
            )
        )
    elif facts.claimed_by is not None:
        verb = "has claimed it" if facts.in_flight else "holds its poller"
        calls.append(Step(step="claimed", at=None, text=f"Node {facts.claimed_by} {verb} under epoch {facts.epoch}."))
    # What a snooze stores is a redelivery (`verbs`), which its attempt tells already.
    snoozed = any(each.snoozed and each.attempt == row.redelivered_after for each in facts.attempts)
    if row.redelivered_at is not None and not snoozed:
        made = row.redelivered_after or 0
        text = f"It was asked to be called again, after {made} attempt{'' if made == 1 else 's'}."
        calls.append(Step(step="redelivered", at=row.redelivered_at, text=text))
    # At one instant the claim is before its attempt.
    yield from sorted(calls, key=lambda step: (step.at is None, step.at or 0, step.step == "attempt"))


def _attempt(attempt: AttemptShown) -> Step:
    answer = "no answer" if attempt.status is None else f"status {attempt.status}"
    if attempt.awaiting:
        text = f"Attempt {attempt.attempt} was taken: {answer}. Its receiver has yet to say what became of it."
    elif attempt.delivered:
        text = f"Attempt {attempt.attempt} was delivered{'' if attempt.status is None else f': {answer}'}."
    elif attempt.snoozed:
        text = f"Attempt {attempt.attempt} was answered with {answer} and the wish to be called again later."
    else:
        error = "" if attempt.error is None else f", {attempt.error}"
        text = f"Attempt {attempt.attempt} failed: {answer}{error}."
    return Step(
        step="attempt",
        at=attempt.started_at if attempt.started_at is not None else attempt.finished_at,
        ms=attempt.duration_ms,
        text=text,
    )


def _after(facts: Facts) -> Iterator[Step]:
    row = facts.row
    if row.reason == IN_DOUBT:
        yield Step(step="doubt", at=None, text=f"{_capital(REASONS[IN_DOUBT])}.")
    if row.state == State.RETRYING and row.next_attempt_at is not None:
        reason = row.reason if row.reason not in (None, IN_DOUBT, REDELIVERY) else None
        said = REASONS.get(reason or "", "").partition("; ")[2]
        why = f": {said}" if said else ""
        text = f"It is looked at again then{why}." if reason else "Its next attempt is due then."
        if reason == AWAITING:
            text = "Its receiver has until then to say what became of it."
        yield Step(step="next", at=row.next_attempt_at, text=text, cause=reason if reason in CAUSES else None)
    elif row.state is None and row.due > facts.now:
        yield Step(step="next", at=row.due, text="It is due then.")
    yield from _success_deadline(facts)
    if row.ended:
        yield Step(step="ended", at=row.finished_at, text=f"It was {_ENDS.get(row.state or '', row.state)}{_why(row)}.")
        if (told := tells_of(row.options, State(row.state or ""))) is not None:
            named = read_named_url(told)
            to = told if named is None else named.name
            yield Step(step="told", at=row.finished_at, text=f"A notice tells {to} of it, with the answer if known.")


def _success_deadline(facts: Facts) -> Iterator[Step]:
    row = facts.row
    by = deadline_of(row.options, due=row.due)
    if by is None or row.state == State.CANCELLED:
        return
    if met(row, by):
        text = "It was to be delivered by then, and was."
    elif facts.now <= by:
        text = "It is to be delivered by then."
    else:
        text = "It was to be delivered by then, and was not, which is told as an event."
    yield Step(step="succeed-by", at=by, text=text)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def length(ms: int) -> str:
    """A length of time: thousandths below two minutes, else in its largest two units."""
    if ms < _DECIMALS_BELOW_MS:
        return f"{ms / 1000:.3f}".rstrip("0").rstrip(".") + " s"
    left, parts = ms // 1000, list[str]()
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])
