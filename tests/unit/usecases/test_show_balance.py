"""The books of minutes: which balances hold, which are counted again, and how many in one call."""

from collections import Counter
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from membership.conditional import APPLIED
from membership.errors import StoreUnavailable
from scheduler_service.domain.books import COUNTED_AFTER_MS, MinuteBalance
from scheduler_service.domain.ids import Minute, Partition, PollerId, UnixMillis, minute_of
from scheduler_service.domain.schedules import Definition, Kind, Outcome, RowWrite, State
from scheduler_service.usecases import balance as count_minute
from scheduler_service.usecases import balance as show_balance
from scheduler_service.usecases.balance import Books, Position, ShowBalance
from tests.contract.builders import MINUTE, START, definition, update
from tests.unit.usecases.late_rows import CLIENT, END, LateWorld

FIRST, LAST = Minute(MINUTE), Minute(MINUTE + 1439)
COUNTED = END + COUNTED_AFTER_MS


@pytest.fixture
def late() -> LateWorld:
    world = LateWorld()
    world.clock.now = COUNTED
    return world


def show(world: LateWorld) -> ShowBalance:
    return ShowBalance(schedules=world.store, balances=world.storage.balances, clock=world.clock)


async def ask(world: LateWorld, *, limit: int = 1440, last: Minute = LAST) -> list[tuple[int, Counter[str]]]:
    """All pages; minutes count from the first, with the values that are not null."""
    found, position = [], Position(FIRST)
    while True:
        books = await show(world)(CLIENT, position=position, last=last, limit=limit)
        assert len(books.minutes) <= limit
        found += [(one.minute - MINUTE, counts(books, index)) for index, one in enumerate(books.minutes)]
        if books.next is None:
            return found
        position = books.next


def counts(books: Books, index: int) -> Counter[str]:
    tally = books.minutes[index].tally
    named = {str(state): count for state, count in tally.counts.items() if count and state.ended}
    assert sum(named.values()) + tally.open == tally.accepted
    return Counter({**named, "open": tally.open})


async def insert(world: LateWorld, count: int, **columns: Any) -> list[Definition]:
    rows = [definition(CLIENT, tail=tail, **columns) for tail in range(1, count + 1)]
    assert await world.store.insert_many(rows) == [None] * count
    return rows


async def end(world: LateWorld, row: Definition, *, number: int, state: State = State.CANCELLED, **other: Any) -> None:
    write = RowWrite(key=row.key, outcome=Outcome(state=state, **other), expect_state=State.SCHEDULED)
    assert await world.store.update(update(row.partition, number, write)) == APPLIED


async def stored(world: LateWorld) -> list[MinuteBalance]:
    return list(await world.storage.balances.read(CLIENT, first=FIRST, last=LAST))


