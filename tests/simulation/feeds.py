"""A reader of a simulated client's feed, and planted bugs that make it miss ends."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest

from membership.errors import StoreUnavailable
from poller_cluster.events.outcome_events import OutcomeEvents
from poller_cluster.events.track_writer import TrackWriter
from poller_cluster.minute.machine import PollerMinute
from scheduler_service.domain.events import OF_STATE, Block
from scheduler_service.domain.ids import ClientId, PollerId
from scheduler_service.domain.schedules import Definition, Outcome, Row, State, SweptRow
from scheduler_service.usecases.read_events import FeedRange, ReadEvents, _Look
from tests.simulation.cluster import POLLERS, SHOP
from tests.simulation.world import World

PAUSE_SECONDS = 0.3
ALL = FeedRange(PollerId(0), PollerId(POLLERS - 1))


class FeedReader:
    """Reads from the beginning on, as a client does through an API; a request without an answer is repeated. `seen`:
    each schedule's types of events; `shown`: how many events it was shown."""

    def __init__(self, world: World, client_id: ClientId = SHOP) -> None:
        self.seen: dict[str, set[str]] = {}
        self.shown = 0
        self._world = world
        self._client_id = client_id
        self._task = asyncio.get_running_loop().create_task(self._run(), name="reader of the feed")

    async def _run(self) -> None:
        clock = self._world.api_clock
        read = ReadEvents(store=self._world.api_storage.events, clock=clock)
        cursor = read.earliest()
        again = False
        while True:
            try:
                page = await read.page(self._client_id, ALL, cursor, limit=7, again=again)
            except StoreUnavailable:
                continue
            for placed in page.events:
                self.shown += 1
                self.seen.setdefault(str(placed.event.schedule_id), set()).add(placed.event.type)
            cursor, again = page.cursor, not page.events
            if not page.events:
                await clock.sleep(PAUSE_SECONDS)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def check(self, *, within: float = 180.0) -> None:
        """Every schedule that has ended is told of, in its state, once its minute was swept."""
        deadline = asyncio.get_running_loop().time() + within
        while missing := [one for one, kind in self._wanted().items() if kind not in self.seen.get(one, ())]:
            if asyncio.get_running_loop().time() > deadline:
                raise self._world.violation(f"{len(missing)} ends were not told, the first: {missing[0]}")
            await self._world.revive()
            await self._world.advance(1.0)

    def _wanted(self) -> dict[str, str]:
        rows = self._world.memory.columns("schedules", "client_id", "schedule_id", "kind", "created_at", "state")
        return {
            str(schedule_id): OF_STATE[State(state)]
            for client_id, schedule_id, kind, created_at, state in rows
            if client_id == self._client_id and kind != "copy" and created_at is not None and state in OF_STATE
        }


Plant = Callable[[pytest.MonkeyPatch], None]


def minutes_settle_before_their_events(patch: pytest.MonkeyPatch) -> None:
    """A minute settles, and its watermark passes, while events are under way."""
    tell = OutcomeEvents.tell

    async def later(self: OutcomeEvents, definition: Definition, outcome: Outcome) -> None:
        async def at_leisure() -> None:
            with suppress(StoreUnavailable):
                await tell(self, definition, outcome)

        self._runtime.spawn(at_leisure(), name="events at leisure")

    patch.setattr(OutcomeEvents, "tell", later)


def unanswered_batches_count_as_stored(patch: pytest.MonkeyPatch) -> None:
    """A batch without an answer is taken for stored."""

    async def once(self: TrackWriter, write: Callable[[], object]) -> None:
        try:
            await write()  # type: ignore[misc]
        except StoreUnavailable:
            return

    patch.setattr(TrackWriter, "_until_answered", once)


def the_sweep_tells_nothing(patch: pytest.MonkeyPatch) -> None:
    """What an earlier owner recorded is not told by the next one."""
    account, is_stray = PollerMinute._account_row, PollerMinute._is_stray

    def silently(self: PollerMinute, row: Row) -> None:
        self.follow_ups._told.add(row.key)
        account(self, row)

    def stray(self: PollerMinute, row: SweptRow) -> bool:
        self.follow_ups._told.add(row.key)
        return is_stray(self, row)

    patch.setattr(PollerMinute, "_account_row", silently)
    patch.setattr(PollerMinute, "_is_stray", stray)


def retry_rows_tell_nothing(patch: pytest.MonkeyPatch) -> None:
    """The end of a retry row is left to its original, whose minute is settled."""
    tell = OutcomeEvents.tell

    async def only_calls(self: OutcomeEvents, definition: Definition, outcome: Outcome) -> None:
        if definition.origin_due is None:
            await tell(self, definition, outcome)

    patch.setattr(OutcomeEvents, "tell", only_calls)


def readers_leave_a_block_unread(patch: pytest.MonkeyPatch) -> None:
    """A reader goes on as soon as it sees a later block."""
    page = _Look._events

    async def of_the_last(self: _Look, block: Block, after: int, limit: int) -> object:
        if await self._later_ones(block):
            return ()
        return await page(self, block, after, limit)

    patch.setattr(_Look, "_events", of_the_last)


FEED_PLANTS: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (
        minutes_settle_before_their_events,
        unanswered_batches_count_as_stored,
        the_sweep_tells_nothing,
        retry_rows_tell_nothing,
        readers_leave_a_block_unread,
    )
}
