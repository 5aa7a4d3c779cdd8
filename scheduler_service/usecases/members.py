"""Watch the members: the one reader of heartbeats in a process that is not a member itself.

    every second: read all heartbeats -> update the view (`members`) -> read records of incarnations that stand still

At first it reads ten times as often, so that this process's clock is compared with the members' within a second or two.

The last read answers all questions: the operator's view of the cluster, the targets of hints, and whether this
process's wall clock agrees with the members'. While storage is away the last view stays, and the beats' ages grow.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median_high

from membership.clocks import ClockOffsets, Witness
from membership.errors import StoreUnavailable
from membership.identity import NodeId, NodeIncarnation
from membership.ports import Heartbeat, IncarnationRecord, MemberStore, NodeState
from membership.server_clocks import ServerClocks
from membership.settings import MembershipSettings
from scheduler_service.domain.ids import HOUR_MS
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.file_secrets import sent
from scheduler_service.runtime.lifecycle import Tasks
from scheduler_service.runtime.logging import get_logger

READS_PER_BEAT = 30 / 29
"""Slightly more than one, so that successive reads sample every age that a heartbeat can have (`membership.clocks`)."""
READS_AT_FIRST = 10
"""Factor by which reads are more frequent while few beats are known, so that heartbeats are read while they are
fresh."""
WARN_MS = 250
"""An offset of the wall clock above this is logged, and once more when it falls below half of this."""
_log = get_logger("minutehand.api")

STILL_BEATS = 2.5
"""An incarnation whose beat does not advance for this many beats stands still: its record is read, and read again at
the same interval."""
FIRST_BEATS = 1.5
"""An incarnation that claims to live and has not been seen to beat is waited for this many beats when clocks are first
compared."""
SHOWN_ENDED_MS = HOUR_MS
"""An incarnation that ended is shown for an hour after its last beat. Its row is kept for longer, because members need
it."""


class MemberState(StrEnum):
    """What an incarnation says of itself; or `dead`, which others have decided."""

    LIVE = "live"
    DRAINING = "draining"
    LEFT = "left"
    DEAD = "dead"

    @property
    def ended(self) -> bool:
        return self in (MemberState.LEFT, MemberState.DEAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One incarnation. `beats`: it has not ended, and its beat was seen to advance lately. `beat_age_seconds`: since
    its beat was last seen to advance; None when it never was. `offset_ms`: its wall clock against the members' median,
    positive is ahead; None until it is known."""

    heartbeat: Heartbeat
    state: MemberState
    beats: bool
    beat_age_seconds: float | None
    offset_ms: int | None

    @property
    def incarnation(self) -> NodeIncarnation:
        return self.heartbeat.incarnation


def url_of(address: str) -> str:
    """Where a node listens, from the address in its heartbeats, which has a scheme if the node speaks TLS."""
    return address if "://" in address else f"http://{address}"


