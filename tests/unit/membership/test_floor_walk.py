"""Random walks of two lives with real `Lease`s and `Floors` over one store: no taker ever starts too late.

No time at all, so nothing of trust is assumed: A may be declared dead at any point and goes on as a zombie. Writes are
begun, take effect and are answered at different moments; answers are lost, and what was given up may take effect any
time later; heartbeats arrive late. Checked in every state: whoever takes a lane now starts at or before its oldest mark
that is not settled.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import pytest

from membership.conditional import APPLIED, Answer, Rejected, Unknown
from membership.floors import Floors
from membership.identity import Incarnation, Lane, Life, NodeId
from membership.lease import Lease, Phase, start_of
from membership.ports import LeaseRow

LANES = [Lane("shop", 0), Lane("shop", 1)]
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
    """One life: what it holds, how far its host is, what it sent and what is known of it."""

    life: Life
    floors: Floors = field(default_factory=Floors)
    leases: dict[Lane, Lease] = field(default_factory=dict)
    position: dict[Lane, int] = field(default_factory=dict)
    answers: dict[Lane, Answer[LeaseRow | None]] = field(default_factory=dict)
    reading: dict[Lane, tuple[LeaseRow, int | None, bool]] = field(default_factory=dict)
    sent: list[int | None] = field(default_factory=list)
    stored: int = -1
    free: bool = False


class Walk:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.trace: list[str] = []
        self.a = Process(Life(NodeId("a"), Incarnation(1)))
        self.b = Process(Life(NodeId("b"), Incarnation(1)))
        self.rows = {lane: LeaseRow(lane=lane, owner=None, epoch=0, watermark=0, lagging=True) for lane in LANES}
        self.done = dict.fromkeys(LANES, 0)
        self.late: list[tuple[LeaseRow, LeaseRow]] = []
        self.grants = 0
        self.from_floor = 0
        for lane in LANES:
            self.enter(self.a, Lease.take(self.rows[lane], life=self.a.life, start=0))
            self.apply(self.a, self.a.leases[lane])
            self.enter(self.a, self.a.leases[lane].answered(APPLIED))

    def run(self) -> None:
        for _ in range(STEPS):
            moves = list(self.moves())
            weights = [next((weight for part, weight in WEIGHTS.items() if part in label), 1.0) for label, _ in moves]
            label, move = self.random.choices(moves, weights)[0]
            self.trace.append(label)
            move()
            self.check()

    def check(self) -> None:
        for lane, row in self.rows.items():
            if (start := self.start(row)) > self.done[lane]:
                self.fail(f"a taker of {lane} would start at {start}, mark {self.done[lane]} is not settled")

    def fail(self, why: str) -> None:
        pytest.fail(f"{why}\n" + "\n".join(self.trace[-50:]))

    def floor_of(self, life: Life | None) -> int | None:
        for process in (self.a, self.b):
            if process.life == life and process.stored >= 0:
                return process.sent[process.stored]
        return None

    def start(self, row: LeaseRow) -> int:
        return start_of(row, owners_floor=self.floor_of(row.owner))

    def moves(self) -> Iterator[Move]:
        for process in (self.a, self.b):
            name = process.life.node_id
            yield f"{name} sends a floor", partial(self.send_floor, process)
            for number in range(process.stored + 1, len(process.sent)):
                yield f"{name}'s floor arrives {process.sent[number]}", partial(setattr, process, "stored", number)
            for lane in LANES:
                for label, move in self.lane_moves(process, lane):
                    yield f"{name} {lane} {label}  [{self.rows[lane]}]", move
        if not self.a.free:
            yield "a is declared dead", partial(setattr, self.a, "free", True)
        for write in self.late:
            yield f"a write given up takes effect: {write[1]}", partial(self.apply_late, write)

    def send_floor(self, process: Process) -> None:
        process.sent.append(process.floors.send(partial(self.position_of, process)))

    def position_of(self, process: Process, lane: Lane) -> int:
        lease = process.leases[lane]
        return process.position[lane] if lease.granted else lease.mark

    def lane_moves(self, process: Process, lane: Lane) -> Iterator[Move]:
        lease = process.leases.get(lane)
        if lease is None:
            yield from self.taking(process, lane)
            return
        if lease.granted:
            yield "settles a mark", partial(self.settle, process, lane)
        if lease.phase is Phase.HELD:
            if not lease.counted:
                yield "sets again", partial(self.set_lagging, process, lane)
                if process.floors.may_count(process.position[lane]):
                    yield "begins to clear", lambda: self.enter(process, lease.clear_lagging())
            else:
                yield "begins to set", partial(self.set_lagging, process, lane)
            yield "begins a release", lambda: self.enter(process, lease.drain())
            yield "suspect", lambda: self.enter(process, lease.suspect())
        elif lease.phase is Phase.DRAINING:
            yield (
                "is drained",
                lambda: self.enter(process, lease.drained(position=process.position[lane], at_most=LATER)),
            )
        elif lease.phase is Phase.DOUBTFUL:
            yield "reads", lambda: self.enter(process, lease.read(self.rows[lane]))
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

    def taking(self, process: Process, lane: Lane) -> Iterator[Move]:
        if lane not in process.reading:
            yield "reads the row", lambda: process.reading.update({lane: (self.rows[lane], None, False)})
            return
        row, floor, known = process.reading[lane]
        if not known:
            read = (row, self.floor_of(row.owner), True)
            yield "reads the floor", lambda: process.reading.update({lane: read})
        elif row.owner == process.life:
            yield "owns it unknowingly", lambda: self.enter(process, Lease.found(row, life=process.life))
        elif self.may_take(process, row):
            lease = Lease.take(row, life=process.life, start=start_of(row, owners_floor=floor))
            yield "begins a take", lambda: self.enter(process, lease)
        else:
            yield "forgets what it read", lambda: void(process.reading.pop(lane))

    def may_take(self, process: Process, row: LeaseRow) -> bool:
        owner = self.a if row.owner == self.a.life else self.b
        return row.owner is None or (owner.free and owner is not process)

    def writing(self, process: Process, lease: Lease) -> Iterator[Move]:
        lane = lease.row.lane
        assert lease.sent is not None
        if (answer := process.answers.get(lane)) is None:
            yield f"{lease.phase.value} reaches the store", partial(self.apply, process, lease)
        else:
            yield f"{lease.phase.value} is answered", lambda: self.enter(process, lease.answered(answer))
        yield f"{lease.phase.value} is given up", partial(self.give_up, process, lease, answer is None)

    def apply(self, process: Process, lease: Lease) -> None:
        assert lease.sent is not None
        process.answers[lease.row.lane] = self.write(lease.row, lease.sent)

    def give_up(self, process: Process, lease: Lease, late: bool) -> None:
        assert lease.sent is not None
        if late:
            self.late.append((lease.row, lease.sent))
        self.enter(process, lease.answered(Unknown("given up")))

    def apply_late(self, write: tuple[LeaseRow, LeaseRow]) -> None:
        self.late.remove(write)
        self.write(*write)

    def write(self, expected: LeaseRow, new: LeaseRow) -> Answer[LeaseRow | None]:
        row = self.rows[new.lane]
        if row != expected:
            return Rejected(row)
        if new.epoch > row.epoch:
            self.from_floor += new.watermark > row.watermark
        self.rows[new.lane] = new
        return APPLIED

    def settle(self, process: Process, lane: Lane) -> None:
        process.position[lane] += 1
        self.done[lane] = max(self.done[lane], process.position[lane])

    def set_lagging(self, process: Process, lane: Lane) -> None:
        self.enter(process, process.leases[lane].set_lagging(position=process.position[lane], at_most=LATER))

    def enter(self, process: Process, lease: Lease) -> None:
        lane = lease.row.lane
        before = process.leases.get(lane)
        process.answers.pop(lane, None)
        process.reading.pop(lane, None)
        if lease.granted and not (before and before.granted):
            process.position[lane] = lease.row.watermark
            self.grants += 1
            if lease.row.watermark > self.done[lane]:
                self.fail(f"{lane} starts at {lease.row.watermark}, mark {self.done[lane]} is not settled")
        if lease.counted and lane not in process.floors:
            process.floors.count(lane, position=process.position[lane])
        if lease.phase is Phase.GONE:
            del process.leases[lane]
        else:
            process.leases[lane] = lease
        if not lease.counted:
            process.floors.discount(lane)


def void(_: object) -> None: ...


@pytest.mark.parametrize("block", range(8))
def test_no_walk_leads_to_a_taker_that_starts_too_late(block: int) -> None:
    grants = from_floor = 0
    for seed in range(block * 110, block * 110 + 110):
        walk = Walk(seed)
        walk.run()
        grants += walk.grants
        from_floor += walk.from_floor
    assert grants > 100, "the walks must lead through many takes"
    assert from_floor > 0, "and through takes that start from a floor or a mark above the watermark"
