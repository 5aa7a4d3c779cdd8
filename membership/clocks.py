"""How far one's wall clock is from those of the members, from what they write into their heartbeats.

A heartbeat carries its writer's wall clock. It is read a little later: after the write, the wait for the reader's next
read, and the read. So *reader's clock at the read - clock in the row* is the clocks' difference plus that age, and the
smallest over many beats is the difference plus the smallest age. One's own row is read in the same way and has the same
smallest age, clocks apart; comparing it with the others' leaves the difference, also when the store is slow for all.
The readers' period must drift through the writers', or the smallest age of a pair of nodes never comes to be seen.
Only an advance between two reads in a row is a sample: a row that was not watched may be of any age.

Until that is known, the smallest *difference plus age* is a bound: one's own clock can't be further ahead than that. A
caller that waits for the bound as well is late by an age, and never early. Ages are kept short by reading often while
few beats of somebody were seen.

Who is no member has no row of its own to compare with: it reads the differences alone, and seems to be ahead by the
smallest age there is, the time of one write and one read of the store.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from statistics import median_high

from membership.identity import Life
from membership.ports import Heartbeat

_STEP_MS = 250
_FEW = 3


class ClockOffsets:
    """Collects samples; answers the offset of one's own wall clock against the median of the members'."""

    def __init__(self, *, window_beats: int, beat_seconds: float) -> None:
        self._window = window_beats
        self._beat_seconds = beat_seconds
        self._read_at = float("-inf")
        self._beats: dict[Life, int] = {}
        self._samples: dict[Life, deque[float]] = {}
        self._anchor: float | None = None

    def observed(self, heartbeats: Iterable[Heartbeat], *, wall_ms: int, monotonic: float) -> None:
        """A read of all heartbeats, and both of one's own clocks when it returned."""
        anchor = wall_ms - monotonic * 1000.0
        if self._anchor is not None and abs(anchor - self._anchor) > _STEP_MS:
            self._samples.clear()
        self._anchor = anchor
        watched = monotonic - self._read_at < 2 * self._beat_seconds
        self._read_at = monotonic
        for heartbeat in heartbeats:
            life, before = heartbeat.life, self._beats.get(heartbeat.life)
            self._beats[life] = heartbeat.beat
            if watched and before is not None and heartbeat.beat > before:
                samples = self._samples.setdefault(life, deque(maxlen=self._window))
                samples.append(wall_ms - heartbeat.wall_ms)

    def offset_ms(self, me: Life, members: Iterable[Life]) -> int | None:
        """Positive: one's own clock is ahead. Of an even number of clocks the earlier middle one counts as right: late
        is better than early. None until enough beats of all were seen, unless the offset is beyond doubt after few."""
        lives = [life for life in members if len(self._samples.get(life, ())) >= _FEW]
        if me not in lives:
            return None
        smallest = {life: min(self._samples[life]) for life in lives}
        offset = median_high(smallest.values()) - smallest[me]
        settled = all(len(self._samples[life]) == self._window for life in lives)
        return round(offset) if settled or abs(offset) > 2_000 * self._beat_seconds else None

    def few_of(self, members: Iterable[Life]) -> bool:
        """Whether somebody's clock is known by few beats only, so that reading more often pays."""
        return any(len(self._samples.get(life, ())) < _FEW for life in members)

    def ahead_at_most_ms(self, me: Life, members: Iterable[Life]) -> int | None:
        """What one's own clock is ahead of the members' median, or more; never less. None before anybody else's beat
        was seen, unless one is alone."""
        lives = list(members)
        bounds = [min(self._samples[life]) for life in lives if life != me and self._samples.get(life)]
        if not bounds and any(life != me for life in lives):
            return None
        return max(round(median_high([0.0, *bounds])), 0)

    def differences_ms(self, members: Iterable[Life]) -> Mapping[Life, float]:
        """For who is no member: one's own clock less that of each member, plus the smallest age seen of its rows.

        Only of those that were watched for long enough, or that are off beyond doubt after few beats.
        """
        smallest = {life: min(self._samples[life]) for life in members if len(self._samples.get(life, ())) >= _FEW}
        beyond_doubt_ms = 2_000 * self._beat_seconds
        return {
            life: difference
            for life, difference in smallest.items()
            if len(self._samples[life]) == self._window or abs(difference) > beyond_doubt_ms
        }
