"""What a new owner learns of ordering keys from later minutes, and of heads that never appear."""

from typing import Any

import msgspec
import pytest

from cql.memory.connection import InMemoryConnection
from poller_cluster.minute import order_ahead
from poller_cluster.minute.order_ahead import ahead_minutes, look_ahead, look_up_overdue
from poller_cluster.minute.ordering import OrderingKeys
from scheduler_service.domain.ids import Minute, minute_start
from scheduler_service.domain.schedules import Definition, Outcome, RowWrite, State
from tests.support.budgets import budget
from tests.support.minutes import CLIENT, DELIVERED, MINUTE, POLLER, MinuteBench, definition, retry_row, retrying
from tests.support.virtual_clock import VirtualClock

KEY = "order-17"
LATER = Minute(MINUTE + 5)
LONG_AFTER = minute_start(MINUTE) + 3_600_000


@pytest.fixture
def bench() -> MinuteBench:
    return MinuteBench()


@pytest.fixture
def order() -> OrderingKeys:
    return OrderingKeys(on_change=lambda: None, on_wanted=lambda: None)


def keyed(seconds: float, *, tail: int = 1, poller: int = POLLER, minute: int = MINUTE) -> Definition:
    made = definition(seconds, tail=tail, poller=poller, minute=minute)
    return msgspec.structs.replace(made, ordering_key=KEY)


def rank(order: OrderingKeys, one: Definition) -> int:
    return order.rank(KEY, one.schedule_id)


async def ahead(bench: MinuteBench, order: OrderingKeys) -> None:
    await look_ahead(
        bench.schedules, CLIENT, POLLER, order, first=Minute(MINUTE + 1), last=LATER, budget=budget(VirtualClock())
    )


@pytest.mark.parametrize(
    ("cap", "longest_open", "minutes"), [(600, 300, 13), (60, 30, 4), (86_400, 300, 1443), (0.1, 300, 13)]
)
def test_a_new_owner_looks_ahead_as_far_as_retry_rows_reach(cap: float, longest_open: float, minutes: int) -> None:
    assert ahead_minutes(cap_seconds=cap, breaker_longest_seconds=longest_open) == minutes


async def test_retry_rows_of_the_poller_stand_in_line_from_where_their_schedule_was_due(
    bench: MinuteBench, order: OrderingKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order_ahead, "_PAGE_ROWS", 2)
    retried = [keyed(1.0 + number, tail=number) for number in range(5)]
    for one in retried:
        await bench.create(retry_row(one, minute_start(LATER) + 1_000))
    await ahead(bench, order)
    assert rank(order, keyed(30.0, tail=9)) == 5
    assert order.head_at(KEY) == minute_start(LATER) + 1_000


async def test_no_content_is_read(bench: MinuteBench, order: OrderingKeys, monkeypatch: pytest.MonkeyPatch) -> None:
    select, sizes = InMemoryConnection.select, list[int]()

    async def watched(self: InMemoryConnection, name: str, parameters: Any, **arguments: Any) -> Any:
        answer = await select(self, name, parameters, **arguments)
        sizes.extend(len(value) for values in answer for value in values if isinstance(value, bytes | str))
        return answer

    monkeypatch.setattr(InMemoryConnection, "select", watched)
    long = msgspec.structs.replace(keyed(1.0), body=b"x" * 60_000, headers='[["a","' + "x" * 8_000 + '"]]')
    await bench.create(long)
    await bench.create(retry_row(long, minute_start(LATER) + 1_000))
    await ahead(bench, order)
    assert rank(order, keyed(30.0, tail=9)) == 1
    await look_up_overdue(bench.schedules, CLIENT, order, now=LONG_AFTER, budget=budget(VirtualClock()))
    assert sizes
    assert max(sizes) < 1_000


async def test_no_other_row_is_in_the_order(bench: MinuteBench, order: OrderingKeys) -> None:
    """Future schedules, other pollers' retry rows, retry rows beyond the last minute, retry rows that have ended."""
    at = minute_start(LATER) + 1_000
    await bench.create(keyed(1.0, minute=LATER))
    await bench.create(retry_row(keyed(1.0, tail=2, poller=POLLER + 1), at))
    await bench.create(retry_row(keyed(1.0, tail=3), at + 60_000))
    ended = retry_row(keyed(1.0, tail=4), at)
    await bench.create(ended)
    owner = MinuteBench(storage=bench.storage, minute=LATER)
    await owner.as_owner(epoch=1, writes=[RowWrite(key=ended.key, outcome=DELIVERED)])
    await ahead(bench, order)
    assert rank(order, keyed(30.0, tail=9)) == 0


@pytest.mark.parametrize(
    ("found", "rank_left"),
    [
        (Outcome(state=State.CANCELLED), 0),
        (DELIVERED, 0),
        (retrying(LONG_AFTER + 600_000), 1),
        (None, 1),
        ("gone", 0),
    ],
)
async def test_the_state_of_a_head_that_never_appeared_is_read(
    bench: MinuteBench, order: OrderingKeys, found: Outcome | str | None, rank_left: int
) -> None:
    head, behind = keyed(1.0), keyed(2.0, tail=2)
    order.seen(KEY, head.schedule_id, head.due)
    order.seen(KEY, behind.schedule_id, behind.due)
    if found != "gone":
        await bench.create(head)
    if isinstance(found, Outcome):
        await bench.as_owner(epoch=1, writes=[RowWrite(key=head.key, outcome=found)])
    await look_up_overdue(bench.schedules, CLIENT, order, now=LONG_AFTER, budget=budget(VirtualClock()))
    assert rank(order, behind) == rank_left
    if rank_left and found is not None:
        assert order.head_at(KEY) == LONG_AFTER + 600_000
