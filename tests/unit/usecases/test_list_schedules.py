from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cql.memory.connection import InMemoryConnection
from cql.schedules import KEYS_PER_READ
from membership.errors import StoreUnavailable
from scheduler_service.domain.ids import (
    DAY_MS,
    ClientId,
    CronId,
    PollerId,
    RowKey,
    ScheduleId,
    UnixMillis,
    minute_of,
    minute_start,
    new_schedule_id,
)
from scheduler_service.domain.options import ScheduleOptions, encode_options
from scheduler_service.domain.schedule_filters import ScheduleFilter
from scheduler_service.domain.schedule_keys import KeyMark
from scheduler_service.domain.schedules import Definition, ExternalUpdate, Kind, Outcome, OwnerCommit, RowWrite, State
from scheduler_service.usecases import list_schedules, reading_steps
from scheduler_service.usecases.list_schedules import Listed, ListSchedules, Position, Window
from tests.support.api import NOW, ApiHarness, SeededRandomness

SHOP = ClientId("shop")
RANDOM = SeededRandomness(7)


def definition(due: int, poller: int = 0, **fields: Any) -> Definition:
    at = UnixMillis(due)
    return Definition(
        **{
            "client_id": SHOP,
            "poller_id": PollerId(poller),
            "due": at,
            "schedule_id": new_schedule_id(due=due, poller_id=poller, randomness=RANDOM),
            "method": "POST",
            "url": "https://receiver.example/",
            "headers": "[]",
            "body": b"",
            "options": "{}",
            "created_at": UnixMillis(NOW),
            **fields,
        }
    )


async def insert(world: ApiHarness, definitions: Iterable[Definition]) -> list[Definition]:
    made = list(definitions)
    for one in made:
        await world.storage.schedules.insert(one)
    return made


def window(start: int = NOW, end: int = NOW + 86_400_000, **filters: Any) -> Window:
    return Window(client_id=SHOP, start=UnixMillis(start), end=UnixMillis(end), filter=ScheduleFilter(**filters))


async def pages(world: ApiHarness, asked: Window, *, limit: int) -> list[list[Listed]]:
    list_all = ListSchedules(schedules=world.storage.schedules)
    found: list[list[Listed]] = []
    position: Position | None = None
    while True:
        listing = await list_all(asked, limit=limit, position=position)
        found.append(listing.items)
        assert len(listing.items) <= limit
        if listing.next is None:
            return found
        assert listing.next != position, "a listing must get on"
        position = listing.next
        assert len(found) < 2_000


def ids(found: list[list[Listed]]) -> list[ScheduleId]:
    return [listed.row.schedule_id for page in found for listed in page]


DUES = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 200), st.integers(0, 200_000), st.integers(0, 7_200_000)),
        st.integers(0, 5),
    ),
    max_size=60,
)


@given(rows=DUES, limit=st.integers(1, 12), start=st.integers(0, 130_000), length=st.integers(1, 7_300_000))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_pages_together_are_the_window_in_due_order(
    rows: list[tuple[int, int]], limit: int, start: int, length: int
) -> None:
    world = ApiHarness()
    made = await insert(world, (definition(NOW + offset, poller) for offset, poller in rows))
    first, last = NOW + start, NOW + start + length
    expected = sorted((one.due, one.schedule_id) for one in made if first <= one.due < last)
    found = await pages(world, window(first, last), limit=limit)
    assert [(listed.row.due, listed.row.schedule_id) for page in found for listed in page] == expected
    await world.storage.close()


async def test_start_is_included_and_end_is_not(world: ApiHarness) -> None:
    made = await insert(world, (definition(NOW + offset) for offset in (99, 100, 101, 200)))
    found = await pages(world, window(NOW + 100, NOW + 200), limit=10)
    assert ids(found) == [made[1].schedule_id, made[2].schedule_id]


async def test_retry_rows_and_pointers_without_definition_are_hidden(world: ApiHarness) -> None:
    (shown,) = await insert(world, [definition(NOW + 1)])
    await insert(world, [definition(NOW + 2, kind=Kind.RETRY_ROW, origin_due=UnixMillis(NOW - 60_000), attempt_base=1)])
    pointer = definition(NOW + 3)
    await world.storage.schedules.update(
        ExternalUpdate(
            partition=pointer.partition,
            edits=RANDOM.uuid4(),
            version=None,
            version_known=True,
            writes=(RowWrite(key=pointer.key, outcome=Outcome(state=State.CANCELLED), expect_state=State.SCHEDULED),),
        )
    )
    assert ids(await pages(world, window(), limit=10)) == [shown.schedule_id]


