"""The offset of the local wall clock from the members', estimated from their heartbeats. Pure.

A heartbeat carries its writer's wall clock. It is read a little later: after the write, the wait for the reader's next
read, and the read. So *reader's clock at the read - clock in the row* is the clocks' difference plus that age, and the
minimum over many beats is the difference plus the smallest age. The local row is read in the same way and has the same
smallest age, so subtracting its minimum leaves the difference, even when the store is slow for all. The readers' period
must drift through the writers', or the smallest age of a pair of nodes is never observed. Only an advance between two
consecutive reads is a sample: a row that was not watched may be of any age.

Until the offset is known, the smallest *difference plus age* bounds it: the local clock can't be further ahead than
that. A caller that waits for the bound as well is late by an age, and never early. Frequent reads keep the ages short
while few beats of a member were seen.

The servers of the store have clocks too, known to a second or so (`server_clocks`). While the median of all clocks,
members' and servers', is within `CLOCKS_APART_MS` of the local one, only members are compared, those that are as near.
Otherwise the local clock is off by that median, even before any beat is seen. Of two clocks the earlier counts: a
member that is alone stops when it is ahead of the only server, and continues when it is behind. Late is better than
early.

A *witness* is a member as seen by a process whose machine's clock was stepped: how far the local wall clock is ahead of
the witness's, and whether the witness's machine was stepped as well (`Heartbeat.system_ms`). A wall clock whose writer
accepted a step is a different clock: earlier samples of it are dropped.

A process that is no member, such as an API, has no row to subtract: it takes the minima alone, and seems to be ahead by
the smallest age, the time of one write and one read of the store.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_high

from membership.identity import NodeIncarnation
from membership.ports import Heartbeat

CLOCKS_APART_MS = 5_000
"""A clock that is further ahead than this passes minutes before their grace is over."""
_STEP_MS = 250
"""A local clock that moved by more between two reads was set: earlier samples are void."""
_FEW = 3
"""Samples of a member from which it takes part in comparisons at all."""


@dataclass(frozen=True, slots=True)
class Witness:
    """A member's clock. `ahead_ms`: the observer's wall clock minus the member's. `step_ms`: the member's machine clock
    minus its wall clock, as of beat `beat`."""

    incarnation: NodeIncarnation
    beat: int
    ahead_ms: int
    step_ms: int


class ClockOffsets:
    """Collects samples; answers the offset of the local wall clock from the median of the members'."""

    def __init__(self, *, window_beats: int, beat_seconds: float) -> None:
        self._window = window_beats
        self._beat_seconds = beat_seconds
        self._beyond_doubt_ms = 2_000 * beat_seconds
        self._read_at = float("-inf")
        self._beats: dict[NodeIncarnation, Heartbeat] = {}
        self._samples: dict[NodeIncarnation, deque[float]] = {}
        self._anchor: float | None = None
        self._apart = False

    def observed(self, heartbeats: Iterable[Heartbeat], *, wall_ms: int, monotonic: float) -> bool:
        """Take in a read of all heartbeats, with both local clocks as of its return. True when comparing starts with
        it: it is the first read, or the local wall clock was set since the last one."""
        # Wall clock at the origin of the monotonic clock; it moves only when the wall clock is set.
        anchor = wall_ms - monotonic * 1000.0
        begins = self._anchor is None or abs(anchor - self._anchor) > _STEP_MS
        if begins:
            self._samples.clear()
        self._anchor = anchor
        watched = monotonic - self._read_at < 2 * self._beat_seconds
        self._read_at = monotonic
        for heartbeat in heartbeats:
            incarnation, before = heartbeat.incarnation, self._beats.get(heartbeat.incarnation)
            self._beats[incarnation] = heartbeat
            if watched and before is not None and heartbeat.beat > before.beat:
                samples = self._samples.setdefault(incarnation, deque(maxlen=self._window))
                sample = wall_ms - heartbeat.wall_ms
                # No age changes by that much: the writer's clock was set.
                if samples and abs(sample - samples[-1]) > self._beyond_doubt_ms:
                    samples.clear()
                samples.append(sample)
        return begins

    def offset_ms(
        self, me: NodeIncarnation, members: Iterable[NodeIncarnation], *, servers: Sequence[float] = ()
    ) -> int | None:
        """Positive: the local clock is ahead. Of an even number of clocks the earlier middle one counts as right: late
        is better than early. None until enough beats of all were seen, unless the offset is beyond doubt after few.
        `servers`: how far the local clock is ahead of each server."""
        everybody = list(members)
        incarnations = [incarnation for incarnation in everybody if incarnation in self._samples]
        if (apart := self.apart_ms(incarnations, me=me, servers=servers)) is not None:
            return apart
        if everybody == [me]:
            return 0
        if me not in incarnations or any(len(self._samples[incarnation]) < _FEW for incarnation in incarnations):
            return None
        smallest = {incarnation: min(self._samples[incarnation]) for incarnation in incarnations}
        differences = {incarnation: smallest[incarnation] - smallest[me] for incarnation in incarnations}
        near = {
            incarnation: ahead
            for incarnation, ahead in differences.items()
            if not servers or abs(ahead) < CLOCKS_APART_MS
        }
        offset = median_high(near.values())
        settled = all(len(self._samples[incarnation]) == self._window for incarnation in near)
        return round(offset) if settled or abs(offset) > self._beyond_doubt_ms else None

    def apart_ms(
        self, members: Iterable[NodeIncarnation], *, me: NodeIncarnation | None, servers: Sequence[float]
    ) -> int | None:
        """How far the local clock is ahead of the median of all clocks, if that exceeds the servers' accuracy; else
        None. `me` None: a process that is no member, whose clock does not count."""
        clocks = [*servers] if me is None else [0.0, *servers]
        known = [
            incarnation
            for incarnation in members
            if incarnation != me and len(self._samples.get(incarnation, ())) >= _FEW
        ]
        clocks += [min(self._samples[incarnation]) for incarnation in known]
        middle = median_high(clocks) if servers else 0.0
        # Hysteresis: an offset near the limit must not switch the verdict at every read.
        self._apart = abs(middle) >= (CLOCKS_APART_MS / 2 if self._apart else CLOCKS_APART_MS)
        return round(middle) if self._apart else None

    def witnesses(self, members: Iterable[NodeIncarnation], *, me: NodeIncarnation | None) -> tuple[Witness, ...]:
        """The witnesses among all others with enough samples. `me` None: a process that is no member sees them further
        behind by the smallest age."""
        known = {
            incarnation: min(samples)
            for incarnation in members
            if len(samples := self._samples.get(incarnation, ())) >= _FEW
        }
        age = known.pop(me, 0.0) if me is not None else 0.0
        return tuple(
            Witness(incarnation, self._beats[incarnation].beat, round(ahead - age), self._beats[incarnation].step_ms)
            for incarnation, ahead in known.items()
        )

    def few_of(self, members: Iterable[NodeIncarnation]) -> bool:
        """Whether a member's clock is known by few beats only, so that reading more often is worthwhile."""
        return any(len(self._samples.get(incarnation, ())) < _FEW for incarnation in members)

    def ahead_at_most_ms(
        self, me: NodeIncarnation, members: Iterable[NodeIncarnation], *, servers: Sequence[float] = ()
    ) -> int | None:
        """An upper bound on how far the local clock is ahead of the members' median. None before another member's beat
        was seen, unless there is no other. Used while `apart_ms` is None."""
        incarnations = list(members)
        bounds = [
            min(self._samples[incarnation])
            for incarnation in incarnations
            if incarnation != me and self._samples.get(incarnation)
        ]
        if not bounds and any(incarnation != me for incarnation in incarnations):
            return None
        near = [bound for bound in bounds if not servers or abs(bound) < CLOCKS_APART_MS]
        return max(round(median_high([0.0, *near])), 0)

    def smallest_ms(self, members: Iterable[NodeIncarnation], *, beats: int = 1) -> dict[NodeIncarnation, float]:
        """The smallest difference seen for each member, too large by the age of its row. Members with fewer samples
        than `beats` are left out."""
        return {
            incarnation: min(samples)
            for incarnation in members
            if len(samples := self._samples.get(incarnation, ())) >= beats
        }

    def differences_ms(self, members: Iterable[NodeIncarnation]) -> Mapping[NodeIncarnation, float]:
        """For a process that is no member: local clock minus that of each member, plus the smallest age of its rows.

        Only members with a full window of samples, or with an offset beyond doubt after few.
        """
        smallest = self.smallest_ms(members, beats=_FEW)
        return {
            incarnation: difference
            for incarnation, difference in smallest.items()
            if len(self._samples[incarnation]) == self._window or abs(difference) > self._beyond_doubt_ms
        }
