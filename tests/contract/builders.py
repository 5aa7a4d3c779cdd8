"""Rows and writes with defaults for what a test does not care about."""

from typing import Any
from uuid import UUID

from scheduler_service.domain.ids import (
    MINUTE_MS,
    ClientId,
    Partition,
    PollerId,
    ScheduleId,
    UnixMillis,
    compose_schedule_id,
    minute_of,
)
from scheduler_service.domain.schedules import Definition, ExternalUpdate, Outcome, OwnerCommit, RowWrite, State

MINUTE = 29_700_000
"""A minute in 2026."""
START = MINUTE * MINUTE_MS


def definition(client_id: ClientId, *, offset: int = 0, tail: int = 1, poller_id: int = 0, **other: Any) -> Definition:
    """A schedule due `offset` ms into the minute; the tail makes its id."""
    due = UnixMillis(START + offset)
    values: dict[str, Any] = {
        "client_id": client_id,
        "poller_id": PollerId(poller_id),
        "due": due,
        "schedule_id": compose_schedule_id(due=due, poller_id=poller_id, tail=tail),
        "method": "POST",
        "url": "https://receiver.example/hook",
        "headers": '[["content-type","text/plain"]]',
        "body": b"payload",
        "options": "{}",
        "created_at": UnixMillis(START - 1000),
    }
    return Definition(**{**values, **other})


def partition(client_id: ClientId, *, poller_id: int = 0) -> Partition:
    return Partition(client_id, PollerId(poller_id), minute_of(START))


def commit(where: Partition, **values: Any) -> OwnerCommit:
    """A commit by the owner of epoch 1, who opened the partition and has seen no commit and no external update, by
    default.
    """
    known: dict[str, Any] = {
        "epoch": 1,
        "expect_epoch": 1,
        "version": None,
        "edits": None,
        "edits_known": True,
        "in_flight": frozenset[ScheduleId](),
    }
    return OwnerCommit(partition=where, **{**known, **values})


def update(
    where: Partition, number: int, *writes: RowWrite, version: int | None = None, known: bool = True
) -> ExternalUpdate:
    return ExternalUpdate(partition=where, edits=UUID(int=number), version=version, version_known=known, writes=writes)


def delivered(of: Definition, *, expect: State | None = None, expect_next: int | None = None) -> RowWrite:
    outcome = Outcome(
        state=State.DELIVERED,
        attempts=1,
        first_attempt_at=of.due,
        finished_at=UnixMillis(of.due + 5),
        last_status=200,
        fired_by="node-1@7",
        fired_epoch=1,
    )
    return write(of, outcome, expect=expect, expect_next=expect_next)


def retrying(
    of: Definition, at: int, *, expect: State | None = State.SCHEDULED, expect_next: int | None = None
) -> RowWrite:
    outcome = Outcome(state=State.RETRYING, attempts=1, next_attempt_at=UnixMillis(at), last_error="timeout")
    return write(of, outcome, expect=expect, expect_next=expect_next)


def cancelled(of: Definition, *, expect: State | None = State.SCHEDULED) -> RowWrite:
    return write(of, Outcome(state=State.CANCELLED, finished_at=of.due), expect=expect)


def redelivered(of: Definition, at: int, *, expect: State, ended_at: int, after: int = 1) -> RowWrite:
    """A redelivery at `at`, if the row has ended so at `ended_at`."""
    instant = UnixMillis(at)
    outcome = Outcome(
        state=State.RETRYING,
        attempts=after,
        next_attempt_at=instant,
        reason="redelivery",
        redelivered_at=instant,
        redelivered_after=after,
    )
    return RowWrite(key=of.key, outcome=outcome, expect_state=expect, expect_finished_at=UnixMillis(ended_at))


def write(of: Definition, outcome: Outcome, *, expect: State | None, expect_next: int | None = None) -> RowWrite:
    at = None if expect_next is None else UnixMillis(expect_next)
    return RowWrite(key=of.key, outcome=outcome, expect_state=expect, expect_next_attempt_at=at)
