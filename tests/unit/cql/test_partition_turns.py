"""A process makes one Paxos request per partition at a time: which ones share it, their answers, and the pauses without
one.
"""

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from cql.connection import AnswerRows, Item, Parameters
from cql.memory.connection import InMemoryConnection
from cql.partition_turns import ROWS_PER_UPDATE
from cql.storage import Storage
from membership.conditional import APPLIED, Answer, Rejected, Unknown
from membership.errors import StoreUnavailable
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.schedules import Definition, State
from scheduler_service.runtime.backoff import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS
from tests.contract.builders import START, cancelled, commit, definition, delivered, redelivered, retrying, update
from tests.simulation.sim_clock import SimClock
from tests.support.virtual_loop import run_virtual, virtual_loop

SHOP = ClientId("shop")
NEXT = START + 90_000


class Slow(InMemoryConnection):
    """Conditional writes and serial reads take `seconds`; the first `unanswered` of them take effect without an
    answer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.clock = SimClock()
        self.seconds = 0.01
        self.unanswered = 0
        self.sent: list[tuple[float, int]] = []
        self.under_way = self.most = 0

    async def conditional(self, items: Sequence[Item]) -> Answer[AnswerRows]:
        await self._round(len(items))
        answer = await super().conditional(items)
        return Unknown("planted") if self._is_lost() else answer

    async def select(self, name: str, parameters: Parameters, **options: Any) -> list[tuple[Any, ...]]:
        if options.get("serial"):
            await self._round(1)
            if self._is_lost():
                raise StoreUnavailable("planted")
        return await super().select(name, parameters, **options)

    async def _round(self, size: int) -> None:
        self.sent.append((virtual_loop().time(), size))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await self.clock.sleep(self.seconds)
        self.under_way -= 1

    def _is_lost(self) -> bool:
        self.unanswered -= 1
        return self.unanswered >= 0

    @property
    def sizes(self) -> list[int]:
        return [size for _, size in self.sent]

    @property
    def pauses(self) -> list[float]:
        instants = [at for at, _ in self.sent]
        return [later - earlier - self.seconds for earlier, later in itertools.pairwise(instants)]


class Half:
    """Randomness whose fractions are one half: pauses have their nominal length."""

    def fraction(self) -> float:
        return 0.5

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


class Ground:
    def __init__(self) -> None:
        self.connection = Slow()
        randomness: Any = Half()
        self.storage = Storage.over(self.connection, clock=self.connection.clock, randomness=randomness)
        self.schedules = self.storage.schedules

    async def rows(self, count: int, *, pointed: bool = True) -> list[Definition]:
        """Rows that are retried at NEXT, or have no outcome."""
        rows = [definition(SHOP, offset=number, tail=number + 1) for number in range(count)]
        await self.schedules.insert_many(rows)
        if pointed:
            for start in range(0, count, 100):
                some = rows[start : start + 100]
                await self.schedules.update(update(some[0].partition, 1, *(retrying(one, NEXT) for one in some)))
        self.connection.sent.clear()
        return rows

    def ends(self, rows: Sequence[Definition], *, expect_next: int = NEXT) -> list["asyncio.Task[Answer[Any]]"]:
        """Carry the end of each row's retry row to the row, all at once."""
        loop = asyncio.get_running_loop()
        return [
            loop.create_task(
                self.schedules.update(
                    update(
                        one.partition,
                        number + 1,
                        delivered(one, expect=State.RETRYING, expect_next=expect_next),
                        known=False,
                    )
                )
            )
            for number, one in enumerate(rows)
        ]

    async def states(self) -> list[str | None]:
        return [row["state"] for row in self.connection.rows("schedules")]


def on_ground(scenario: Any) -> None:
    async def run() -> None:
        ground = Ground()
        try:
            await scenario(ground)
        finally:
            await ground.storage.close()

    run_virtual(run)


def test_hundreds_of_ends_take_few_writes_one_at_a_time() -> None:
    async def scenario(ground: Ground) -> None:
        rows = await ground.rows(700)
        assert await asyncio.gather(*ground.ends(rows)) == [APPLIED] * 700
        assert ground.connection.sizes == [ROWS_PER_UPDATE + 1, ROWS_PER_UPDATE + 1, 201]
        assert ground.connection.most == 1
        assert set(await ground.states()) == {State.DELIVERED}
        assert len(ground.storage.tasks) == 0

    on_ground(scenario)