def reads(world: LateWorld, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts the reads of each statement from here on."""
    asked: Counter[str] = Counter()
    select = world.connection.select

    async def counting(name: str, parameters: Any, **how: Any) -> Any:
        asked[name] += 1
        return await select(name, parameters, **how)

    monkeypatch.setattr(world.connection, "select", counting)
    return asked


async def test_a_balance_of_a_minute_that_is_not_over_is_not_believed(late: LateWorld) -> None:
    """Its writer's clock was ahead, and has been set right since: rows may still be created without changing the
    stamp.
    """
    await insert(late, 1)
    assert await ask(late) == [(0, Counter(open=1))]
    assert await stored(late)
    late.clock.now = UnixMillis(END - 20_000)
    await insert(late, 3)
    assert await ask(late) == [(0, Counter(open=3))]


async def test_a_count_is_stored_and_believed_until_something_changes(
    late: LateWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_ = await insert(late, 3)
    assert await ask(late) == [(0, Counter(open=3))]
    (balance,) = await stored(late)
    assert (balance.open, balance.accepted, balance.epoch) == (3, 3, 0)
    asked = reads(late, monkeypatch)
    assert await ask(late) == [(0, Counter(open=3))]
    assert asked["schedules.read_stamp"] == 1
    assert asked["schedules.count_first_page"] == 0
    await end(late, first, number=1)
    assert await ask(late) == [(0, Counter(open=2, cancelled=1))]
    assert [(one.cancelled, one.edits) for one in await stored(late)] == [(1, UUID(int=1))]


async def test_nothing_is_stored_before_the_grace_has_passed(late: LateWorld) -> None:
    """Rows may still be created without an external update, and the next count has to include them."""
    late.clock.now = COUNTED - 1
    await insert(late, 1)
    assert await ask(late) == [(0, Counter(open=1))]
    await insert(late, 2)
    assert await ask(late) == [(0, Counter(open=2))]
    assert await stored(late) == []


async def test_a_process_in_doubt_of_its_clock_stores_nothing(late: LateWorld) -> None:
    late.clock.trusted = False
    await insert(late, 1)
    assert await ask(late) == [(0, Counter(open=1))]
    assert await stored(late) == []


async def test_a_late_create_is_in_the_books_once_it_is_answered(late: LateWorld) -> None:
    await late.lease(1)
    one, other = await insert(late, 2)
    await end(late, one, number=1)
    await end(late, other, number=2)
    assert await ask(late) == [(0, Counter(cancelled=2))]
    await late.writer(definition(CLIENT, tail=3))
    # The late row was requeued to a retry row in another minute, which is not counted.
    assert await ask(late) == [(0, Counter(cancelled=2, open=1))]


async def test_a_missed_fire_in_a_settled_minute_is_in_the_books(late: LateWorld) -> None:
    (one,) = await insert(late, 1)
    await end(late, one, number=1)
    assert await ask(late) == [(0, Counter(cancelled=1))]
    await late.writer.ended(definition(CLIENT, tail=3), state=State.SKIPPED, reason="missed")
    assert await ask(late) == [(0, Counter(cancelled=1, skipped=1))]


async def test_a_count_that_an_edit_overtakes_is_not_believed_again(
    late: LateWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(count_minute, "COUNTED_AT_ONCE", 2)
    first, *_ = await insert(late, 3)
    late.connection.before["schedules.count_next_page"] = lambda: end(late, first, number=1)
    assert await ask(late) == [(0, Counter(open=3))]
    assert await ask(late) == [(0, Counter(open=2, cancelled=1))]
    assert [(one.open, one.cancelled, one.edits) for one in await stored(late)] == [(2, 1, UUID(int=1))]


async def test_a_balance_that_is_replaced_while_it_is_judged(late: LateWorld) -> None:
    """The stamp is read after the balance, so that an older balance is recognised."""
    (row,) = await insert(late, 1)
    await ask(late)
    late.connection.before["schedules.read_stamp"] = lambda: end(late, row, number=1)
    assert await ask(late) == [(0, Counter(cancelled=1))]


async def test_retry_rows_and_pointers_are_not_counted(late: LateWorld) -> None:
    (call,) = await insert(late, 1)
    retry_row = definition(CLIENT, tail=7, kind=Kind.RETRY_ROW, origin_due=call.due - 60_000)
    await late.store.insert(retry_row)
    pointer = definition(CLIENT, tail=8)
    await end(late, pointer, number=1)
    assert await ask(late) == [(0, Counter(open=1))]


async def test_a_balance_without_its_partition_is_not_shown(late: LateWorld) -> None:
    """Left by an interrupted retention, or written after it."""
    (row,) = await insert(late, 1)
    await end(late, row, number=1)
    await ask(late)
    (balance,) = await stored(late)
    await late.store.delete_partition(row.partition)
    await late.storage.balances.write(balance)
    assert await ask(late) == []
    hour, minute = START - START % 3_600_000, START
    await late.connection.write("occupied_minutes.insert", (CLIENT, hour, minute, 0))
    assert await ask(late) == []


@pytest.mark.parametrize("statement", ["occupied_minutes.read", "minute_balance.read", "schedules.count_first_page"])
async def test_storage_that_cannot_answer_is_no_sum(late: LateWorld, statement: str) -> None:
    await insert(late, 3)

    async def away() -> None:
        raise StoreUnavailable("away")

    late.connection.before[statement] = away
    with pytest.raises(StoreUnavailable):
        await ask(late)
    assert await ask(late) == [(0, Counter(open=3))]
    late.connection.before["schedules.read_stamp"] = away
    with pytest.raises(StoreUnavailable):
        await ask(late)


async def test_a_great_minute_takes_several_calls_that_store_nothing(
    late: LateWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(count_minute, "COUNTED_AT_ONCE", 10)
    monkeypatch.setattr(show_balance, "MAX_ROWS", 30)
    for poller in range(3):
        await insert(late, 50, poller_id=poller)
    position: Position | None = Position(FIRST)
    calls, found = 0, []
    while position is not None:
        books = await show(late)(CLIENT, position=position, last=LAST, limit=10)
        found += [counts(books, index) for index, _ in enumerate(books.minutes)]
        calls, position = calls + 1, books.next
    assert found == [Counter(open=150)]
    assert 5 <= calls <= 8
    assert await stored(late) == []


async def test_lateness_is_that_of_all_pollers(late: LateWorld) -> None:
    for poller, lateness in ((0, 3), (0, 7), (1, 90), (1, 400)):
        row = definition(CLIENT, tail=lateness, poller_id=poller)
        await late.store.insert(row)
        at = UnixMillis(row.due + lateness)
        await end(late, row, number=lateness, state=State.DELIVERED, first_attempt_at=at)
    for _ in range(2):
        books = await show(late)(CLIENT, position=Position(FIRST), last=LAST, limit=1)
        (one,) = books.minutes
        shares = [one.tally.lateness_ms(share) for share in (0.25, 0.5, 0.75, 0.99, 1.0)]
        assert shares == [5, 10, 100, 400, 400]
        assert one.tally.max_lateness_ms == 400
    assert [one.max_lateness_ms for one in await stored(late)] == [7, 400]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(st.integers(0, 130), st.integers(0, 20), st.booleans()), max_size=40),
    limit=st.integers(1, 5),
    most=st.integers(1, 12),
    page=st.integers(1, 4),
)
async def test_pages_add_up_whatever_their_bounds(
    rows: list[tuple[int, int, bool]], limit: int, most: int, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = LateWorld()
    world.clock.now = COUNTED + 60 * 60_000
    monkeypatch.setattr(count_minute, "COUNTED_AT_ONCE", page)
    monkeypatch.setattr(show_balance, "MAX_ROWS", most)
    monkeypatch.setattr(show_balance, "MAX_PARTITIONS", most)
    expected: dict[int, Counter[str]] = {}
    for number, (minute, poller, ended) in enumerate(rows, start=1):
        row = definition(CLIENT, offset=minute * 60_000, tail=number, poller_id=poller)
        await world.store.insert(row)
        if ended:
            await end(world, row, number=number)
        expected.setdefault(minute, Counter(open=0))["cancelled" if ended else "open"] += 1
    for _ in range(2):
        assert await ask(world, limit=limit) == sorted(expected.items())
    for balance in await stored(world):
        where = Partition(CLIENT, PollerId(balance.poller_id), balance.minute)
        assert balance.holds(await world.store.read_stamp(where))
        assert balance.minute <= minute_of(world.clock.now)
