"""Rows of a bulk load: the same in every run, checked by a create's rules, written in time or not at all."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from membership.errors import MinutehandError, StoreUnavailable
from scheduler_service.domain.bulk_loads import BulkLoad
from scheduler_service.domain.clients import Client, ClientSettings
from scheduler_service.domain.errors import ContentTooLarge, FieldError, Invalid
from scheduler_service.domain.ids import ClientId, Minute, Partition, PollerId, UnixMillis, due_of, poller_of
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.network import NetworkPolicy
from scheduler_service.domain.quotas import derived_poller, pinned_poller
from scheduler_service.domain.schedules import Definition, Row
from scheduler_service.usecases.bulk_load import (
    LOAD_AHEAD_MS,
    NOT_LOADED,
    REPEATED_FOR_SECONDS,
    SLOW_SECONDS,
    Item,
    JudgeItems,
    Loaded,
    LoadSchedules,
    LoadThrottle,
)
from scheduler_service.usecases.named_destinations import ListedDestinations
from scheduler_service.usecases.schedule_request import CallbackPolicy, ScheduleRequest
from scheduler_service.usecases.schedule_writer import ScheduleWriter
from scheduler_service.usecases.secret_encryption import NoEncryption
from tests.support.api import NOW, ApiHarness, ManualClock, SeededRandomness

SHOP = ClientId("shop")
HOUR = 3_600_000
LOAD = BulkLoad(
    client_id=SHOP,
    load_id="orders",
    key_column="order_id",
    pollers=4,
    started_at=UnixMillis(NOW - 86_400_000),
    state_at=UnixMillis(NOW),
)


class Unsteady:
    """The schedule writer, with storage that is slow, or gives no answer for a while, to some requests or to all."""

    def __init__(self, writer: ScheduleWriter, clock: ManualClock) -> None:
        self._place = writer
        self._clock = clock
        self.silent: list[int] = []
        """For each of the next calls the row from which on there is no answer."""
        self.takes = 0.0
        self.asked: list[int] = []
        self.too_large: set[bytes] = set()

    async def many(self, definitions: Sequence[Definition], **other: Any) -> list[MinutehandError | None]:
        self.asked.append(len(definitions))
        answered = self.silent.pop(0) if self.silent else len(definitions)
        self._clock.advance(self.takes)
        errors = await self._place.many(definitions[:answered], **other)
        lost: list[MinutehandError | None] = [StoreUnavailable("no answer")] * (len(definitions) - answered)
        return [
            ContentTooLarge("too large") if one.body in self.too_large else error
            for one, error in zip(definitions, [*errors, *lost], strict=True)
        ]


@dataclass
class Loading:
    world: ApiHarness
    clock: ManualClock
    writer: Unsteady
    pace: LoadThrottle
    load: LoadSchedules
    client: Client

    async def __call__(self, *items: Item, again: bool = False, load: BulkLoad = LOAD) -> list[Any]:
        """Returns `Loaded`, or every fault of an item."""
        results = await self.load(self.client, load, items, again=again)
        return [result.errors if isinstance(result, Invalid) else result for result in results]

    async def rows(self) -> list[Row]:
        """All stored rows."""
        found = []
        for hour in range(50):
            minutes = await self.world.storage.schedules.occupied(
                SHOP, first=Minute((NOW + hour * HOUR) // 60_000), last=Minute((NOW + (hour + 1) * HOUR) // 60_000 - 1)
            )
            for minute, pollers in minutes.items():
                for poller in pollers:
                    page = await self.world.storage.schedules.read_page(Partition(SHOP, poller, minute))
                    found += page.rows
        return found


@pytest.fixture
async def loading(world: ApiHarness) -> Loading:
    clock = world.clock
    client = (await world.services.clients.register(SHOP, poller_quota=4, settings=None)).client
    storage = world.storage
    real = ScheduleWriter(
        schedules=storage.schedules,
        keys=storage.schedule_keys,
        leases=storage.leases,
        clock=clock,
        randomness=SeededRandomness(5),
        hints=world.hints,
    )
    writer, pace = Unsteady(real, clock), LoadThrottle(clock=clock, rate=1e6)
    policy = CallbackPolicy(
        network=NetworkPolicy(), encryption=NoEncryption(), destinations=ListedDestinations(["orders"])
    )
    judge = JudgeItems(policy=policy, clock=clock)
    load = LoadSchedules(
        judge=judge,
        writer=writer,  # type: ignore[arg-type]
        schedules=storage.schedules,
        clock=clock,
        pace=pace,
    )
    return Loading(world, clock, writer, pace, load, client)


def item(key: str = "1", *, ahead_ms: int = HOUR, url: str = "https://receiver.example/hook", **fields: Any) -> Item:
    asked = {"due": format_instant(NOW + ahead_ms), "callback": {"url": url, "body": f"body {key}"}, **fields}
    return Item(key, msgspec.convert(asked, ScheduleRequest))


async def test_a_row_is_what_its_load_and_its_key_say(loading: Loading) -> None:
    plain, ordered = item("7", label="order-7"), item("8", ordering_key="cart", timeout_seconds=3)
    assert await loading(plain, ordered) == [Loaded.ADDED] * 2
    rows = {row.label: row for row in await loading.rows()}
    poller = derived_poller(SHOP, "7", pollers=4)
    assert rows["order-7"].schedule_id == LOAD.schedule_id(key="7", due=NOW + HOUR, poller_id=poller)
    assert due_of(rows["order-7"].schedule_id) == NOW + HOUR
    assert (rows["order-7"].body, rows["order-7"].created_at) == (b"body 7", LOAD.started_at)
    assert poller_of(rows[None].schedule_id) == pinned_poller(SHOP, "cart", quota=4)
    assert rows[None].options == '{"timeout_seconds":3.0}'


async def test_names_keep_loads_apart() -> None:
    other = msgspec.structs.replace(LOAD, load_id="orders\0k")
    assert LOAD.schedule_id(key="k\0k", due=NOW, poller_id=PollerId(0)) != other.schedule_id(
        key="k", due=NOW, poller_id=PollerId(1)
    )
    assert {derived_poller(SHOP, str(number), pollers=4) for number in range(100)} == {0, 1, 2, 3}


async def test_another_run_adds_nothing_and_changes_nothing(loading: Loading) -> None:
    items = [item(str(number), ahead_ms=HOUR + number * 70_000) for number in range(20)]
    assert await loading(*items[:12]) == [Loaded.ADDED] * 12
    before = await loading.rows()
    loading.clock.advance(30)
    assert await loading(*items, again=True) == [Loaded.PRESENT] * 12 + [Loaded.ADDED] * 8
    assert [row for row in await loading.rows() if row in before] == before
    assert loading.writer.asked == [12, 8]
    # Their time has passed: they are stored all the same.
    loading.clock.advance(48 * 3600)
    assert await loading(*items, again=True) == [Loaded.PRESENT] * 20


async def test_what_was_loaded_with_other_values_stays(loading: Loading) -> None:
    await loading(item("1", label="a"), item("2"))
    before = await loading.rows()
    changed = [item("1", label="b", url="https://other.example/"), item("2", label="new")]
    assert await loading(*changed, again=True) == [
        [FieldError("", "was loaded before with another url, label; it stays as it was")],
        [FieldError("", "was loaded before with another label; it stays as it was")],
    ]
    assert await loading.rows() == before


async def test_later_rules_do_not_apply_to_stored_rows(loading: Loading) -> None:
    await loading(item("1"))
    strict = ClientSettings(payload_bytes=1)
    loading.client = msgspec.structs.replace(loading.client, settings=strict)
    present, refused = await loading(item("1"), item("2"), again=True)
    assert present is Loaded.PRESENT
    assert [fault.pointer for fault in refused] == ["/callback/body"]


@pytest.mark.parametrize("ahead_ms", [LOAD_AHEAD_MS - 1, 0, -HOUR])
async def test_a_due_must_be_ten_minutes_ahead(loading: Loading, ahead_ms: int) -> None:
    near, enough = await loading(item("1", ahead_ms=ahead_ms), item("2", ahead_ms=LOAD_AHEAD_MS))
    assert near == [FieldError("/due", "is less than 10 minutes ahead; it is 2026-11-21T09:30:00.000Z now")]
    assert enough is Loaded.ADDED


async def test_the_ten_minutes_count_from_the_write(loading: Loading) -> None:
    loading.pace.rate = 1
    await loading(item("1"))
    await loading(item("2", ahead_ms=LOAD_AHEAD_MS))
    assert await loading(item("3", ahead_ms=LOAD_AHEAD_MS + 1_000)) == [
        [FieldError("/due", f"is less than 10 minutes ahead; it is {format_instant(NOW + 1_909)} now")]
    ]


async def test_what_an_earlier_try_has_written_in_time_is_there(loading: Loading) -> None:
    await loading(item("1", ahead_ms=LOAD_AHEAD_MS))
    loading.clock.advance(60)
    present, absent, bad = await loading(
        item("1", ahead_ms=LOAD_AHEAD_MS), item("2", ahead_ms=LOAD_AHEAD_MS), item("1", ahead_ms=LOAD_AHEAD_MS, url="x")
    )
    assert (present, absent[0].pointer, [fault.pointer for fault in bad]) == (
        Loaded.PRESENT,
        "/due",
        ["/callback/url", "/due"],
    )


async def test_every_fault_is_named(loading: Loading) -> None:
    wrong = item("1", ahead_ms=731 * 86_400_000, url="http://10.0.0.1/")
    delay = Item("2", msgspec.convert({"delay_seconds": 900, "callback": {"url": "ftp://a/"}}, ScheduleRequest))
    text = Item("3", msgspec.convert({"due": "soon", "callback": {"url": "https://a.example/"}}, ScheduleRequest))
    old = Item(
        "4", msgspec.convert({"due": "0001-01-01T00:00:00Z", "callback": {"url": "https://a/"}}, ScheduleRequest)
    )
    unread = Item("5", Invalid([FieldError("/x", "is what it is")]))
    results = await loading(wrong, delay, text, old, unread)
    assert [[fault.pointer for fault in faults] for faults in results] == [
        *(["/due", "/callback/url"], ["/callback/url", "/due"], ["/due"], ["/due"], ["/x"])
    ]
    assert await loading.rows() == []


def named(position: str, destination: str, **fields: Any) -> Item:
    callback = {"destination": destination, "path": "/17"}
    asked = {"due": format_instant(NOW + HOUR), "callback": callback, **fields}
    return Item(position, msgspec.convert(asked, ScheduleRequest))


async def test_a_row_may_name_a_destination(loading: Loading) -> None:
    added, gone = await loading(named("1", "orders"), named("2", "gone"))
    assert (added, gone) == (
        Loaded.ADDED,
        [FieldError("/callback/destination", "there is no destination 'gone'")],
    )
    (row,) = await loading.rows()
    assert (row.url, row.method) == ("destination://orders/17", "")
    assert await loading(named("1", "orders"), again=True) == [Loaded.PRESENT]


async def test_a_row_awaits_no_word_of_its_receiver(loading: Loading) -> None:
    callback = {"destination": "orders", "ack": {"within_seconds": 60}}
    wrong = [FieldError("/callback/ack", NOT_LOADED["ack_within_seconds"])]
    assert await loading(named("1", "orders", callback=callback)) == [wrong]
    assert await loading.rows() == []


async def test_a_row_has_no_key_of_its_clients_own(loading: Loading) -> None:
    (keyed,) = await loading(named("1", "gone", key="cart-17"))
    assert [fault.pointer for fault in keyed] == ["/callback/destination", "/key"]
    assert await loading(named("2", "orders", key="cart-17")) == [[FieldError("/key", NOT_LOADED["key"])]]
    assert await loading.rows() == []


async def test_storage_that_gives_no_answer_is_asked_again(loading: Loading) -> None:
    loading.writer.silent = [1, 0, 2]
    assert await loading(*(item(str(number)) for number in range(4))) == [Loaded.ADDED] * 4
    assert loading.writer.asked == [4, 3, 3, 1]
    assert (len(await loading.rows()), loading.clock.now - NOW) == (4, 3_500)
    assert loading.pace.rate == pytest.approx(1e6 / 8 * 1.1)


async def test_a_load_gives_up_after_two_minutes_without_an_answer(loading: Loading) -> None:
    loading.writer.silent = [0] * 1000
    with pytest.raises(StoreUnavailable, match="no answer for 120 seconds"):
        await loading(item())
    assert (
        REPEATED_FOR_SECONDS - 10 <= (loading.clock.now - NOW) / 1000 <= REPEATED_FOR_SECONDS < LOAD_AHEAD_MS / 1000 / 2
    )


async def test_a_row_that_storage_refuses_is_refused(loading: Loading) -> None:
    loading.writer.too_large = {b"body 2"}
    added, refused = await loading(item("1"), item("2"))
    assert (added, str(refused)) == (Loaded.ADDED, "too large")


async def test_the_index_comes_first(loading: Loading) -> None:
    await loading(item("1"))
    occupied = await loading.world.storage.schedules.occupied(
        SHOP, first=Minute((NOW + HOUR) // 60_000), last=Minute((NOW + HOUR) // 60_000)
    )
    assert occupied == {(NOW + HOUR) // 60_000: [derived_poller(SHOP, "1", pollers=4)]}


async def test_a_pace_holds_the_rate() -> None:
    clock = ManualClock()
    pace = LoadThrottle(clock=clock, rate=100)
    for _ in range(5):
        await pace.take(50)
    assert clock.now - NOW == 2_000
    clock.advance(10)
    await pace.take(50)
    await pace.take(50)
    assert clock.now - NOW == 12_500


async def test_a_pace_goes_down_and_up_again() -> None:
    pace = LoadThrottle(clock=ManualClock(), rate=6400)
    pace.answered(SLOW_SECONDS + 0.1)
    assert pace.rate == 3200
    for _ in range(10):
        pace.unanswered()
    assert pace.rate == 100
    for _ in range(100):
        pace.answered(SLOW_SECONDS)
    assert pace.rate == 6400
    with pytest.raises(ValueError, match="above 0"):
        LoadThrottle(clock=ManualClock(), rate=0)


async def test_windows_and_local_times_give_the_same_rows_in_every_run(loading: Loading) -> None:
    spread = [item(str(number), window_seconds=600) for number in range(40)]
    local = Item(
        "local",
        msgspec.convert(
            {
                "due": {"local": "2027-03-28T02:30", "timezone": "Europe/Berlin", "gap": "skip"},
                "callback": {"url": "https://a.example/"},
            },
            ScheduleRequest,
        ),
    )
    *added, skipped = await loading(*spread, local)
    assert added == [Loaded.ADDED] * 40
    assert [fault.pointer for fault in skipped] == ["/due/local"]
    rows = await loading.rows()
    assert {row.nominal_due for row in rows} == {NOW + HOUR}
    offsets = sorted(row.due - NOW - HOUR for row in rows)
    assert 0 < offsets[0] < 150_000
    assert 450_000 < offsets[-1] < 600_000
    loading.clock.advance(3000)
    assert await loading(*spread, again=True) == [Loaded.PRESENT] * 40