def test_partitions_do_not_wait_for_each_other() -> None:
    async def scenario(ground: Ground) -> None:
        one, other = definition(SHOP), definition(SHOP, poller_id=1)
        await asyncio.gather(
            *(ground.schedules.open(each.partition, epoch=1, expect_epoch=None) for each in (one, other))
        )
        assert ground.connection.most == 2

    on_ground(scenario)


def test_a_rejected_update_gets_the_current_values_and_the_others_are_repeated() -> None:
    async def scenario(ground: Ground) -> None:
        rows = await ground.rows(5)
        stale = ground.ends(rows[1:3], expect_next=NEXT - 1)
        answers = await asyncio.gather(*ground.ends(rows[:1]), *stale, *ground.ends(rows[3:]))
        kept = await asyncio.gather(*(ground.schedules.read_rows(one.partition, [one.key]) for one in rows[1:3]))
        assert [answers[0], *answers[3:]] == [APPLIED] * 3
        for one, answer in zip(rows[1:3], answers[1:3], strict=True):
            assert isinstance(answer, Rejected)
            assert answer.current.rows == {one.key: ("retrying", NEXT)}
        assert [found[one.key].state for one, (_, found) in zip(rows[1:3], kept, strict=True)] == ["retrying"] * 2
        assert ground.connection.sizes == [6, 4]

    on_ground(scenario)


def test_edits_that_test_different_versions_do_not_share() -> None:
    async def scenario(ground: Ground) -> None:
        rows = await ground.rows(4, pointed=False)
        where = rows[0].partition
        await ground.schedules.commit(commit(where, expect_epoch=None))
        ground.connection.sent.clear()
        known = [update(where, number + 1, cancelled(one), version=1) for number, one in enumerate(rows[:2])]
        old = [update(where, number + 3, cancelled(one), version=None) for number, one in enumerate(rows[2:])]
        answers = await asyncio.gather(*map(ground.schedules.update, (known[0], old[0], known[1], old[1])))
        assert [type(answer) for answer in answers] == [type(APPLIED), Rejected, type(APPLIED), Rejected]
        assert ground.connection.sizes == [3, 3]

    on_ground(scenario)


def test_two_edits_of_one_row_do_not_share() -> None:
    async def scenario(ground: Ground) -> None:
        (row,) = await ground.rows(1)
        first, second = ground.ends([row]), ground.ends([row])
        applied, rejected = await asyncio.gather(*first, *second)
        assert applied == APPLIED
        assert isinstance(rejected, Rejected)
        assert rejected.current.rows == {row.key: ("delivered", None)}
        assert ground.connection.sizes == [2, 2]

    on_ground(scenario)


def test_updates_whose_rejection_would_be_ambiguous_go_alone() -> None:
    """A rejection does not show whether a row finished at another instant, so updates that test that go alone."""

    async def scenario(ground: Ground) -> None:
        rows = await ground.rows(2)
        await asyncio.gather(*ground.ends(rows))
        ground.connection.sent.clear()
        edits = [
            update(
                one.partition,
                number + 1,
                redelivered(one, NEXT + 1, expect=State.DELIVERED, ended_at=one.due + (5 if number else 6)),
                known=False,
            )
            for number, one in enumerate(rows)
        ]
        answers = await asyncio.gather(*map(ground.schedules.update, edits))
        assert isinstance(answers[0], Rejected)
        assert answers[1] == APPLIED
        assert ground.connection.sizes == [2, 2]

    on_ground(scenario)


@pytest.mark.parametrize(("lean", "requests"), [(True, 1), (False, 4)])
def test_serial_reads_of_single_rows_share(lean: bool, requests: int) -> None:
    """In smaller groups where their content is read too, which may have any length."""

    async def scenario(ground: Ground) -> None:
        rows = await ground.rows(50)
        where, keys, read = rows[0].partition, [one.key for one in rows], ground.schedules.read_rows
        found = await asyncio.gather(*(read(where, [key], serial=True, lean=lean) for key in keys))
        assert [(one[key].schedule_id, one[key].body) for key, (_, one) in zip(keys, found, strict=True)] == [
            (one.schedule_id, None if lean else one.body) for one in rows
        ]
        assert len({header.edits for header, _ in found}) == 1
        assert len(ground.connection.sent) == requests
        assert ground.connection.most == 1

    on_ground(scenario)


