"""How a schedule's rows point to each other. Pure.

A retrying row names one instant, `next_attempt_at`; the retry row for that instant is the row (instant, schedule_id) in
that instant's minute of the same poller. An original points to its newest retry row; a retry row that points to another
is obsolete:

    original --next_attempt_at--> retry row --next_attempt_at--> retry row ...

The pointer is always written first, so a reader that finds a pointer without its retry row can insert it from the
pointing row.

If a schedule was redelivered, its original records when and after how many attempts, and every retry row made since has
the same in its options. Such retry rows have no ordering key, except for runs of crons of which one is under way at
a time: redeliveries do not queue. A schedule that its receiver snoozed (`verbs`) is one that was redelivered at the
instant that was asked for: its retries begin again there."""

from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler_service.domain.acknowledgements import AWAITING, REASONS_OF_WORDS, clear_of_deadlines
from scheduler_service.domain.destinations import names_destination
from scheduler_service.domain.flows import Flow
from scheduler_service.domain.ids import (
    ClientId,
    Partition,
    RowKey,
    ScheduleId,
    UnixMillis,
    due_of,
    minute_of,
    partition_of,
    poller_of,
)
from scheduler_service.domain.options import LocalDue, Undecodable, decode_options, is_run_key
from scheduler_service.domain.schedule_keys import KeyMark
from scheduler_service.domain.schedules import Definition, Kind, Outcome, Row, State

MARK_IN_DOUBT = "in_doubt"
"""Key in a retry row's options: the row was requeued although an earlier owner may have called."""
MARK_REDELIVERY = "redelivery"
"""Key in a retry row's options: the schedule had ended and was redelivered on request."""
REDELIVERY = "redelivery"
"""Reason of a pointer that an explicit redelivery made."""
IN_DOUBT = "in-doubt"
"""Reason of a pointer to an attempt that an earlier owner may have made, and of an end that leaves that open."""
LATE_CREATE = "late-create"
"""Reason of a pointer of a row that was created when its minute was being called."""
DESTINATION_PAUSED = "destination-paused"
"""Reason of a pointer of a row that waits for its destination to be resumed."""

RESCHEDULED = "rescheduled"
"""Reason of a cancel in favour of the same call at another instant, which derives from `rescheduled_to` and the row."""
RESCHEDULED_OTHERWISE = "rescheduled-otherwise"
"""The same in favour of a different call, which can't be derived from the row."""
MARK_CRON = "cron"
MARK_KEY = "key"
MARK_EMPTY_BODY = "empty_body"
MARK_FLOW = "flow"
MARK_LOCAL_DUE = "local_due"
MARK_ACK = "ack"
MARK_WORD = "word"
"""Key in a retry row's options: it is no call, but a receiver's word, or the deadline of one."""


SUPERSEDED = "superseded"
"""Reason of a retry row that its original no longer names: it has no follow-ups."""


def retry_row_partition(partition: Partition, at: UnixMillis) -> Partition:
    """The partition of the retry row for instant `at` of a row in `partition`."""
    return Partition(partition.client_id, partition.poller_id, minute_of(at))


def retry_row_key(schedule_id: ScheduleId, at: UnixMillis) -> RowKey:
    return RowKey(at, schedule_id)


def definition_of(partition: Partition, row: Row) -> Definition:
    """The definition columns of a defined row, with the mark of a redelivery if it had one."""
    assert row.created_at is not None
    options, ordering_key = row.options or "{}", row.ordering_key
    if row.redelivered_at is not None and not row.is_retry_row:
        options, ordering_key = _begun_again(options, ordering_key, row.redelivered_at, row.redelivered_after)
    return Definition(
        client_id=partition.client_id,
        poller_id=partition.poller_id,
        due=row.due,
        schedule_id=row.schedule_id,
        kind=Kind(row.kind or Kind.CALL),
        method=row.method or ("" if names_destination(row.url) else "POST"),
        url=row.url or "",
        headers=row.headers or "[]",
        body=row.body or b"",
        options=options,
        label=row.label,
        ordering_key=ordering_key,
        cron_id=row.cron_id,
        nominal_due=row.nominal_due,
        rescheduled_from=row.rescheduled_from,
        created_at=row.created_at,
        origin_due=row.origin_due,
        attempt_base=row.attempt_base or 0,
    )


