"""Watch the members: the one reader of heartbeats in a process that is no member itself.

    every second: read all heartbeats -> what they tell (`members`) -> records of lives that stand still

At first it reads ten times as often, so that this process's clock is compared with the members' within a second or two.

Who asks is answered from the last read: the operator's view of the cluster, the sender of hints, and whoever must know
whether this process's wall clock agrees with the members'. While storage is away the last picture stays, and the ages
of the beats grow.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from membership.clocks import Witness
from membership.errors import StoreUnavailable
from membership.identity import Life
from membership.ports import MemberStore
from membership.server_clocks import ServerClocks
from membership.settings import MembershipSettings
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.lifecycle import Tasks
from scheduler_service.runtime.logging import get_logger
from scheduler_service.usecases.members import HintTargets, Member, MembersSeen

READS_PER_BEAT = 30 / 29
"""A little more than one, so that the reads pass through every age a heartbeat can have (`membership.clocks`)."""
READS_AT_FIRST = 10
"""So many times as often while clocks are known by few beats, so that what is read is not old."""
WARN_MS = 250
"""An offset of the wall clock above this is worth a line in the log; below half of it, another one."""
_log = get_logger("minutehand.api")


class WatchMembers:
    """A `Service`. All properties are of the last read."""

    def __init__(
        self,
        *,
        store: MemberStore,
        clock: Clock,
        settings: MembershipSettings,
        on_crash: Callable[[str, BaseException], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._tasks = Tasks(on_crash)
        self._seen = MembersSeen(settings)
        self.servers = ServerClocks(store=store, clock=clock, settings=settings)
        self._asking: set[Life] = set()
        self._known = False
        self._warned = False

    async def start(self) -> None:
        """Begin to read. Returns after the first answer, or without one where storage gives none."""
        with suppress(StoreUnavailable):
            await self._read()
        self._tasks.spawn(self.servers.run(), name="servers")
        self._tasks.spawn(self._run(), name="members")

    async def stop(self) -> None:
        await self._tasks.close()

    @property
    def offset_ms(self) -> int | None:
        """How far this process's wall clock is ahead of the members' median; None until that is known."""
        return self._seen.offset_ms

    @property
    def first_offset_ms(self) -> int | None:
        """The same, known after a beat or two of the members; while none beats, as it was last known."""
        return self._seen.first_offset_ms

    @property
    def witnesses(self) -> Sequence[Witness]:
        """What the members' clocks say where one's own machine's clock was stepped."""
        return self._seen.witnesses

    @property
    def alone(self) -> bool:
        """No member beats: there is nobody to compare clocks with."""
        return self._seen.alone

    @property
    def older_programs(self) -> bool:
        """Whether a node runs a program from before callbacks' headers were encrypted."""
        return self._seen.older_programs

    @property
    def knows(self) -> int:
        """The last change of the stored form of things that all nodes can read; 0 while there are none."""
        return self._seen.knows

    @property
    def settled(self) -> bool:
        """Whether the members were watched for long enough to say who does not beat."""
        return self._seen.settled

    @property
    def targets(self) -> HintTargets:
        """The nodes that lanes are hinted to; the same object until they change."""
        return self._seen.targets

    def members(self) -> Sequence[Member]:
        """The lives of the cluster as they are worth showing, ordered by node and age."""
        return self._seen.members(wall_ms=self._clock.wall_ms(), monotonic=self._clock.monotonic())

    def floor_of(self, life: Life) -> int | None:
        """The floor that exactly this life last announced."""
        return self._seen.floor_of(life)

    async def look(self) -> None:
        """For who can't wait for the next read: one now, with the records it asks for. Raises StoreUnavailable."""
        await self._read()
        await asyncio.gather(*map(self._ask, self._to_ask()))

    async def known(self) -> None:
        """Return when there is a picture, however old. Raises StoreUnavailable."""
        if not self._known:
            await self.look()

    async def _run(self) -> None:
        period = self._settings.beat_seconds / READS_PER_BEAT
        due = self._clock.monotonic()
        while True:
            for life in self._to_ask():
                # Beside the reads, so that a slow answer makes no gap in them.
                self._tasks.spawn(self._ask(life), name=f"members.record.{life}")
            pause = period / READS_AT_FIRST if self._seen.comparing else period
            await self._clock.sleep(due + pause - self._clock.monotonic())
            due = self._clock.monotonic()
            # Requests tell of storage trouble; here it would be told once a second.
            with suppress(StoreUnavailable):
                await self._read()

    async def _read(self) -> None:
        heartbeats = await self._store.read_heartbeats()
        self._seen.observed(
            heartbeats,
            wall_ms=self._clock.wall_ms(),
            monotonic=self._clock.monotonic(),
            servers=self.servers.ahead_ms(),
        )
        self._known = True
        self._judge_clock()

    def _to_ask(self) -> Sequence[Life]:
        waiting = [life for life in self._seen.to_ask() if life not in self._asking]
        chosen = waiting[: self._settings.max_concurrent_records - len(self._asking)]
        self._asking.update(chosen)
        return chosen

    async def _ask(self, life: Life) -> None:
        asked_at = self._clock.monotonic()
        try:
            self._seen.record_read(life, await self._store.read_life(life), asked_at=asked_at)
        except StoreUnavailable:
            self._seen.record_unread(life, asked_at=asked_at)
        finally:
            self._asking.discard(life)

    def _judge_clock(self) -> None:
        offset_ms = self._seen.offset_ms
        if offset_ms is None:
            return
        off = abs(offset_ms) > (WARN_MS / 2 if self._warned else WARN_MS)
        if off != self._warned:
            self._warned = off
            _log.warning("clock-off" if off else "clock-agrees", offset_ms=offset_ms)
