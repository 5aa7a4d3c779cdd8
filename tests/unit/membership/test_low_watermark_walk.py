"""Random walks of two incarnations with real `Lease`s and `LowWatermarks` over one store: no taker starts too late.

There is no time, so nothing of trust is assumed: A may be declared dead at any point and goes on as a zombie. Writes
begin, take effect and are answered at different moments; answers are lost, and a write that was given up may take
effect at any later time; heartbeats arrive late. Checked in every state: an incarnation that takes a poller now starts
at or before its oldest mark that is not settled.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import pytest

from membership.conditional import APPLIED, Answer, Rejected, Unknown
from membership.identity import IncarnationNumber, NodeId, NodeIncarnation, PollerKey
from membership.lease import Lease, Phase, start_of
from membership.low_watermarks import LowWatermarks
from membership.ports import LeaseRow

POLLERS = [PollerKey("shop", 0), PollerKey("shop", 1)]
STEPS = 90
LATER = 1_000
"""Every mark up to this one is credible."""
Move = tuple[str, Callable[[], None]]
WEIGHTS = {
    "is declared dead": 0.05,
    "begins a release": 0.1,
    "suspect": 0.03,
    "reads the row": 0.2,
    "begins to": 2.0,
    "sends a floor": 1.5,
    "settles": 2.0,
    "is given up": 0.3,
    "takes effect": 0.5,
    "reads  ": 0.4,
}


@dataclass
class Process:
    """One incarnation: its leases, its host's positions, its requests and what is known of them."""

    incarnation: NodeIncarnation
    low_watermarks: LowWatermarks = field(default_factory=LowWatermarks)
    leases: dict[PollerKey, Lease] = field(default_factory=dict)
    position: dict[PollerKey, int] = field(default_factory=dict)
    answers: dict[PollerKey, Answer[LeaseRow | None]] = field(default_factory=dict)
    reading: dict[PollerKey, tuple[LeaseRow, int | None, bool]] = field(default_factory=dict)
    sent: list[int | None] = field(default_factory=list)
    stored: int = -1
    free: bool = False