def test_without_answers_a_partition_is_left_alone_longer_and_longer() -> None:
    """Repeating an unanswered request at once would only add load: all repeats share one write after the pause."""

    async def scenario(ground: Ground) -> None:
        rows = await ground.rows(100)
        ground.connection.unanswered, ground.connection.seconds = 8, 2.0

        async def carry(one: Definition) -> None:
            write_ = delivered(one, expect=State.RETRYING, expect_next=NEXT)
            while isinstance(await ground.schedules.update(update(one.partition, 1, write_, known=False)), Unknown):
                pass

        await asyncio.gather(*map(carry, rows))
        nominal = [min(FIRST_PAUSE_SECONDS * 2**turn, LONGEST_PAUSE_SECONDS) for turn in range(8)]
        assert ground.connection.pauses[:8] == pytest.approx(nominal)
        assert len(ground.connection.sent) == 9
        assert ground.connection.most == 1

    on_ground(scenario)


def test_the_pause_applies_to_all_but_an_owner_is_answered_at_once() -> None:
    async def scenario(ground: Ground) -> None:
        (row,) = await ground.rows(1)
        where = row.partition
        ground.connection.unanswered = 1
        began = virtual_loop().time()
        assert isinstance(await ground.schedules.open(where, epoch=1, expect_epoch=None), Unknown)
        assert virtual_loop().time() - began == pytest.approx(ground.connection.seconds)
        await ground.schedules.read_rows(where, [row.key], serial=True)
        assert ground.connection.pauses == pytest.approx([FIRST_PAUSE_SECONDS])

    on_ground(scenario)


def test_pauses_are_counted_also_those_cut_short_by_the_close() -> None:
    async def scenario(ground: Ground) -> None:
        pauses = ground.storage.metrics.pauses
        ground.connection.unanswered = 3
        rows = [definition(SHOP, poller_id=number) for number in range(3)]
        for one in rows:
            await ground.schedules.open(one.partition, epoch=1, expect_epoch=None)
        assert (pauses.now, pauses.begun) == (3, 3)
        await ground.connection.clock.sleep(FIRST_PAUSE_SECONDS)
        assert pauses.now == 0
        ground.connection.unanswered = 1
        await ground.schedules.open(rows[0].partition, epoch=1, expect_epoch=None)
        await asyncio.sleep(0)
        assert pauses.now == 1
        await ground.storage.close()
        assert (pauses.now, pauses.begun) == (0, 4)

    on_ground(scenario)


def test_a_serial_read_without_an_answer_is_an_error() -> None:
    async def scenario(ground: Ground) -> None:
        rows = await ground.rows(2)
        where = rows[0].partition
        for keys in ([rows[0].key], [one.key for one in rows]):
            ground.connection.unanswered = 1
            with pytest.raises(StoreUnavailable, match="planted"):
                await ground.schedules.read_rows(where, keys, serial=True)

    on_ground(scenario)


def test_what_was_cancelled_before_it_was_sent_is_not_sent() -> None:
    async def scenario(ground: Ground) -> None:
        rows = await ground.rows(3)
        tasks = ground.ends(rows[:1])
        await asyncio.sleep(0)
        tasks += ground.ends(rows[1:])
        await asyncio.sleep(0)
        tasks[1].cancel()
        assert (await asyncio.gather(*tasks, return_exceptions=True))[::2] == [APPLIED] * 2
        assert ground.connection.sizes == [2, 2]
        assert sorted(map(str, await ground.states())) == ["delivered", "delivered", "retrying"]

    on_ground(scenario)


def test_requests_waiting_when_the_store_closes_are_unknown() -> None:
    async def scenario(ground: Ground) -> None:
        rows = await ground.rows(2)
        tasks = ground.ends(rows[:1])
        await asyncio.sleep(0)
        tasks += ground.ends(rows[1:])
        reading = asyncio.ensure_future(ground.schedules.read_rows(rows[0].partition, [rows[0].key], serial=True))
        await asyncio.sleep(0)
        await ground.storage.close()
        assert [type(answer) for answer in await asyncio.gather(*tasks)] == [Unknown] * 2
        with pytest.raises(StoreUnavailable, match="closed"):
            await reading

    on_ground(scenario)
