"""One poller's lease as its (possible) owner sees it: a state machine of values, without time or I/O. Pure.

```
                 applied                        set, clear
  take ─▶ TAKING ─────────▶ HELD ◀─────────────────────────────▶ MARKING
             │               │ drain, suspect    applied            │
   unknown,  │               ▼                                      │ unknown, or rejected though ours
   rejected  │           DRAINING ◀─────────────────────────────────┘
   though    │            │      │ drained, planned
   ours      │   drained, │      ▼             applied, or rejected: not ours
             ▼   in doubt │  RELEASING ──────────────────────────────────────────▶ GONE
          DOUBTFUL ◀──────┘      │                                                  ▲
             │ ▲─────────────────┘ unknown, or rejected though ours                 │
             │                                                                      │
             ├── read: not ours, and nothing unanswered can make it so ─────────────┘
             ├── take again (ours: under a new epoch; or free) ─▶ TAKING
             └── release (ours) ─▶ RELEASING
```

The process acts for the poller in HELD and MARKING, ends what it started in DRAINING, and does nothing in the others.
So after an unknown answer it acts again only under a new epoch that it has taken from itself.

*Counted*: whether the poller holds back the low watermark that its incarnation announces. It does from the start of a
clear until `lagging = true` or the release is confirmed.

Every write replaces the whole row and is conditional on the whole row as last known, so a write that arrives late finds
a changed row, is rejected, and changes nothing. Only a take changes the epoch, by adding one; the highest epoch that an
unanswered take of ours may still write is the *ceiling*, below which "not ours" is not final.
"""

from dataclasses import dataclass, replace
from enum import Enum

from membership.conditional import Answer, Applied, Rejected, Unknown
from membership.identity import NodeIncarnation
from membership.ports import LeaseRow


class Phase(Enum):
    """Where a lease is in the drawing above."""

    TAKING = "taking"
    HELD = "held"
    MARKING = "marking"
    DRAINING = "draining"
    RELEASING = "releasing"
    DOUBTFUL = "doubtful"
    GONE = "gone"


class ImpossibleMove(RuntimeError):
    """The drawing has no such move: a bug in the caller."""

    def __init__(self, move: str, lease: "Lease") -> None:
        super().__init__(f"{move} is impossible for {lease.row.poller} while it is {lease.phase.value}")