class Walk:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.trace: list[str] = []
        self.a = Process(NodeIncarnation(NodeId("a"), IncarnationNumber(1)))
        self.b = Process(NodeIncarnation(NodeId("b"), IncarnationNumber(1)))
        self.rows = {
            poller: LeaseRow(poller=poller, owner=None, epoch=0, watermark=0, lagging=True) for poller in POLLERS
        }
        self.done = dict.fromkeys(POLLERS, 0)
        self.late: list[tuple[LeaseRow, LeaseRow]] = []
        self.grants = 0
        self.from_low_watermark = 0
        for poller in POLLERS:
            self.enter(self.a, Lease.take(self.rows[poller], incarnation=self.a.incarnation, start=0))
            self.apply(self.a, self.a.leases[poller])
            self.enter(self.a, self.a.leases[poller].answered(APPLIED))

    def run(self) -> None:
        for _ in range(STEPS):
            moves = list(self.moves())
            weights = [next((weight for part, weight in WEIGHTS.items() if part in label), 1.0) for label, _ in moves]
            label, move = self.random.choices(moves, weights)[0]
            self.trace.append(label)
            move()
            self.check()

    def check(self) -> None:
        for poller, row in self.rows.items():
            if (start := self.start(row)) > self.done[poller]:
                self.fail(f"a taker of {poller} would start at {start}, mark {self.done[poller]} is not settled")

    def fail(self, why: str) -> None:
        pytest.fail(f"{why}\n" + "\n".join(self.trace[-50:]))

    def low_watermark_of(self, incarnation: NodeIncarnation | None) -> int | None:
        for process in (self.a, self.b):
            if process.incarnation == incarnation and process.stored >= 0:
                return process.sent[process.stored]
        return None

    def start(self, row: LeaseRow) -> int:
        return start_of(row, owners_low_watermark=self.low_watermark_of(row.owner))

    def moves(self) -> Iterator[Move]:
        for process in (self.a, self.b):
            name = process.incarnation.node_id
            yield f"{name} sends a floor", partial(self.send_low_watermark, process)
            for number in range(process.stored + 1, len(process.sent)):
                yield f"{name}'s floor arrives {process.sent[number]}", partial(setattr, process, "stored", number)
            for poller in POLLERS:
                for label, move in self.poller_moves(process, poller):
                    yield f"{name} {poller} {label}  [{self.rows[poller]}]", move
        if not self.a.free:
            yield "a is declared dead", partial(setattr, self.a, "free", True)
        for write in self.late:
            yield f"a write given up takes effect: {write[1]}", partial(self.apply_late, write)

    def send_low_watermark(self, process: Process) -> None:
        process.sent.append(process.low_watermarks.send(partial(self.position_of, process)))

    def position_of(self, process: Process, poller: PollerKey) -> int:
        lease = process.leases[poller]
        return process.position[poller] if lease.granted else lease.mark

    def poller_moves(self, process: Process, poller: PollerKey) -> Iterator[Move]:
        lease = process.leases.get(poller)
        if lease is None:
            yield from self.taking(process, poller)
            return
        if lease.granted:
            yield "settles a mark", partial(self.settle, process, poller)
        if lease.phase is Phase.HELD:
            if not lease.counted:
                yield "sets again", partial(self.set_lagging, process, poller)
                if process.low_watermarks.may_count(process.position[poller]):
                    yield "begins to clear", lambda: self.enter(process, lease.clear_lagging())
            else:
                yield "begins to set", partial(self.set_lagging, process, poller)
            yield "begins a release", lambda: self.enter(process, lease.drain())
            yield "suspect", lambda: self.enter(process, lease.suspect())
        elif lease.phase is Phase.DRAINING:
            yield (
                "is drained",
                lambda: self.enter(process, lease.drained(position=process.position[poller], at_most=LATER)),
            )
        elif lease.phase is Phase.DOUBTFUL:
            yield "reads", lambda: self.enter(process, lease.read(self.rows[poller]))
            if lease.ours:
                yield (
                    "takes a new epoch",
                    lambda: self.enter(process, lease.take_again(start=lease.row.watermark, at_most=LATER)),
                )
                yield "release again", lambda: self.enter(process, lease.release(at_most=LATER))
            elif self.may_take(process, lease.row):
                yield (
                    "takes again",
                    lambda: self.enter(process, lease.take_again(start=self.start(lease.row), at_most=LATER)),
                )
        else:
            yield from self.writing(process, lease)

    def taking(self, process: Process, poller: PollerKey) -> Iterator[Move]:
        if poller not in process.reading:
            yield "reads the row", lambda: process.reading.update({poller: (self.rows[poller], None, False)})
            return
        row, low_watermark, known = process.reading[poller]
        if not known:
            read = (row, self.low_watermark_of(row.owner), True)
            yield "reads the floor", lambda: process.reading.update({poller: read})
        elif row.owner == process.incarnation:
            yield "owns it unknowingly", lambda: self.enter(process, Lease.found(row, incarnation=process.incarnation))
        elif self.may_take(process, row):
            lease = Lease.take(
                row, incarnation=process.incarnation, start=start_of(row, owners_low_watermark=low_watermark)
            )
            yield "begins a take", lambda: self.enter(process, lease)
        else:
            yield "forgets what it read", lambda: void(process.reading.pop(poller))

    def may_take(self, process: Process, row: LeaseRow) -> bool:
        owner = self.a if row.owner == self.a.incarnation else self.b
        return row.owner is None or (owner.free and owner is not process)

    def writing(self, process: Process, lease: Lease) -> Iterator[Move]:
        poller = lease.row.poller
        assert lease.sent is not None
        if (answer := process.answers.get(poller)) is None:
            yield f"{lease.phase.value} reaches the store", partial(self.apply, process, lease)
        else:
            yield f"{lease.phase.value} is answered", lambda: self.enter(process, lease.answered(answer))
        yield f"{lease.phase.value} is given up", partial(self.give_up, process, lease, answer is None)

    def apply(self, process: Process, lease: Lease) -> None:
        assert lease.sent is not None
        process.answers[lease.row.poller] = self.write(lease.row, lease.sent)

    def give_up(self, process: Process, lease: Lease, late: bool) -> None:
        assert lease.sent is not None
        if late:
            self.late.append((lease.row, lease.sent))
        self.enter(process, lease.answered(Unknown("given up")))

    def apply_late(self, write: tuple[LeaseRow, LeaseRow]) -> None:
        self.late.remove(write)
        self.write(*write)

    def write(self, expected: LeaseRow, new: LeaseRow) -> Answer[LeaseRow | None]:
        row = self.rows[new.poller]
        if row != expected:
            return Rejected(row)
        if new.epoch > row.epoch:
            self.from_low_watermark += new.watermark > row.watermark
        self.rows[new.poller] = new
        return APPLIED

    def settle(self, process: Process, poller: PollerKey) -> None:
        process.position[poller] += 1
        self.done[poller] = max(self.done[poller], process.position[poller])

    def set_lagging(self, process: Process, poller: PollerKey) -> None:
        self.enter(process, process.leases[poller].set_lagging(position=process.position[poller], at_most=LATER))

    def enter(self, process: Process, lease: Lease) -> None:
        poller = lease.row.poller
        before = process.leases.get(poller)
        process.answers.pop(poller, None)
        process.reading.pop(poller, None)
        if lease.granted and not (before and before.granted):
            process.position[poller] = lease.row.watermark
            self.grants += 1
            if lease.row.watermark > self.done[poller]:
                self.fail(f"{poller} starts at {lease.row.watermark}, mark {self.done[poller]} is not settled")
        if lease.counted and poller not in process.low_watermarks:
            process.low_watermarks.count(poller, position=process.position[poller])
        if lease.phase is Phase.GONE:
            del process.leases[poller]
        else:
            process.leases[poller] = lease
        if not lease.counted:
            process.low_watermarks.discount(poller)


def void(_: object) -> None: ...


@pytest.mark.parametrize("block", range(8))
def test_no_walk_leads_to_a_taker_that_starts_too_late(block: int) -> None:
    grants = from_low_watermark = 0
    for seed in range(block * 110, block * 110 + 110):
        walk = Walk(seed)
        walk.run()
        grants += walk.grants
        from_low_watermark += walk.from_low_watermark
    assert grants > 100, "the walks must lead through many takes"
    assert from_low_watermark > 0, "and through takes that start from a floor or a mark above the watermark"