def node_headers(token: str) -> Mapping[str, str]:
    """The headers of a request to a node, under the cluster's present token."""
    return {"Authorization": f"Bearer {sent(token)}", "Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class HintTargets:
    """The nodes that pollers are hinted to: their addresses and weights. A new object when they change."""

    addresses: Mapping[NodeId, str] = field(default_factory=dict)
    weights: Mapping[NodeId, float] = field(default_factory=dict)


@dataclass(slots=True)
class _Seen:
    beat: int
    appeared_at: float | None = None
    """When it was first seen; None for incarnations that the observer's first read found."""
    advanced_at: float | None = None
    dead: bool = False
    asked_at: float = float("-inf")


class MembersSeen:
    """The view of the cluster that reads of heartbeats give to a process that is no member: who is there, whom to hint,
    what time they have. Pure.

    An incarnation's beat is fresh as long as it is seen to advance, judged on the reader's own monotonic clock; no wall
    clock is compared with a heartbeat's. Members decide that an incarnation is dead and write it into its record, which
    is read for incarnations that stand still; the reader never guesses.

    Observations in, answers out. All instants are the observer's own.
    """

    def __init__(self, settings: MembershipSettings) -> None:
        self._settings = settings
        self._clocks = ClockOffsets(window_beats=settings.clock_window_beats, beat_seconds=settings.beat_seconds)
        self._seen: dict[NodeIncarnation, _Seen] = {}
        self._heartbeats: Mapping[NodeIncarnation, Heartbeat] = {}
        self._offsets: Mapping[NodeIncarnation, int] = {}
        self._read_at = self._watching_since = float("-inf")
        self.offset_ms: int | None = None
        """The observer's wall clock against the members' median, or against that of members and servers where it is
        seconds away from both (`membership.clocks`): positive is ahead, None while unknown."""
        self.first_offset_ms: int | None = None
        """The same, known after one beat of each member, and kept while no member beats. Reset when the observer's
        clock is set."""
        self.comparing = True
        """Whether more frequent reads would show the members' clocks sooner or better."""
        self._comparing_since = float("-inf")
        self.targets = HintTargets()
        self.older_programs = False
        """Whether a node claims to live whose program does not report its machine's clock: such a program can't read
        newer stored forms either."""
        self.knows = 0
        """The newest stored form that the programs of all nodes that claim to live can read (`Heartbeat`). 0 while
        there are none."""
        self.witnesses: Sequence[Witness] = ()
        """What the members' clocks say about a step of this machine's clock."""

    @property
    def alone(self) -> bool:
        """No member beats, so there are no clocks to compare with."""
        return not any(
            self._fresh(incarnation) for incarnation in self._heartbeats if not self._state(incarnation).ended
        )

    @property
    def settled(self) -> bool:
        """Whether the heartbeats were watched for long enough: an incarnation that was not seen to beat does not
        beat."""
        return self._read_at - self._watching_since >= STILL_BEATS * self._settings.beat_seconds

    def observed(
        self, heartbeats: Iterable[Heartbeat], *, wall_ms: int, monotonic: float, servers: Sequence[float] = ()
    ) -> None:
        """Take in a read of all heartbeats, with the observer's clocks when it returned, and how far its wall clock is
        ahead of the storage servers'."""
        rows = {heartbeat.incarnation: heartbeat for heartbeat in heartbeats}
        appeared_at = None if self._read_at == float("-inf") else monotonic
        if monotonic - self._read_at >= self._settings.gap_seconds:
            self._watching_since = monotonic
        self._heartbeats, self._read_at = rows, monotonic
        self._seen = {incarnation: self._advance(row, monotonic, appeared_at) for incarnation, row in rows.items()}
        begins = self._clocks.observed(rows.values(), wall_ms=wall_ms, monotonic=monotonic)
        beating = [
            incarnation for incarnation in rows if self._fresh(incarnation) and not self._state(incarnation).ended
        ]
        apart_ms = self._clocks.apart_ms(beating, me=None, servers=servers)
        self._compare_clocks(beating, apart_ms)
        self._compare_first(beating, apart_ms, begins=begins)
        self.witnesses = self._clocks.witnesses(beating, me=None)
        living = [row for incarnation, row in rows.items() if not self._state(incarnation).ended]
        self.older_programs = any(row.system_ms is None for row in living)
        self.knows = min((row.knows for row in living), default=0)
        self._aim(beating)

    def to_ask(self) -> Sequence[NodeIncarnation]:
        """Incarnations whose record may say that they are dead: they stand still, and their record was not read
        lately."""
        again = STILL_BEATS * self._settings.beat_seconds
        return [
            incarnation
            for incarnation, seen in sorted(self._seen.items())
            if not self._state(incarnation).ended
            and (seen.advanced_at is None or self._read_at - seen.advanced_at > again)
            and self._read_at - seen.asked_at > again
        ]

    def record_read(self, incarnation: NodeIncarnation, record: IncarnationRecord | None, *, asked_at: float) -> None:
        """Take in an incarnation's record, read at `asked_at`. An incarnation without a record never had a right to
        act."""
        if (seen := self._seen.get(incarnation)) is not None:
            seen.asked_at = asked_at
            seen.dead = record is None or not record.alive

    def record_unread(self, incarnation: NodeIncarnation, *, asked_at: float) -> None:
        """The read was not answered: read again later."""
        if (seen := self._seen.get(incarnation)) is not None:
            seen.asked_at = asked_at

    def members(self, *, wall_ms: int, monotonic: float) -> Sequence[Member]:
        """Every incarnation that has not ended, and the newest one of every node unless it ended long ago. Ordered."""
        newest = {incarnation.node_id: incarnation for incarnation in sorted(self._heartbeats)}
        return [
            self._member(incarnation, monotonic)
            for incarnation in sorted(self._heartbeats)
            if not self._state(incarnation).ended
            or (
                incarnation == newest[incarnation.node_id]
                and wall_ms - self._heartbeats[incarnation].wall_ms < SHOWN_ENDED_MS
            )
        ]

    def low_watermark_of(self, incarnation: NodeIncarnation) -> int | None:
        """The low watermark in the row of exactly this incarnation."""
        heartbeat = self._heartbeats.get(incarnation)
        return None if heartbeat is None else heartbeat.low_watermark

    def _advance(self, heartbeat: Heartbeat, at: float, appeared_at: float | None) -> _Seen:
        seen = self._seen.get(heartbeat.incarnation)
        if seen is None:
            return _Seen(heartbeat.beat, appeared_at)
        if heartbeat.beat > seen.beat:
            seen.beat, seen.advanced_at = heartbeat.beat, at
        return seen

    def _state(self, incarnation: NodeIncarnation) -> MemberState:
        state = self._heartbeats[incarnation].state
        dead = self._seen[incarnation].dead and state is not NodeState.LEFT
        return MemberState.DEAD if dead else MemberState(state.value)

    def _fresh(self, incarnation: NodeIncarnation) -> bool:
        """Whether its beat advanced shortly before the last read; times without reads do not count."""
        advanced_at = self._seen[incarnation].advanced_at
        if advanced_at is None:
            return False
        return self._read_at - max(advanced_at, self._watching_since) <= self._settings.dead_after_seconds

    def _new(self, incarnation: NodeIncarnation) -> bool:
        """Whether it was first seen shortly before the last read, and not by the first read: members give it pollers
        before it beats."""
        appeared_at = self._seen[incarnation].appeared_at
        return appeared_at is not None and self._read_at - appeared_at <= self._settings.dead_after_seconds

    def _member(self, incarnation: NodeIncarnation, now: float) -> Member:
        advanced_at = self._seen[incarnation].advanced_at
        return Member(
            heartbeat=self._heartbeats[incarnation],
            state=self._state(incarnation),
            beats=self._fresh(incarnation) and not self._state(incarnation).ended,
            beat_age_seconds=None if advanced_at is None else max(now - advanced_at, 0.0),
            offset_ms=self._offsets.get(incarnation),
        )

    def _compare_clocks(self, beating: Sequence[NodeIncarnation], apart_ms: int | None) -> None:
        differences = self._clocks.differences_ms(beating)
        # Of two middle clocks the earlier one counts as right, as it does among the members.
        middle = median_high(differences.values()) if differences else None
        self.offset_ms = apart_ms if apart_ms is not None or middle is None else round(middle)
        self._offsets = (
            {}
            if middle is None
            else {incarnation: round(middle - difference) for incarnation, difference in differences.items()}
        )

    def _compare_first(self, beating: Sequence[NodeIncarnation], apart_ms: int | None, *, begins: bool) -> None:
        if begins:
            self.first_offset_ms, self._comparing_since = None, self._read_at
        smallest = self._clocks.smallest_ms(beating)
        claiming = [incarnation for incarnation in self._heartbeats if not self._state(incarnation).ended]
        waited = self._read_at - self._comparing_since >= FIRST_BEATS * self._settings.beat_seconds
        if smallest and (waited or len(smallest) == len(claiming)):
            self.first_offset_ms = round(median_high(smallest.values())) if apart_ms is None else apart_ms
        self.comparing = self._clocks.few_of(beating) or bool(self.first_offset_ms is None and claiming and not waited)

    def _aim(self, beating: Sequence[NodeIncarnation]) -> None:
        """Choose hint targets: incarnations that beat, and new ones. Until any beat was seen to advance, all
        incarnations that claim to live."""
        newest = {incarnation.node_id: incarnation for incarnation in sorted(self._heartbeats)}
        live = [incarnation for incarnation in newest.values() if self._state(incarnation) is MemberState.LIVE]
        if any(seen.advanced_at is not None for seen in self._seen.values()):
            live = [incarnation for incarnation in live if incarnation in beating or self._new(incarnation)]
        rows = [self._heartbeats[incarnation] for incarnation in live]
        targets = HintTargets(
            {row.incarnation.node_id: row.address for row in rows},
            {row.incarnation.node_id: row.weight for row in rows},
        )
        if targets != self.targets:
            self.targets = targets


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
        self._asking: set[NodeIncarnation] = set()
        self._known = False
        self._warned = False

    async def start(self) -> None:
        """Begin to read. Returns after the first read, also if storage did not answer it."""
        with suppress(StoreUnavailable):
            await self._read()
        self._tasks.spawn(self.servers.run(), name="servers")
        self._tasks.spawn(self._run(), name="members")

    async def stop(self) -> None:
        await self._tasks.close()

    @property
    def offset_ms(self) -> int | None:
        """How far this process's wall clock is ahead of the members' median; None until known."""
        return self._seen.offset_ms

    @property
    def first_offset_ms(self) -> int | None:
        """The same, known after a beat or two of the members; while none beats, the last known value."""
        return self._seen.first_offset_ms

    @property
    def witnesses(self) -> Sequence[Witness]:
        """What the members' clocks say about a step of this machine's clock."""
        return self._seen.witnesses

    @property
    def alone(self) -> bool:
        """No member beats, so there are no clocks to compare with."""
        return self._seen.alone

    @property
    def older_programs(self) -> bool:
        """Whether a node runs a program that is too old to read encrypted headers."""
        return self._seen.older_programs

    @property
    def knows(self) -> int:
        """The newest stored form that all nodes can read; 0 while there are none."""
        return self._seen.knows

    @property
    def settled(self) -> bool:
        """Whether the members were watched for long enough to tell which ones do not beat."""
        return self._seen.settled

    @property
    def targets(self) -> HintTargets:
        """The nodes that pollers are hinted to; the same object until they change."""
        return self._seen.targets

    def members(self) -> Sequence[Member]:
        """The incarnations to show (see `MembersSeen.members`), ordered by node and age."""
        return self._seen.members(wall_ms=self._clock.wall_ms(), monotonic=self._clock.monotonic())

    def capacity_per_minute(self) -> int:
        """Calls a minute that the live nodes are sized for."""
        return sum(one.heartbeat.capacity_per_minute for one in self.members() if one.state is MemberState.LIVE)

    def low_watermark_of(self, incarnation: NodeIncarnation) -> int | None:
        """The low watermark that exactly this incarnation last announced."""
        return self._seen.low_watermark_of(incarnation)

    async def look(self) -> None:
        """Read now, with the records that the read asks for, instead of at the next beat. Raises StoreUnavailable."""
        await self._read()
        await asyncio.gather(*map(self._ask, self._to_ask()))

    async def known(self) -> None:
        """Return when there is a view, however old. Raises StoreUnavailable."""
        if not self._known:
            await self.look()

    async def _run(self) -> None:
        period = self._settings.beat_seconds / READS_PER_BEAT
        due = self._clock.monotonic()
        while True:
            for incarnation in self._to_ask():
                # In a task of its own, so that a slow answer does not delay the next read of heartbeats.
                self._tasks.spawn(self._ask(incarnation), name=f"members.record.{incarnation}")
            pause = period / READS_AT_FIRST if self._seen.comparing else period
            await self._clock.sleep(due + pause - self._clock.monotonic())
            due = self._clock.monotonic()
            # Requests report storage trouble; here it would be logged once a second.
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

    def _to_ask(self) -> Sequence[NodeIncarnation]:
        waiting = [incarnation for incarnation in self._seen.to_ask() if incarnation not in self._asking]
        chosen = waiting[: self._settings.max_concurrent_records - len(self._asking)]
        self._asking.update(chosen)
        return chosen

    async def _ask(self, incarnation: NodeIncarnation) -> None:
        asked_at = self._clock.monotonic()
        try:
            self._seen.record_read(incarnation, await self._store.read_incarnation(incarnation), asked_at=asked_at)
        except StoreUnavailable:
            self._seen.record_unread(incarnation, asked_at=asked_at)
        finally:
            self._asking.discard(incarnation)

    def _judge_clock(self) -> None:
        offset_ms = self._seen.offset_ms
        if offset_ms is None:
            return
        off = abs(offset_ms) > (WARN_MS / 2 if self._warned else WARN_MS)
        if off != self._warned:
            self._warned = off
            _log.warning("clock-off" if off else "clock-agrees", offset_ms=offset_ms)
