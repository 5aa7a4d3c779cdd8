"""Records of attempts: which are kept, in how many writes, and what is dropped when storage does not answer."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from cql.errors import StoreRefused
from membership.errors import MinutehandError, StoreUnavailable
from poller_cluster.bookkeeping import (
    ATTEMPT_WRITE_TRIES,
    ATTEMPTS_PER_WRITE,
    ATTEMPTS_WAITING,
    FLUSH_SECONDS,
    LONGEST_REASON,
    Bookkeeper,
)
from poller_cluster.delivery.result import AttemptResult
from poller_cluster.delivery.targets.ends import End, TargetEnd, result_of
from poller_cluster.dispatch.job import Job
from scheduler_service.domain.books import AttemptRecord, DeadLetter
from scheduler_service.domain.destinations import named_url
from scheduler_service.domain.errors import ContentTooLarge
from scheduler_service.domain.ids import ClientId, partition_of
from scheduler_service.domain.schedules import Outcome, State
from tests.support.api import NOW, ManualClock
from tests.support.minutes import definition
from tests.support.virtual_loop import run_virtual
from tests.unit.poller_cluster.claimed import RowOwner, claim, result

RETRYING = Outcome(state=State.RETRYING, attempts=3)


class Attempts:
    """A store that can refuse requests, or hold them until released."""

    def __init__(self) -> None:
        self.writes: list[Sequence[AttemptRecord]] = []
        self.tries = 0
        self.away = 0
        self.refuses: MinutehandError | None = None
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    async def record(self, attempts: Sequence[AttemptRecord]) -> None:
        self.tries += 1
        await self.may_go_on.wait()
        if self.tries <= self.away:
            raise StoreUnavailable("away")
        if self.refuses is not None:
            raise self.refuses
        self.writes.append(attempts)

    async def read(self, client_id: ClientId, schedule_id: Any) -> Sequence[AttemptRecord]:
        raise NotImplementedError


class Bench:
    def __init__(self) -> None:
        self.store = Attempts()
        self.tasks: list[asyncio.Task[None]] = []
        nothing: Any = None
        self.books = Bookkeeper(
            balances=nothing, dead_letters=nothing, attempts=self.store, clock=ManualClock(), spawn=self._spawn
        )

    def _spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        self.tasks.append(asyncio.get_running_loop().create_task(work))
        return self.tasks[-1]

    def fail(self, client_id: str = "shop", *, tail: int = 1, made: Outcome = RETRYING, **came_to: Any) -> None:
        self.fail_so(result(**({"status": 503} | came_to)), client_id, tail=tail, made=made)

    def fail_so(
        self, came_to: AttemptResult, client_id: str = "shop", *, tail: int = 1, made: Outcome = RETRYING
    ) -> None:
        one = claim(tail=tail, kind="copy", due=NOW + 60_000, schedule_id=claim(tail=tail).row.schedule_id)
        job = Job(RowOwner(client_id), one, one.row.due)
        self.books.attempt_made(job, came_to, made)

    @property
    def recorded(self) -> list[AttemptRecord]:
        return [attempt for write in self.store.writes for attempt in write]


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    made.store.may_go_on.set()
    await asyncio.gather(*made.tasks)


@pytest.mark.parametrize(
    ("url", "host", "destination"),
    [
        ("https://Shop.example:8443/hook", "shop.example", None),
        (named_url("shop", "/hook"), None, "shop"),
    ],
)
async def test_a_dead_letter_says_where_the_call_went(url: str, host: str | None, destination: str | None) -> None:
    letters: list[DeadLetter] = []

    class Letters:
        async def insert(self, several: Sequence[DeadLetter]) -> None:
            letters.extend(several)

    nothing: Any = None
    kept: Any = Letters()
    books = Bookkeeper(balances=nothing, dead_letters=kept, attempts=nothing, clock=ManualClock(), spawn=nothing)
    await books.dead_letter(replace(definition(), url=url), Outcome(state=State.FAILED, attempts=3))
    assert [(letter.host, letter.destination) for letter in letters] == [(host, destination)]


async def test_a_failed_attempt_is_kept_with_its_original(bench: Bench) -> None:
    bench.fail(error=None, excerpt="no", duration_seconds=1.25)
    bench.fail(tail=2, status=None, error="timeout")
    await bench.books.flush()
    first, second = bench.recorded
    assert (first.status, first.error, first.attempt, first.excerpt) == (503, None, 3, "no")
    assert (first.started_at, first.duration_ms) == (NOW, 1250)
    assert first.partition == partition_of(ClientId("shop"), first.schedule_id)
    assert (second.status, second.error) == (None, "timeout")


async def test_why_there_was_no_answer_is_kept_within_bounds(bench: Bench) -> None:
    ends = (
        TargetEnd(End.UNAVAILABLE, "the cluster has no such topic"),
        TargetEnd(End.REFUSED, "é" * 1_000),
        TargetEnd(End.TIMED_OUT),
    )
    for ended in ends:
        bench.fail_so(result_of(ended, kind="box", started_at_ms=NOW, duration_seconds=0.25))
    bench.fail(status=None, error="connect-refused", detail="could not connect: Connection refused")
    bench.fail(status=503, detail="the answer broke off", excerpt="not now")
    await bench.books.flush()
    assert [(one.status, one.error, one.excerpt) for one in bench.recorded] == [
        (None, "unavailable", "the cluster has no such topic"),
        (None, "rejected", "é" * LONGEST_REASON),
        (None, "timeout", ""),
        (None, "connect-refused", "could not connect: Connection refused"),
        (503, None, "not now"),
    ]


async def test_a_success_is_recorded_only_where_its_row_does_not_tell_all_of_it(bench: Bench) -> None:
    for attempts, duration in ((1, 0.5), (2, 0.5), (3, 0.0001)):
        made = Outcome(state=State.DELIVERED, attempts=attempts)
        bench.fail(tail=attempts, made=made, status=204, excerpt="secret", duration_seconds=duration)
    await bench.books.flush()
    assert all(one.delivered for one in bench.recorded)
    told = [(one.attempt, one.started_at, one.duration_ms, one.excerpt) for one in bench.recorded]
    assert told == [(2, NOW, 500, ""), (3, NOW, 1, "")]


async def test_waiting_records_share_writes(bench: Bench) -> None:
    for number in range(ATTEMPTS_PER_WRITE * 2 + 1):
        bench.fail(tail=number)
    await bench.books.flush()
    assert [len(write) for write in bench.store.writes] == [ATTEMPTS_PER_WRITE, ATTEMPTS_PER_WRITE, 1]
    bench.fail()
    await bench.books.flush()
    assert len(bench.store.writes) == 4
    assert bench.books.unrecorded == 0


async def test_storage_that_comes_back_loses_nothing(bench: Bench) -> None:
    bench.store.away = ATTEMPT_WRITE_TRIES - 1
    bench.fail()
    await bench.books.flush()
    assert len(bench.recorded) == 1
    assert bench.books.unrecorded == 0


async def test_what_can_not_be_recorded_is_counted(bench: Bench) -> None:
    bench.store.away = ATTEMPT_WRITE_TRIES
    bench.fail()
    bench.fail(tail=2)
    await bench.books.flush()
    assert bench.recorded == []
    assert bench.books.unrecorded == 2
    bench.fail(tail=3)
    await bench.books.flush()
    assert len(bench.recorded) == 1


@pytest.mark.parametrize("error", [ContentTooLarge("Cassandra refused it"), StoreRefused("Cassandra refused it")])
async def test_records_refused_by_storage_are_counted_and_stop_no_other(bench: Bench, error: MinutehandError) -> None:
    bench.store.refuses = error
    bench.fail()
    bench.fail(tail=2)
    await bench.books.flush()
    assert (bench.store.tries, bench.books.unrecorded) == (1, 2)
    bench.store.refuses = None
    bench.fail(tail=3)
    await bench.books.flush()
    assert len(bench.recorded) == 1


async def test_one_clients_flood_leaves_room_for_anothers_records(bench: Bench) -> None:
    bench.store.may_go_on.clear()
    for number in range(ATTEMPTS_WAITING):
        bench.fail("flood", tail=number)
    lost = bench.books.unrecorded
    assert lost == ATTEMPTS_WAITING // 2
    for number in range(100):
        bench.fail("shop", tail=number)
    assert bench.books.unrecorded == lost
    bench.store.may_go_on.set()
    await bench.books.flush()
    assert sum(attempt.client_id == "shop" for attempt in bench.recorded) == 100
    assert len(bench.recorded) == ATTEMPTS_WAITING // 2 + 100


def test_a_flush_does_not_wait_for_ever() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.store.may_go_on.clear()
        bench.fail()
        began = asyncio.get_running_loop().time()
        await bench.books.flush()
        assert asyncio.get_running_loop().time() - began == pytest.approx(FLUSH_SECONDS)
        assert bench.recorded == []
        bench.store.may_go_on.set()
        await asyncio.gather(*bench.tasks)

    run_virtual(scenario)
