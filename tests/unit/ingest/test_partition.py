"""A partition's worker over the API in memory: whatever dies and whenever, each record is made once."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from minutehand.client._models import Fault
from minutehand.ingest.api import IngestApi, Later, Refused
from minutehand.ingest.cloud_events import read_record
from minutehand.ingest.counts import IngestCounts
from minutehand.ingest.partition import PartitionWorker
from minutehand.ingest.plans import MAX_ITEMS, Plan, read_plan
from minutehand.ingest.records import Record
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.once import parse_once
from tests.support.api import NOW, ApiHarness, SeededRandomness
from tests.unit.ingest.test_records import document

DUE = format_instant(NOW + 7_200_000)


class Died(Exception):
    """The process is gone."""


@dataclass
class World:
    """Kafka's side: the group's offset with its metadata, and the dead letters. `die_at`: at which step the process
    dies; `before`: before it takes effect, else behind."""

    offset: int = 0
    metadata: str = ""
    letters: list[tuple[int, str]] = field(default_factory=list)
    steps: int = 0
    die_at: int = -1
    before: bool = True

    def begin(self) -> int:
        """A step, and its number for `end`."""
        self.steps += 1
        if self.before and self.steps == self.die_at:
            raise Died
        return self.steps

    def end(self, step: int) -> None:
        if not self.before and step == self.die_at:
            raise Died

    async def commit(self, offset: int, metadata: str) -> None:
        step = self.begin()
        assert offset >= self.offset
        self.offset, self.metadata = offset, metadata
        self.end(step)

    async def send(self, record: Record, kind: str, faults: Sequence[Fault]) -> None:
        step = self.begin()
        assert faults
        self.letters.append((record.offset, kind))
        self.end(step)


class Mortal(IngestApi):
    """Dies at a step of its world."""

    world: World

    async def create(self, token: str, body: bytes, count: int) -> list[Refused | None]:
        step = self.world.begin()
        made = await super().create(token, body, count)
        self.world.end(step)
        return made

    async def cancel(self, *, key: str | None, schedule_id: str | None) -> Refused | None:
        step = self.world.begin()
        done = await super().cancel(key=key, schedule_id=schedule_id)
        self.world.end(step)
        return done


@dataclass
class Scene:
    """An API, and a world to ingest from."""

    harness: ApiHarness
    key: str
    world: World = field(default_factory=World)
    counts: IngestCounts = field(default_factory=IngestCounts)

    async def handle(
        self, records: Sequence[Record], *, until: Callable[[World], bool] | None = None, **more: Any
    ) -> None:
        """Run a worker from the stored offset on until all is committed. Raises Died."""
        assert self.harness.server is not None
        clock, randomness = self.harness.clock, SeededRandomness(self.world.die_at)
        url = f"http://127.0.0.1:{self.harness.server.port}"
        async with Mortal(url, self.key, "shop", clock=clock, randomness=randomness) as api:
            api.world = self.world
            worker = PartitionWorker(
                "t/0",
                offset=self.world.offset,
                found=read_plan(self.world.metadata),
                read=read_record,
                api=api,
                letters=self.world,
                commit=self.world.commit,
                clock=clock,
                randomness=randomness,
                counts=self.counts,
                **{"batch_records": 3, **more},
            )
            worker.feed([record for record in records if record.offset >= self.world.offset])
            end = records[-1].offset + 1
            worker.reached(end)
            running = asyncio.create_task(worker.run())
            done = until or (lambda world: world.offset == end)
            try:
                while not done(self.world) and not running.done():  # noqa: ASYNC110
                    await asyncio.sleep(0)
                if running.done():
                    await running
            except BaseExceptionGroup as group:
                raise group.exceptions[0] from None
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    async def made(self) -> Counter[tuple[str, str]]:
        """How many schedules there are of each label and state."""
        query = {"from": format_instant(NOW - 3_600_000), "to": format_instant(NOW + 10_000_000), "limit": "1000"}
        reply = await self.harness.send("GET", "/v1/clients/shop/schedules", key=self.key, params=query)
        return Counter((one["label"], one["state"]) for one in reply.json["items"])


async def scene(harness: ApiHarness) -> Scene:
    return Scene(harness, await harness.register(settings={"create_rate_per_second": 100_000}))


def at(offset: int, value: bytes | None, key: bytes | None = None) -> Record:
    return Record("t", 0, offset, NOW - 5_000, key, value)


STORY = (
    at(0, document(label="a", due=DUE)),
    at(1, document(label="b", due=DUE)),
    at(2, b"{"),
    at(3, document(label="soon", delay_seconds=1)),
    at(4, document(label="refused", due=DUE, timeout_seconds=-1)),
    at(5, document(label="k-first", due=DUE, op="put"), b"k"),
    at(6, document(label="k-second", due=DUE, op="put"), b"k"),
    at(7, None, b"k"),
    at(8, b'{"op":"cancel","key":"none"}'),
    at(9, document(label="k-third", due=DUE, op="put"), b"k"),
    at(10, document(label="c", due=DUE, ordering_key="o")),
    at(12, document(label="overdue", due=format_instant(NOW - 900_000))),
)
MADE = {
    ("a", "scheduled"): 1,
    ("b", "scheduled"): 1,
    ("soon", "scheduled"): 1,
    ("k-first", "cancelled"): 1,
    ("k-second", "cancelled"): 1,
    ("k-third", "scheduled"): 1,
    ("c", "scheduled"): 1,
    ("overdue", "scheduled"): 1,
}
LETTERS = {(2, "unreadable"), (4, "invalid"), (8, "not-found")}


async def test_the_story_without_deaths() -> None:
    async with ApiHarness() as harness:
        told = await scene(harness)
        await told.handle(STORY)
        assert await told.made() == MADE
        assert set(told.world.letters) == LETTERS
        assert len(told.world.letters) == len(LETTERS)
        assert (told.world.offset, told.world.metadata) == (13, "")
        assert told.counts.held_bytes == 0


@pytest.mark.cpu_budget(20)
@pytest.mark.timeout(120)
@pytest.mark.parametrize("away_seconds", [0, 3_000], ids=["at once", "after the token is too old"])
@pytest.mark.parametrize("before", [True, False], ids=["before", "behind"])
async def test_a_death_at_any_step_makes_nothing_twice(before: bool, away_seconds: int) -> None:
    deaths = 0
    for die_at in range(1, 100):
        async with ApiHarness() as harness:
            told = await scene(harness)
            told.world.die_at, told.world.before = die_at, before
            try:
                await told.handle(STORY)
            except Died:
                deaths += 1
                told.world.die_at = -1
                harness.clock.advance(away_seconds)
                await told.handle(STORY)
            made = await told.made()
            assert made == MADE, f"step {die_at}"
            assert set(told.world.letters) == LETTERS, f"step {die_at}"
            if told.world.die_at > 0:
                break
    assert deaths > 10


async def test_a_batch_that_is_no_json_to_the_api_is_divided() -> None:
    """A value that we take and the API does not, such as one nested deeper than it reads."""
    deep = b'{"label":"deep","due":"%b","callback":{"url":"https://a.example/","json":%b%b}}'
    records = [at(n, document(label=str(n), due=DUE)) for n in range(6)]
    records[4] = at(4, deep % (DUE.encode(), b"[" * 500, b"]" * 500))
    async with ApiHarness() as harness:
        told = await scene(harness)
        await told.handle(records, batch_records=100)
        made = await told.made()
        assert {label for label, _ in made} >= {"0", "1", "2", "3", "5"}
        assert made.total() + len(told.world.letters) == 6


@pytest.mark.parametrize("seconds", [60, 3_600])
async def test_the_clients_own_settings_say_how_long_ago_a_due_may_be(seconds: int) -> None:
    async with ApiHarness() as harness:
        told = Scene(harness, await harness.register(settings={"accept_past_seconds": seconds}))
        told.world.die_at = 2
        with pytest.raises(Died):
            await told.handle([at(0, document(label="old", due=DUE))])
        plan = read_plan(told.world.metadata)
        assert plan is not None
        # 2 s less: a margin for a batch of 1,000, and for clocks.
        assert parse_once(plan.token).asked_at - plan.oldest == seconds * 1000 - 2_000


async def test_the_clients_own_retention_says_what_may_have_been_deleted() -> None:
    async with ApiHarness() as harness:
        told = Scene(harness, await harness.register(settings={"retention_days": 3}))
        records = [at(0, document(label="a", delay_seconds=60))]
        told.world.die_at = 2
        with pytest.raises(Died):
            await told.handle(records)
        told.world.die_at = -1
        harness.clock.advance(2 * 86_400)
        await told.handle(records)
        assert told.world.letters == []


async def test_what_may_have_been_deleted_is_a_dead_letter() -> None:
    async with ApiHarness() as harness:
        told = await scene(harness)
        records = [at(0, document(label="a", delay_seconds=60))]
        told.world.die_at = 2
        with pytest.raises(Died):
            await told.handle(records)
        told.world.die_at = -1
        harness.clock.advance(8 * 86_400)
        await told.handle(records)
        assert told.world.letters == [(0, "in-doubt")]
        assert await told.made() == {}


async def test_records_that_have_changed_under_a_plan_are_dead_letters() -> None:
    async with ApiHarness() as harness:
        told = await scene(harness)
        told.world.die_at, told.world.before = 2, False
        with pytest.raises(Died):
            await told.handle(STORY[:2])
        told.world.die_at = -1
        await told.handle(STORY[1:2])
        assert told.world.letters == [(1, "in-doubt")]
        assert await told.made() == {("a", "scheduled"): 1, ("b", "scheduled"): 1}


@pytest.mark.parametrize("why", ["cancel", "creates", "bytes"])
async def test_a_plan_beyond_its_log_holds_a_bounded_memory(why: str) -> None:
    """The log was cut off below the plan's end and grew again, so the records are others, and as many as come."""
    grown = {
        "cancel": [at(0, document(label="x", due=DUE)), at(1, None, b"k")],
        "creates": [at(n, document(label="x", due=DUE)) for n in range(MAX_ITEMS + 1)],
        "bytes": [at(n, b"x" * (30 << 20)) for n in range(3)],
    }[why]
    async with ApiHarness() as harness:
        told = await scene(harness)
        plan = Plan(5_000, f"{NOW}.3.1.{'n' * 22}", NOW, "f" * 24)
        told.world.metadata = plan.text()
        end = len(grown)
        await told.handle(grown, until=lambda world: world.offset == end, hold_bytes=1_000)
        kinds = {"cancel": {"in-doubt": 1}, "creates": {"in-doubt": end}, "bytes": {"unreadable": end}}[why]
        assert Counter(kind for _, kind in told.world.letters) == kinds
        assert told.counts.records["nothing-to-cancel"] == (why == "cancel"), "a cancel is never in doubt"
        assert told.counts.held_bytes == 0
        assert await told.made() == {}
        found = read_plan(told.world.metadata)
        assert found is not None
        assert (found.end, found.broken) == (5_000, True)
        # The rest is doubted by the next owner of the partition, and what follows is as ever.
        rest = [at(4_999, document(label="y", due=DUE)), at(5_000, document(label="z", due=DUE))]
        told.world.letters.clear()
        await told.handle(rest)
        assert told.world.letters == [(4_999, "in-doubt")]
        assert await told.made() == {("z", "scheduled"): 1}