def rescheduled(client_id: ClientId, row: Row) -> Definition:
    """The schedule that a cancelled original names in `rescheduled_to`: the same call, at the instant and in the poller
    of that id. It is neither a redelivery nor a fire of the cron any more, nor due at the local time that was asked for
    before."""
    assert row.rescheduled_to is not None
    new = ScheduleId(row.rescheduled_to)
    known = definition_of(partition_of(client_id, row.schedule_id), row)
    options = _with_mark(_with_mark(known.options, MARK_REDELIVERY, None), MARK_CRON, None)
    if MARK_LOCAL_DUE in options:
        options = _with_mark(options, MARK_LOCAL_DUE, None)
    if MARK_KEY in options and (mark := key_mark(options)) is not None:
        options = _with_mark(options, MARK_KEY, msgspec.to_builtins(mark.following()))
    return msgspec.structs.replace(
        known,
        poller_id=poller_of(new),
        due=due_of(new),
        schedule_id=new,
        options=options,
        ordering_key=row.ordering_key,
        nominal_due=None,
        rescheduled_from=row.schedule_id,
        created_at=row.finished_at or known.created_at,
    )


def retry_row_of(
    definition: Definition, *, at: UnixMillis, attempts: int, in_doubt: bool = False, word: str | None = None
) -> Definition:
    """The retry row for the attempt at `at`, after `attempts` attempts, or for a `word` (a reason of
    `acknowledgements`) about the last of them.

    It is equal whichever row of the schedule it is made from, so that repeated inserts have equal values.
    """
    return msgspec.structs.replace(
        definition,
        due=at,
        kind=Kind.RETRY_ROW,
        options=_with_word(_marked(definition.options, in_doubt=in_doubt), word),
        nominal_due=definition.nominal_due if definition.nominal_due is not None else due_of(definition.schedule_id),
        origin_due=due_of(definition.schedule_id),
        attempt_base=attempts,
    )


def begun_again(definition: Definition, outcome: Outcome) -> Definition:
    """The definition of a row with this outcome: where that begins the schedule again, with the mark of it, as the
    original will have once it says the same."""
    if outcome.redelivered_at is None:
        return definition
    options, ordering_key = _begun_again(
        definition.options, definition.ordering_key, outcome.redelivered_at, outcome.redelivered_after
    )
    return msgspec.structs.replace(definition, options=options, ordering_key=ordering_key)


def _begun_again(
    options: str, ordering_key: str | None, at: UnixMillis, attempts: int | None
) -> tuple[str, str | None]:
    mark = {"at": at, "attempts": attempts or 0}
    return _with_mark(options, MARK_REDELIVERY, mark), ordering_key if is_run_key(ordering_key) else None


def is_in_doubt(definition: Definition) -> bool:
    """Whether this is a retry row of a row that an earlier owner may have called."""
    return says_in_doubt(definition.options)


def says_in_doubt(options: str | None) -> bool:
    """Whether a row's options carry the mark of such a retry row."""
    return options is not None and MARK_IN_DOUBT in options and bool(_decoded(options).get(MARK_IN_DOUBT))


def word_of(options: str | None) -> str | None:
    """What a retry row is instead of a call: the reason of the pointer that made it. None: it is a call."""
    if options is None or MARK_WORD not in options or MARK_ACK not in options:
        return None
    word = _decoded(options).get(MARK_WORD)
    return word if word in REASONS_OF_WORDS else None


def is_acknowledged(options: str | None) -> bool:
    """Whether a row's receiver may answer 202 and say later what became of the call."""
    return options is not None and MARK_ACK in options and isinstance(_decoded(options).get(MARK_ACK), dict)


def next_instant(options: str | None, at: int) -> UnixMillis:
    """The first instant from `at` on that a row with these options may name as its next, unless that is a deadline."""
    return clear_of_deadlines(at) if is_acknowledged(options) else UnixMillis(at)


