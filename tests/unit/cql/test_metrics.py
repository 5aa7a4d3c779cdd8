"""Metrics of requests to Cassandra: duration by statement, and errors by kind."""

import asyncio
import contextlib
from typing import Any

import pytest
from cassandra import OperationTimedOut

from cql.errors import StoreRefused
from cql.memory.connection import InMemoryConnection
from cql.metrics import ERROR_KINDS, MeasuredConnection, RequestCounts, UpdateCounts
from cql.settings import StorageSettings
from cql.statement import load_statements
from cql.storage import Storage
from membership.conditional import APPLIED, Rejected, Unknown
from membership.errors import MinutehandError, StoreUnavailable
from scheduler_service.domain.errors import ContentTooLarge, Overloaded
from scheduler_service.domain.ids import ClientId, Minute, Partition, PollerId, RowKey, UnixMillis, compose_schedule_id
from scheduler_service.domain.schedules import ExternalUpdate, Outcome, RowWrite, State
from tests.contract.builders import definition
from tests.support.api import NOW, ManualClock


class Answering:
    """Returns or raises the given result after a quarter of a second."""

    def __init__(self, clock: ManualClock, answer: Any = None) -> None:
        self.clock = clock
        self.answer = answer

    async def select(self, *arguments: Any, **options: Any) -> Any:
        self.clock.advance(0.25)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    write = write_batch = conditional = select


def measured(answer: Any = None, counts: RequestCounts | None = None) -> tuple[Any, RequestCounts]:
    clock, counts = ManualClock(), counts or RequestCounts()
    inner: Any = Answering(clock, answer)
    return MeasuredConnection(inner, counts=counts, monotonic=clock.monotonic), counts


async def test_every_request_is_timed_by_its_statement() -> None:
    connection, counts = measured()
    await connection.select("nodes.read", ())
    await connection.write("nodes.write", ())
    await connection.write_batch([("occupied_minutes.insert", ()), ("nodes.write", ())])
    await connection.conditional([("schedules.commit", ()), ("schedules.insert_definition", ())])
    assert {name: (one.count, one.sum) for name, one in counts.seconds.items()} == dict.fromkeys(
        ("nodes.read", "nodes.write", "occupied_minutes.insert", "schedules.commit"), (1, 0.25)
    )
    assert counts.errors == {}


def timed_out() -> StoreUnavailable:
    try:
        raise StoreUnavailable("no answer") from OperationTimedOut()
    except StoreUnavailable as error:
        return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (timed_out(), "client-timeout"),
        (StoreUnavailable("away"), "unavailable"),
        (Overloaded("full"), "overloaded"),
        (ContentTooLarge("large"), "too-large"),
        (StoreRefused("no"), "refused"),
    ],
)
async def test_what_fails_is_timed_and_counted_by_why(error: Exception, kind: str) -> None:
    connection, counts = measured(error)
    for ask in (
        connection.select("nodes.read", ()),
        connection.write("nodes.read", ()),
        connection.write_batch([("nodes.read", ())]),
        connection.conditional([("nodes.read", ())]),
    ):
        with pytest.raises(type(error)):
            await ask
    assert counts.errors == {("nodes.read", kind): 4}
    assert counts.seconds["nodes.read"].count == 4
    assert kind in ERROR_KINDS


@pytest.mark.parametrize(("reason", "kind"), [("write-timeout", "write-timeout"), ("of whatever kind", "unavailable")])
async def test_an_unknown_answer_is_an_error(reason: str, kind: str) -> None:
    connection, counts = measured(Unknown(reason))
    await connection.conditional([("lives.renew", ())])
    assert counts.errors == {("lives.renew", kind): 1}


async def test_what_was_given_up_is_not_counted() -> None:
    connection, counts = measured(asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await connection.select("nodes.read", ())
    assert counts.seconds == {}


async def test_the_stores_are_measured_by_known_names() -> None:
    memory = InMemoryConnection()
    storage = Storage.over(memory)
    assert await storage.schedules.insert_many([definition("shop", tail=number) for number in range(3)]) == [None] * 3
    await storage.members.read_heartbeats()
    metrics = storage.metrics
    assert metrics.requests.seconds.keys() == {
        "occupied_minutes.insert",
        "schedules.insert_definition",
        "nodes.read",
    }
    assert metrics.requests.seconds.keys() <= load_statements().keys()
    assert (metrics.commits.rows.count, metrics.commits.rows.sum, metrics.commits.stored) == (1, 3, 3)
    assert metrics.commits.waited.count == 1
    await storage.close()


async def test_rows_that_are_refused_are_counted() -> None:
    storage = Storage.over(InMemoryConnection(), settings=StorageSettings(queue_rows=2))
    waiting = asyncio.ensure_future(storage.schedules.insert_many([definition("shop", tail=1)] * 2))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await storage.schedules.insert_many([definition("shop", tail=2)] * 3)
    await waiting
    assert (storage.metrics.commits.refused, storage.metrics.commits.stored) == (3, 2)
    await storage.close()


def update_of(state: State, *, expect: State = State.SCHEDULED, retry_row: bool = False) -> ExternalUpdate:
    schedule_id = compose_schedule_id(due=NOW, poller_id=0, tail=1)
    outcome = Outcome(state=state, reason="missed" if state is State.SKIPPED else None)
    key = RowKey(UnixMillis(NOW + retry_row), schedule_id)
    return ExternalUpdate(
        partition=Partition(ClientId("shop"), PollerId(0), Minute(NOW // 60_000)),
        edits=schedule_id,
        version=None,
        version_known=True,
        writes=(RowWrite(key=key, outcome=outcome, expect_state=expect),),
    )


def test_each_schedule_ended_by_an_update_is_counted_once() -> None:
    counts = UpdateCounts()
    for edit in (
        update_of(State.CANCELLED),
        update_of(State.CANCELLED, expect=State.RETRYING),
        update_of(State.CANCELLED, retry_row=True),
        update_of(State.SKIPPED),
        update_of(State.SKIPPED, expect=State.RETRYING),
        update_of(State.DELIVERED, expect=State.RETRYING),
        update_of(State.RETRYING),
    ):
        counts.applied(edit)
    assert counts.ended == {"cancelled": 2, "skipped": 1}
    assert counts.skipped == {"missed": 1}


@pytest.mark.parametrize(
    ("answer", "answered"),
    [
        (APPLIED, True),
        (Rejected([]), True),
        (Unknown("client-timeout"), False),
        (StoreUnavailable("away"), False),
        (Overloaded("full"), False),
        (ContentTooLarge("big"), True),
    ],
)
async def test_a_listener_gets_the_duration_and_result_of_each_request(answer: Any, answered: bool) -> None:
    heard: list[tuple[float, bool]] = []
    connection, _ = measured(answer, RequestCounts(lambda seconds, answered: heard.append((seconds, answered))))
    with contextlib.suppress(MinutehandError):
        await connection.conditional([("leases.take", ())])
    assert [one for _, one in heard] == [answered]