async def test_a_partition_whose_plan_is_given_up_is_paused_until_its_letters_are_written() -> None:
    async with ApiHarness() as harness:
        told = await scene(harness)
        worker = PartitionWorker(
            "t/0", offset=0, found=Plan(99, f"{NOW}.3.1.{'n' * 22}", NOW, "f"), read=read_record, api=None,  # type: ignore[arg-type]
            letters=told.world, commit=told.world.commit, clock=harness.clock, randomness=SeededRandomness(),
            counts=told.counts, hold_records=4,
        )  # fmt: skip
        worker.feed([at(n, document(label="x", due=DUE)) for n in range(9)])
        assert not worker.full, "its records may be beyond the hold"
        worker.feed([at(9, None, b"k")])
        assert worker.full


async def test_a_partition_is_full_and_has_room_again() -> None:
    async with ApiHarness() as harness:
        told = await scene(harness)
        worker = PartitionWorker(
            "t/0", offset=0, found=None, read=read_record, api=None, letters=told.world, commit=told.world.commit,  # type: ignore[arg-type]
            clock=harness.clock, randomness=SeededRandomness(), counts=told.counts, hold_records=4, hold_bytes=10_000,
        )  # fmt: skip
        worker.feed(STORY[:2])
        assert not worker.full
        worker.feed(STORY[2:5])
        assert worker.full
        assert not worker.has_room
        worker.abandon()
        assert worker.has_room
        assert told.counts.held_bytes == 0
        worker.feed([at(20, b"x" * 20_000)])
        assert worker.full


async def test_a_key_that_is_not_valid_loses_nothing() -> None:
    async with ApiHarness() as harness:
        told = await scene(harness)
        good, told.key = told.key, "wrong"
        await told.handle(STORY, until=lambda world: any(one.denied for one in told.counts.waiting.values()))
        assert told.world.offset == 0
        assert told.world.letters == []
        told.key = good
        await told.handle(STORY)
        assert await told.made() == MADE


async def test_dead_letters_that_are_not_taken_hold_the_offset_back() -> None:
    async with ApiHarness() as harness:
        told = await scene(harness)
        tries = 0
        send = told.world.send

        async def refuse(record: Record, kind: str, faults: Sequence[Fault]) -> None:
            nonlocal tries
            tries += 1
            if tries < 4:
                assert told.world.offset == 0
                raise Later("away")
            await send(record, kind, faults)

        told.world.send = refuse  # type: ignore[method-assign]
        await told.handle(STORY[:3])
        assert told.world.letters == [(2, "unreadable")]
