"""Who has been silent for long enough to be declared dead. Pure.

An observation is a read of all heartbeats with the instants at which it began and returned, on the observer's own
clock; no clock of anybody else enters. For every other life the detector keeps a *span* of silence, which starts

- when a read returned that showed the beat advanced, or that showed the life for the first time;
- when the life's record was read and showed other `renewals` than known before;
- when a declaration was rejected;
- for all lives at once, when the observer's own reads had a gap of 2 s: it slept, or the store was away for everybody.

A life is *silent* when a read that **began** 6 s or more into the span showed no advance. Then it may be declared dead,
conditional on the `renewals` known since the span began or longer. Why that is safe: see the package.

```
  seen ──record read──▶ watched ──silent──▶ declare ──applied, or rejected by "dead"──▶ free
    │                     ▲                    │
    │                     └──rejected: alive───┘
    └──wrote left, record says dead, or there is no record──▶ free
```
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from membership.conditional import Answer, Applied, Rejected, Unknown
from membership.identity import Life
from membership.ports import Heartbeat, LifeRecord, NodeState

_NEVER_SEEN = -1


@dataclass(slots=True)
class _Track:
    beat: int
    since: float
    renewals: int | None = None
    record_at: float = float("-inf")
    silent: bool = False
    free: bool = False


class Detector:
    """Observations in, silent lives out. `me`, if any, is followed but never judged."""

    def __init__(self, *, me: Life | None, dead_after_seconds: float, gap_seconds: float) -> None:
        self._me = me
        self._dead_after = dead_after_seconds
        self._gap = gap_seconds
        self._tracks: dict[Life, _Track] = {}
        self._last_read = float("-inf")

    def observed(self, *, begun: float, returned: float, heartbeats: Iterable[Heartbeat]) -> None:
        """A read of all heartbeats, begun and returned at these instants. Reads must come one after another."""
        away = returned - self._last_read >= self._gap
        self._last_read = returned
        advanced = {beat.life for beat in heartbeats if self._advance(beat, returned)}
        for life, track in self._tracks.items():
            if away or life in advanced:
                _restart(track, returned)
            else:
                track.silent = begun - track.since >= self._dead_after

    def _advance(self, heartbeat: Heartbeat, returned: float) -> bool:
        track = self._tracks.get(heartbeat.life)
        if track is None:
            track = self._tracks[heartbeat.life] = _Track(_NEVER_SEEN, returned)
        if heartbeat.state is NodeState.LEFT:
            track.free = True
        advanced = heartbeat.beat > track.beat
        track.beat = max(track.beat, heartbeat.beat)
        return advanced

    def watch(self, life: Life, *, now: float) -> None:
        """Follow a life that others mention though no heartbeat of it was seen: it counts as silent from now on."""
        self._tracks.setdefault(life, _Track(_NEVER_SEEN, now))

    def record_read(self, life: Life, record: LifeRecord | None, *, returned: float) -> None:
        """The life's record, by a serial read that returned at `returned`. No record: it never had a right to act."""
        track = self._tracks[life]
        track.record_at = returned
        if record is None or not record.alive:
            track.free = True
        elif record.renewals != track.renewals:
            track.renewals = record.renewals
            _restart(track, returned)

    def declared(self, life: Life, answer: Answer[LifeRecord | None], *, returned: float) -> None:
        """What became of a declaration of death. Unknown decides nothing: the next silent read leads to another."""
        track = self._tracks[life]
        match answer:
            case Applied():
                track.free = True
            case Rejected(current):
                self.record_read(life, current, returned=returned)
                _restart(track, returned)
            case Unknown():
                track.silent = False

    def to_declare(self) -> list[tuple[Life, int]]:
        """Lives that may be declared dead by the last read, each with the renewals to make it conditional on."""
        return [
            (life, track.renewals)
            for life, track in sorted(self._tracks.items())
            if track.silent and not track.free and track.renewals is not None and life != self._me
        ]

    def to_read(self, *, older_than: float) -> list[Life]:
        """Lives whose record is unknown or was read before `older_than`, the oldest knowledge first."""
        due = [
            (track.record_at, life)
            for life, track in self._tracks.items()
            if track.record_at < older_than and not track.free and life != self._me
        ]
        return [life for _, life in sorted(due)]

    def is_member(self, life: Life) -> bool:
        """Neither dead nor left, as far as known. Others than `me` only once their record was read."""
        track = self._tracks.get(life)
        return track is not None and not track.free and (track.renewals is not None or life == self._me)

    def free(self) -> frozenset[Life]:
        """Lives whose leases anybody may take: dead, or left."""
        return frozenset(life for life, track in self._tracks.items() if track.free)

    def open_lives(self) -> list[Life]:
        """Lives that are neither dead nor left, or of which it is not known yet."""
        return sorted(life for life, track in self._tracks.items() if not track.free)

    def silence(self, now: float) -> Mapping[Life, float]:
        """Seconds since each open life was last seen to advance (or its span was started anew)."""
        return {life: now - self._tracks[life].since for life in self.open_lives()}


def _restart(track: _Track, now: float) -> None:
    track.since = max(track.since, now)
    track.silent = False
