"""Which incarnations have been silent for long enough to be declared dead. Pure.

An observation is a read of all heartbeats with the instants at which it began and returned, on the observer's
monotonic clock; no other clock is used. For every other incarnation the detector keeps a *span* of silence, which
starts

- when a read returned that showed the beat advanced, or that showed the incarnation for the first time;
- when the incarnation's record was read and showed other `renewals` than known before;
- when a declaration was rejected;
- for all incarnations at once, when the observer's own reads had a gap of 2 s: it slept, or the store was away.

An incarnation is *silent* when a read that **began** 6 s or more into the span showed no advance. Then it may be
declared dead, conditional on `renewals` as known since the span began or earlier. The package docstring says why that
is safe.

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
from membership.identity import NodeIncarnation
from membership.ports import Heartbeat, IncarnationRecord, NodeState

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
    """Observations in, silent incarnations out. `me`, if any, is followed but never judged."""

    def __init__(self, *, me: NodeIncarnation | None, dead_after_seconds: float, gap_seconds: float) -> None:
        self._me = me
        self._dead_after = dead_after_seconds
        self._gap = gap_seconds
        self._tracks: dict[NodeIncarnation, _Track] = {}
        self._last_read = float("-inf")

    def observed(self, *, begun: float, returned: float, heartbeats: Iterable[Heartbeat]) -> None:
        """Take in a read of all heartbeats, begun and returned at these instants. Reads must not overlap."""
        away = returned - self._last_read >= self._gap
        self._last_read = returned
        advanced = {beat.incarnation for beat in heartbeats if self._advance(beat, returned)}
        for incarnation, track in self._tracks.items():
            if away or incarnation in advanced:
                _restart(track, returned)
            else:
                track.silent = begun - track.since >= self._dead_after

    def _advance(self, heartbeat: Heartbeat, returned: float) -> bool:
        track = self._tracks.get(heartbeat.incarnation)
        if track is None:
            track = self._tracks[heartbeat.incarnation] = _Track(_NEVER_SEEN, returned)
        if heartbeat.state is NodeState.LEFT:
            track.free = True
        advanced = heartbeat.beat > track.beat
        track.beat = max(track.beat, heartbeat.beat)
        return advanced

    def watch(self, incarnation: NodeIncarnation, *, now: float) -> None:
        """Follow an incarnation that a lease names but that has no heartbeat: it counts as silent from now on."""
        self._tracks.setdefault(incarnation, _Track(_NEVER_SEEN, now))

    def record_read(self, incarnation: NodeIncarnation, record: IncarnationRecord | None, *, returned: float) -> None:
        """Take in the record from a serial read that returned at `returned`. Without a record the incarnation never had
        a right to act, so its leases are free."""
        track = self._tracks[incarnation]
        track.record_at = returned
        if record is None or not record.alive:
            track.free = True
        elif record.renewals != track.renewals:
            track.renewals = record.renewals
            _restart(track, returned)

    def declared(
        self, incarnation: NodeIncarnation, answer: Answer[IncarnationRecord | None], *, returned: float
    ) -> None:
        """Take in the answer to a declaration. Unknown decides nothing: the next silent read leads to another."""
        track = self._tracks[incarnation]
        match answer:
            case Applied():
                track.free = True
            case Rejected(current):
                self.record_read(incarnation, current, returned=returned)
                _restart(track, returned)
            case Unknown():
                # The span goes on, so the next read finds it silent again.
                track.silent = False

    def to_declare(self) -> list[tuple[NodeIncarnation, int]]:
        """Incarnations that may be declared dead after the last read, each with the renewals to test."""
        return [
            (incarnation, track.renewals)
            for incarnation, track in sorted(self._tracks.items())
            if track.silent and not track.free and track.renewals is not None and incarnation != self._me
        ]

    def to_read(self, *, older_than: float) -> list[NodeIncarnation]:
        """Incarnations whose record is unknown or was read before `older_than`, least recently read first."""
        due = [
            (track.record_at, incarnation)
            for incarnation, track in self._tracks.items()
            if track.record_at < older_than and not track.free and incarnation != self._me
        ]
        return [incarnation for _, incarnation in sorted(due)]

    def is_member(self, incarnation: NodeIncarnation) -> bool:
        """Whether it is neither dead nor left, as far as known. Others than `me` only once their record was read."""
        track = self._tracks.get(incarnation)
        return track is not None and not track.free and (track.renewals is not None or incarnation == self._me)

    def free(self) -> frozenset[NodeIncarnation]:
        """Incarnations whose leases any node may take: dead, or left."""
        return frozenset(incarnation for incarnation, track in self._tracks.items() if track.free)

    def open_incarnations(self) -> list[NodeIncarnation]:
        """Incarnations that are not known to be dead or left."""
        return sorted(incarnation for incarnation, track in self._tracks.items() if not track.free)

    def silence(self, now: float) -> Mapping[NodeIncarnation, float]:
        """Seconds since each open incarnation was last seen to advance (or its span was started again)."""
        return {incarnation: now - self._tracks[incarnation].since for incarnation in self.open_incarnations()}


def _restart(track: _Track, now: float) -> None:
    track.since = max(track.since, now)
    track.silent = False