def is_deadline(options: str | None) -> bool:
    """Whether this is the retry row at the deadline of a word."""
    return word_of(options) == AWAITING


def pointed_word(outcome: Outcome) -> str | None:
    """The `word` of the retry row that a retrying outcome names."""
    return outcome.reason if outcome.reason in REASONS_OF_WORDS else None


def key_mark(options: str | None) -> KeyMark | None:
    """The key under which a schedule was put, if it was."""
    if options is None or MARK_KEY not in options:
        return None
    try:
        return decode_options(options).key
    except Undecodable:
        return None


def with_empty_body(options: str, *, asked: bool) -> str:
    """The options of the same call with another body, which is `asked` to be empty."""
    return _with_flag(options, MARK_EMPTY_BODY, asked)


def with_flow(options: str, flow: Flow | None) -> str:
    """The options of the same call with this flow key, or with none."""
    if flow is None and MARK_FLOW not in options:
        return options
    return _with_mark(options, MARK_FLOW, None if flow is None else msgspec.to_builtins(flow))


def with_local_due(options: str, local_due: LocalDue | None) -> str:
    """The options of the same call whose instant was asked for as this local time, or as an instant."""
    if local_due is None and MARK_LOCAL_DUE not in options:
        return options
    return _with_mark(options, MARK_LOCAL_DUE, None if local_due is None else msgspec.to_builtins(local_due))


def local_due_of(options: str | None) -> LocalDue | None:
    """The local time that a row's instant was asked for as. Options that can't be decoded have none."""
    if options is None or MARK_LOCAL_DUE not in options:
        return None
    try:
        return decode_options(options).local_due
    except Undecodable:
        return None


def with_options(options: str, asked: Mapping[str, object]) -> str:
    """The options of the same call with these set, by name; None: taken away."""
    for name, value in asked.items():
        options = _with_mark(options, name, value)
    return options


def _marked(options: str, *, in_doubt: bool) -> str:
    return _with_flag(options, MARK_IN_DOUBT, in_doubt)


def _with_word(options: str, word: str | None) -> str:
    if word is None and word_of(options) is None:
        return options
    return _with_mark(options, MARK_WORD, word)


def _with_flag(options: str, name: str, set_: bool) -> str:
    if not set_ and name not in options:
        return options
    return _with_mark(options, name, True if set_ else None)


def _with_mark(options: str, name: str, mark: object) -> str:
    """The options with this mark at their end; None: without it."""
    others = {other: value for other, value in _decoded(options).items() if other != name}
    return msgspec.json.encode(others if mark is None else others | {name: mark}).decode()


def _decoded(options: str) -> dict[str, Any]:
    """Options that can't be decoded count as none: their row alone fails when it is due."""
    try:
        decoded = msgspec.json.decode(options)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return decoded if isinstance(decoded, dict) else {}


def outcome_of(row: Row) -> Outcome | None:
    """The outcome columns of a row, or None while it is scheduled."""
    if row.state is None:
        return None
    return Outcome(
        state=State(row.state),
        attempts=row.attempts or 0,
        first_attempt_at=row.first_attempt_at,
        next_attempt_at=row.next_attempt_at,
        finished_at=row.finished_at,
        last_status=row.last_status,
        last_error=row.last_error,
        reason=row.reason,
        fired_by=row.fired_by,
        fired_epoch=row.fired_epoch,
        rescheduled_to=row.rescheduled_to,
        redelivered_at=row.redelivered_at,
        redelivered_after=row.redelivered_after,
    )


def outcome_after(row: Row | None, *, state: State, at: UnixMillis, reason: str | None = None) -> Outcome:
    """The outcome that an external update gives a row; its attempts are kept. `at`: the end, or the next attempt."""
    known = outcome_of(row) if row is not None else None
    base = known or Outcome(state=state, attempts=(row.attempt_base or 0) if row is not None else 0)
    retrying = state is State.RETRYING
    return msgspec.structs.replace(
        base,
        state=state,
        reason=reason,
        next_attempt_at=at if retrying else None,
        finished_at=None if retrying else at,
    )