async def test_filters(world: ApiHarness) -> None:
    made = await insert(
        world,
        [
            definition(NOW + 1, label="a"),
            definition(NOW + 2, label="b"),
            definition(NOW + 3, label="a", cron_id=CronId("nightly")),
            definition(NOW + 4),
        ],
    )
    await world.storage.schedules.commit(
        OwnerCommit(
            partition=made[0].partition,
            epoch=1,
            expect_epoch=None,
            version=None,
            edits=None,
            edits_known=True,
            in_flight=frozenset([made[3].schedule_id]),
            writes=(RowWrite(key=made[1].key, outcome=Outcome(state=State.DELIVERED, attempts=1)),),
        )
    )

    async def found(**filters: Any) -> list[int]:
        listed = ids(await pages(world, window(**filters), limit=10))
        return [[one.schedule_id for one in made].index(id_) for id_ in listed]

    assert await found() == [0, 1, 2, 3]
    assert await found(labels=("a",)) == [0, 2]
    assert await found(states=(State.DELIVERED,)) == [1]
    assert await found(states=(State.SCHEDULED,)) == [0, 2, 3]
    assert await found(cron_id=CronId("nightly")) == [2]
    assert await found(labels=("b",), states=(State.SCHEDULED,)) == []
    (page,) = await pages(world, window(), limit=10)
    assert [listed.in_flight for listed in page] == [False, False, False, True]