def start_of(row: LeaseRow, *, owners_low_watermark: int | None) -> int:
    """Where a taker starts: everything before both bounds is settled, the low watermark's only if it does not lag.

    `owners_low_watermark` is the low watermark of the *incarnation* that the row names as its owner; None when it never
    announced one."""
    if row.lagging or owners_low_watermark is None:
        return row.watermark
    return max(row.watermark, owners_low_watermark)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """`row`: as last known; the next write is conditional on it. `sent`: the write under way. `mark`: the oldest
    unsettled mark, as known while the host does not act for the poller. `ceiling`: see the module."""

    incarnation: NodeIncarnation
    phase: Phase
    row: LeaseRow
    mark: int
    sent: LeaseRow | None = None
    counted: bool = False
    in_doubt: bool = False
    ceiling: int = 0

    @property
    def granted(self) -> bool:
        """Whether the process serves the poller, or is ending what it started, under `row.epoch`."""
        return self.phase is Phase.HELD or self.phase is Phase.MARKING or self.phase is Phase.DRAINING

    @property
    def ours(self) -> bool:
        """Whether the row, as last known, names this incarnation as the owner."""
        return self.row.owner == self.incarnation

    def _in(self, move: str, *phases: Phase) -> None:
        if self.phase not in phases:
            raise ImpossibleMove(move, self)

    @staticmethod
    def take(row: LeaseRow, *, incarnation: NodeIncarnation, start: int) -> "Lease":
        """Take a poller whose recorded owner has released it or is dead or left. `start` comes from `start_of`."""
        return Lease(
            incarnation=incarnation, phase=Phase.TAKING, row=row, mark=start, sent=_taken(row, incarnation, start)
        )

    @staticmethod
    def found(row: LeaseRow, *, incarnation: NodeIncarnation) -> "Lease":
        """A row that names this incarnation though it holds no such lease: doubtful, so taken again or released."""
        return Lease(incarnation=incarnation, phase=Phase.DOUBTFUL, row=row, mark=row.watermark)

    def take_again(self, *, start: int, at_most: int) -> "Lease":
        """Take a doubtful poller under a new epoch, from this incarnation itself or from an owner that is gone.

        `start` comes from `start_of`; where the poller is ours, what this incarnation settled itself counts as well.
        Never later than `at_most`: what was settled by a clock that was ahead does not count."""
        self._in("take_again", Phase.DOUBTFUL)
        start = min(at_most, max(start, self.mark))
        return replace(self, phase=Phase.TAKING, mark=start, sent=_taken(self.row, self.incarnation, start))

    def set_lagging(self, *, position: int, at_most: int) -> "Lease":
        """Start to write the watermark and `lagging = true` together. The poller counts as before until confirmed.
        `at_most`: as in `take_again`."""
        self._in("set_lagging", Phase.HELD)
        sent = replace(self.row, watermark=min(at_most, position), lagging=True)
        return replace(self, phase=Phase.MARKING, sent=sent)

    def clear_lagging(self) -> "Lease":
        """Start to clear the flag; from now on the poller counts. Only at or above every low watermark ever sent
        (`LowWatermarks`)."""
        self._in("clear_lagging", Phase.HELD)
        if not self.row.lagging:
            raise ImpossibleMove("clear_lagging of a poller that does not lag", self)
        return replace(self, phase=Phase.MARKING, sent=replace(self.row, lagging=False), counted=True)

    def drain(self) -> "Lease":
        """A planned move: let started work end, then release."""
        self._in("drain", Phase.HELD)
        return replace(self, phase=Phase.DRAINING)

    def suspect(self) -> "Lease":
        """A write of the host was rejected by a higher epoch: end what was started, then read whose the poller is."""
        if not self.granted:
            raise ImpossibleMove("suspect", self)
        phase = Phase.DRAINING if self.phase is Phase.HELD else self.phase
        return replace(self, phase=phase, in_doubt=True)

    def drained(self, *, position: int, at_most: int) -> "Lease":
        """The host has stopped acting for the poller; `position` is the oldest unsettled mark. `at_most`: as in
        `take_again`."""
        self._in("drained", Phase.DRAINING)
        ended = replace(self, phase=Phase.DOUBTFUL, mark=position)
        return ended if self.in_doubt else ended.release(at_most=at_most)

    def release(self, *, at_most: int) -> "Lease":
        """Start to give the poller up; never withdrawn under this epoch. `at_most`: as in `take_again`."""
        self._in("release", Phase.DOUBTFUL)
        if not self.ours:
            raise ImpossibleMove("release of a poller that is not ours", self)
        mark = min(at_most, max(self.mark, self.row.watermark))
        released = replace(self.row, owner=None, watermark=mark, lagging=True)
        return replace(self, phase=Phase.RELEASING, mark=mark, sent=released, in_doubt=False)

    def answered(self, answer: Answer[LeaseRow | None]) -> "Lease":
        """The lease after the answer to the write under way."""
        self._in("answered", Phase.TAKING, Phase.MARKING, Phase.RELEASING)
        match answer:
            case Applied():
                return self._applied()
            case Rejected(current):
                return self._unsettled(current)
            case Unknown():
                ceiling = self.under_way.epoch if self.phase is Phase.TAKING else 0
                return replace(self._stopped(), ceiling=max(self.ceiling, ceiling))

    def read(self, row: LeaseRow | None) -> "Lease":
        """The lease after a serial read of a doubtful poller's row."""
        self._in("read", Phase.DOUBTFUL)
        return self._unsettled(row)

    @property
    def under_way(self) -> LeaseRow:
        """The write under way."""
        if self.sent is None:
            raise ImpossibleMove("no write is under way", self)
        return self.sent

    def _applied(self) -> "Lease":
        row = self.under_way
        match self.phase:
            case Phase.TAKING:
                return Lease(incarnation=self.incarnation, phase=Phase.HELD, row=row, mark=row.watermark)
            case Phase.MARKING:
                phase = Phase.DRAINING if self.in_doubt else Phase.HELD
                return replace(self, phase=phase, row=row, sent=None, counted=not row.lagging)
            case _:
                return replace(self, phase=Phase.GONE, row=row, sent=None, counted=False)

    def _unsettled(self, row: LeaseRow | None) -> "Lease":
        """The lease when a rejection or a serial read shows another row than the one that was written."""
        if row is None:
            return replace(self, phase=Phase.GONE, sent=None, counted=False)
        if row.owner == self.incarnation:
            return replace(self._stopped(), row=row)
        # Below the ceiling an unanswered take of ours may still be applied.
        phase = Phase.DOUBTFUL if row.epoch < self.ceiling else Phase.GONE
        return replace(self, phase=phase, row=row, sent=None, counted=False)

    def _stopped(self) -> "Lease":
        phase = Phase.DRAINING if self.phase is Phase.MARKING else Phase.DOUBTFUL
        return replace(self, phase=phase, sent=None, in_doubt=True)


def _taken(row: LeaseRow, incarnation: NodeIncarnation, start: int) -> LeaseRow:
    return replace(row, owner=incarnation, epoch=row.epoch + 1, watermark=start, lagging=True)