async def test_work_is_bounded_and_a_page_may_be_short(world: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    made = await insert(world, (definition(NOW + minute * 60_000) for minute in range(100)))
    reads: list[object] = []
    read_page = type(world.storage.schedules).read_page

    async def counted(self: Any, partition: Any, **arguments: Any) -> Any:
        reads.append(partition)
        return await read_page(self, partition, **arguments)

    monkeypatch.setattr(type(world.storage.schedules), "read_page", counted)
    list_all = ListSchedules(schedules=world.storage.schedules)
    listing = await list_all(window(), limit=1000)
    assert len(reads) <= list_schedules.MAX_PAGES
    assert 0 < len(listing.items) < 100
    assert listing.next is not None
    assert ids(await pages(world, window(), limit=1000)) == [one.schedule_id for one in made]


async def test_nothing_is_read_beyond_a_full_page(world: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    await insert(world, (definition(NOW + minute * 60_000) for minute in range(10)))
    minutes: list[int] = []
    read_page = type(world.storage.schedules).read_page

    async def noted(self: Any, partition: Any, **arguments: Any) -> Any:
        minutes.append(partition.minute - minute_of(NOW))
        return await read_page(self, partition, **arguments)

    monkeypatch.setattr(type(world.storage.schedules), "read_page", noted)
    await ListSchedules(schedules=world.storage.schedules)(window(), limit=3)
    assert minutes == [0, 1, 2]


async def test_large_bodies_make_short_pages(world: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_schedules, "MAX_BYTES", 1_000)
    made = await insert(world, (definition(NOW + offset, body=b"x" * 400) for offset in range(10)))
    found = await pages(world, window(), limit=10)
    assert [len(page) for page in found] == [3, 3, 3, 1]
    assert ids(found) == [one.schedule_id for one in made]


@dataclass(slots=True)
class Read:
    """Records what a connection has answered, and what a listing has reported of it."""

    rows: int = 0
    size: int = 0
    longest: int = 0
    told_rows: int = 0
    told_size: int = 0

    def told(self, rows: int, size: int) -> None:
        self.told_rows += rows
        self.told_size += size


@pytest.fixture
def read(world: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> Read:
    select, seen = InMemoryConnection.select, Read()

    async def watched(self: InMemoryConnection, name: str, parameters: Any, **arguments: Any) -> Any:
        answer = await select(self, name, parameters, **arguments)
        sizes = [sum(len(value) for value in values if isinstance(value, bytes)) for values in answer]
        seen.rows += len(answer) if "page" in name else 0
        seen.size += sum(sizes)
        seen.longest = max(seen.longest, sum(sizes))
        return answer

    monkeypatch.setattr(InMemoryConnection, "select", watched)
    return seen


LONG = b"x" * 60_000


async def test_what_a_filter_leaves_out_is_not_read_whole(world: ApiHarness, read: Read) -> None:
    await insert(world, (definition(NOW + offset, body=LONG) for offset in range(600)))
    listing = await ListSchedules(schedules=world.storage.schedules)(
        window(labels=("none",)), limit=1000, has_read=read.told
    )
    assert listing.items == []
    assert listing.next is None
    assert read.size == read.told_size == 0
    assert read.rows == read.told_rows == 600


async def test_the_bytes_that_are_read_are_bounded_and_reported(world: ApiHarness, read: Read) -> None:
    made = await insert(world, (definition(NOW + offset, offset % 3, body=LONG) for offset in range(200)))
    list_all = ListSchedules(schedules=world.storage.schedules)
    listing = await list_all(window(), limit=1000, has_read=read.told)
    assert [listed.row.schedule_id for listed in listing.items] == [one.schedule_id for one in made[:70]]
    assert read.size <= reading_steps.MAX_BYTES + reading_steps.FIRST_STEP_ROWS * len(LONG)
    assert read.size <= read.told_size <= 1.01 * read.size, "URLs and headers are told, too"
    assert ids(await pages(world, window(), limit=1000)) == [one.schedule_id for one in made]


async def test_long_rows_behind_many_short_ones_are_read_a_step_at_a_time(world: ApiHarness, read: Read) -> None:
    lengths = [b""] * 240 + [LONG] * 400
    made = await insert(world, (definition(NOW + number, body=body) for number, body in enumerate(lengths)))
    listing = await ListSchedules(schedules=world.storage.schedules)(window(), limit=1000, has_read=read.told)
    assert read.size <= reading_steps.MAX_BYTES + reading_steps.MAX_STEP_ROWS * len(LONG)
    assert read.longest <= KEYS_PER_READ * len(LONG)
    assert len(listing.items) == 310
    assert ids(await pages(world, window(), limit=1000)) == [one.schedule_id for one in made]


async def test_rows_deleted_before_their_full_read_are_left_out(
    world: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await insert(world, [definition(NOW + 1), definition(NOW + 60_000), definition(NOW + 120_000)])
    schedules = world.storage.schedules
    read_content = type(schedules).read_content

    async def late(self: Any, partition: Any, keys: Any, **arguments: Any) -> Any:
        if partition == made[1].partition:
            await schedules.delete_partition(partition)
        return await read_content(self, partition, keys, **arguments)

    monkeypatch.setattr(type(schedules), "read_content", late)
    listing = await ListSchedules(schedules=schedules)(window(), limit=10)
    assert [listed.row.schedule_id for listed in listing.items] == [made[0].schedule_id, made[2].schedule_id]


async def test_an_unanswered_page_is_reported_in_full(world: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    await insert(world, [definition(NOW + 1)])
    told: list[tuple[int, int]] = []

    async def away(*args: Any, **arguments: Any) -> Any:
        raise StoreUnavailable("away")

    monkeypatch.setattr(type(world.storage.schedules), "read_page", away)
    with pytest.raises(StoreUnavailable):
        await ListSchedules(schedules=world.storage.schedules)(
            window(), limit=1000, has_read=lambda rows, size: told.append((rows, size))
        )
    assert told == [(list_schedules.LISTED_AT_ONCE, 0)]


async def test_a_crowded_minute_of_many_pollers_is_merged_in_order(world: ApiHarness) -> None:
    made = await insert(world, (definition(NOW + 7 * number % 1_000, number % 40) for number in range(600)))
    found = await pages(world, window(), limit=100)
    assert ids(found) == [one.schedule_id for one in sorted(made, key=lambda one: (one.due, one.schedule_id))]


async def test_an_old_position_does_not_reach_before_the_window(world: ApiHarness) -> None:
    made = await insert(world, [definition(NOW + 1), definition(NOW + 500)])
    listing = await ListSchedules(schedules=world.storage.schedules)(
        window(NOW + 100), limit=10, position=Position(minute_start(minute_of(NOW)))
    )
    assert [listed.row.key for listed in listing.items] == [RowKey(made[1].due, made[1].schedule_id)]


def keyed(name: str) -> str:
    return encode_options(ScheduleOptions(key=KeyMark(name, 1, UnixMillis(NOW), 30)))


async def mixed(world: ApiHarness, count: int) -> list[Definition]:
    """Of every three, the first calls a.example, and the second has a key."""
    return await insert(
        world,
        (
            definition(
                NOW + 40_000 * number,
                number % 4,
                url="https://a.example/x" if number % 3 == 0 else "https://b.example/",
                options=keyed(f"cart-{number}") if number % 3 == 1 else "{}",
                label="odd" if number % 2 else "even",
            )
            for number in range(count)
        ),
    )


@pytest.mark.parametrize("limit", [1, 3, 7, 100])
async def test_content_is_filtered_page_by_page(world: ApiHarness, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(list_schedules, "MAX_SEARCHED_ROWS", 5)
    made = [one.schedule_id for one in await mixed(world, 60)]
    assert ids(await pages(world, window(host="a.example"), limit=limit)) == made[0::3]
    assert ids(await pages(world, window(key_prefix="cart-"), limit=limit)) == made[1::3]
    assert ids(await pages(world, window(key_prefix="cart-1", labels=("odd",)), limit=limit)) == [
        made[number] for number in (1, 13, 19)
    ]
    assert ids(await pages(world, window(destination="mail"), limit=limit)) == []


async def test_only_rows_that_are_admitted_otherwise_are_read_whole(world: ApiHarness, read: Read) -> None:
    made = await insert(world, (definition(NOW + number, body=LONG, label=str(number % 50)) for number in range(500)))
    asked = window(host="receiver.example", labels=("7",))
    listing = await ListSchedules(schedules=world.storage.schedules)(asked, limit=1000, has_read=read.told)
    assert [listed.row.schedule_id for listed in listing.items] == [one.schedule_id for one in made[7::50]]
    assert 10 * len(LONG) <= read.size < 11 * len(LONG)
    assert read.size <= read.told_size


async def test_a_search_of_long_rows_reads_a_bounded_number_of_bytes_and_goes_on(world: ApiHarness, read: Read) -> None:
    made = await insert(world, (definition(NOW + offset, body=LONG) for offset in range(200)))
    list_all = ListSchedules(schedules=world.storage.schedules)
    listing = await list_all(window(host="none.example"), limit=10, has_read=read.told)
    assert listing.items == []
    assert listing.next == Position(made[69].due, made[69].schedule_id)
    assert read.size <= reading_steps.MAX_BYTES + reading_steps.FIRST_STEP_ROWS * len(LONG)
    assert ids(await pages(world, window(host="none.example"), limit=10)) == []


async def counts(world: ApiHarness, asked: Window) -> list[int]:
    count_all, found = ListSchedules(schedules=world.storage.schedules), list[int]()
    position: Position | None = None
    while True:
        counted = await count_all.count(asked, position=position)
        found.append(counted.count)
        if counted.next is None:
            return found
        assert counted.next != position, "a count must get on"
        position = counted.next


@given(
    rows=DUES,
    start=st.integers(0, 130_000),
    length=st.integers(1, 7_300_000),
    most=st.integers(1, 12),
    filters=st.sampled_from([{}, {"labels": ("a",)}, {"host": "a.example"}, {"host": "a.example", "labels": ("a",)}]),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
async def test_parts_of_a_count_are_together_what_a_listing_has(
    rows: list[tuple[int, int]], start: int, length: int, most: int, filters: dict[str, Any]
) -> None:
    world = ApiHarness()
    hosts = ("https://a.example/", "https://b.example/")
    await insert(
        world,
        (
            definition(NOW + offset, poller, url=hosts[offset % 2], label=("a", None)[offset % 3 // 2])
            for offset, poller in rows
        ),
    )
    asked = window(NOW + start, NOW + start + length, **filters)
    listed = ids(await pages(world, asked, limit=100))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(list_schedules, "MAX_COUNTED_ROWS", most)
        patched.setattr(list_schedules, "MAX_COUNTED_PAGES", most)
        patched.setattr(list_schedules, "MAX_SEARCHED_ROWS", most)
        found = await counts(world, asked)
    assert sum(found) == len(listed)
    await world.storage.close()


async def test_a_count_of_lean_rows_reads_no_content(world: ApiHarness, read: Read) -> None:
    await insert(world, (definition(NOW + offset, body=LONG, label="a") for offset in range(600)))
    counted = await ListSchedules(schedules=world.storage.schedules).count(window(labels=("a",)), has_read=read.told)
    assert (counted.count, counted.next) == (600, None)
    assert (read.size, read.told_rows) == (0, 600)


async def test_an_empty_year_is_gone_through_a_week_at_a_time(
    world: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    days, asked = 365, list[tuple[int, int]]()
    (far,) = await insert(world, [definition(NOW + 300 * DAY_MS)])
    occupied = type(world.storage.schedules).occupied

    async def noted(self: Any, client_id: ClientId, *, first: int, last: int, **arguments: Any) -> Any:
        asked.append((first, last))
        return await occupied(self, client_id, first=first, last=last, **arguments)

    monkeypatch.setattr(type(world.storage.schedules), "occupied", noted)
    told = list[int]()
    year = window(NOW, NOW + days * DAY_MS)
    listing = await ListSchedules(schedules=world.storage.schedules)(
        year, limit=10, has_read=lambda rows, size: told.append(rows)
    )
    assert listing.items == []
    assert listing.next == Position(minute_start((minute_of(NOW) // 60 + list_schedules.HOURS_PER_CALL) * 60))
    hours = [last // 60 - first // 60 + 1 for first, last in asked]
    assert sum(hours) == list_schedules.HOURS_PER_CALL
    assert hours[:6] == [1, 2, 4, 8, 16, 24]
    assert sum(told) == (list_schedules.HOURS_PER_CALL - list_schedules.FREE_HOURS) * list_schedules.ROWS_PER_HOUR
    assert ids(await pages(world, year, limit=10)) == [far.schedule_id]


async def test_a_listing_reports_the_rows_it_read(world: ApiHarness, read: Read) -> None:
    await insert(world, [definition(NOW + 1), definition(NOW + 86_399_999)])
    listing = await ListSchedules(schedules=world.storage.schedules)(window(), limit=10, has_read=read.told)
    assert (len(listing.items), listing.next, read.told_rows) == (2, None, 2)
