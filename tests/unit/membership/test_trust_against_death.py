"""Random walks of one incarnation's `Trust` against one observer's `Detector`: the two never contradict each other.

The incarnation beats and renews, the observer reads and declares. Every request begins, may take effect, and may be
answered; answers are lost, requests take effect long after they were given up, and either side pauses between any two
steps while half seconds pass. The observer has no rule about gaps, which protects live incarnations and is not needed
for safety. Checked after each step: once the record says dead, the incarnation is not trusted.
"""

import random
from collections.abc import Callable, Iterator

import pytest

from membership.conditional import APPLIED, Answer, Rejected, Unknown
from membership.detector import Detector
from membership.identity import IncarnationNumber, NodeId, NodeIncarnation
from membership.ports import Heartbeat, IncarnationRecord, NodeState
from membership.trust import Trust

INCARNATION = NodeIncarnation(NodeId("a"), IncarnationNumber(1))
HALF_SECONDS = 160
RARE = {
    "read fails": 0.04,
    "read returns": 0.3,
    "record is read": 0.1,
    "beat is given up": 0.3,
    "renewal is given up": 0.3,
}
Move = tuple[str, Callable[[], None]]


class Walk:
    """The store, the incarnation, the observer, and what is under way between them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.trace: list[str] = []
        self.record = IncarnationRecord(INCARNATION, alive=True, renewals=0)
        self.stored_beat = 0
        self.trust = Trust(trust_seconds=4.0)
        self.beat = 0
        self.beat_under_way: tuple[int, float, bool] | None = None
        self.renewal_under_way: tuple[int, float, Answer[IncarnationRecord | None] | None] | None = None
        self.late: list[Callable[[], None]] = []
        self.detector = Detector(me=None, dead_after_seconds=6.0, gap_seconds=float("inf"))
        self.read_under_way: tuple[float, int | None] | None = None
        self.record_under_way: IncarnationRecord | None = None
        self.declaration: tuple[int, Answer[IncarnationRecord | None] | None] | None = None
        self.regained = 0

    def run(self) -> None:
        incarnation_busy = observer_busy = 1.0
        for _ in range(HALF_SECONDS):
            self.now += 0.5
            if self.random.random() < 0.12:
                incarnation_busy = self.random.choice((0.0, 0.15, 0.4, 1.0))
            if self.random.random() < 0.05:
                observer_busy = self.random.choice((0.3, 1.0, 1.0, 1.0))
            turns = [(self.moves_of_the_incarnation, incarnation_busy)] * 4 + [
                (self.moves_of_the_observer, observer_busy)
            ] * 8
            self.random.shuffle(turns)
            for moves, busy in turns:
                if self.random.random() < busy:
                    self.step(list(moves()))
            if self.late and self.random.random() < 0.2:
                self.step([("a request given up takes effect", self.late.pop(self.random.randrange(len(self.late))))])

    def step(self, moves: list[Move]) -> None:
        if not moves:
            return
        label, move = self.random.choices(moves, [RARE.get(label, 1.0) for label, _ in moves])[0]
        self.trace.append(f"{self.now:5.1f} {label}")
        move()
        if not self.record.alive and self.trust.trusted(self.now):
            pytest.fail("declared dead under trust:\n" + "\n".join(self.trace[-80:]))

    def moves_of_the_incarnation(self) -> Iterator[Move]:
        if self.trust.over:
            return
        if self.beat_under_way is None:
            yield "begin beat", self.begin_beat
        else:
            number, _, applied = self.beat_under_way
            if not applied:
                yield "beat takes effect", self.apply_beat
            else:
                yield "beat is confirmed", self.confirm_beat
            yield "beat is given up", lambda: self.give_up_beat(number, applied)
        if self.renewal_under_way is None:
            if self.trust.renewals is None:
                yield "read own record", lambda: self.trust.record_read(self.record)
            elif not self.trust.trusted(self.now):
                yield "begin renewal", self.begin_renewal
        else:
            value, _, answer = self.renewal_under_way
            if answer is None:
                yield "renewal reaches the store", self.apply_renewal
            else:
                yield "renewal is answered", lambda: self.answer_renewal(answer)
            yield "renewal is given up", lambda: self.give_up_renewal(value, answer)

    def begin_beat(self) -> None:
        self.beat += 1
        self.beat_under_way = self.beat, self.now, False

    def apply_beat(self) -> None:
        assert self.beat_under_way is not None
        number, begun, _ = self.beat_under_way
        self.stored_beat = max(self.stored_beat, number)
        self.beat_under_way = number, begun, True

    def confirm_beat(self) -> None:
        assert self.beat_under_way is not None
        self.trust.beat_confirmed(begun=self.beat_under_way[1], now=self.now)
        self.beat_under_way = None

    def give_up_beat(self, number: int, applied: bool) -> None:
        self.beat_under_way = None
        if not applied:
            self.late.append(lambda: setattr(self, "stored_beat", max(self.stored_beat, number)))

    def begin_renewal(self) -> None:
        assert self.trust.renewals is not None
        self.renewal_under_way = self.trust.renewals, self.now, None

    def apply_renewal(self) -> None:
        assert self.renewal_under_way is not None
        value, begun, _ = self.renewal_under_way
        self.renewal_under_way = (
            value,
            begun,
            self.change(value, IncarnationRecord(INCARNATION, alive=True, renewals=value + 1)),
        )

    def answer_renewal(self, answer: Answer[IncarnationRecord | None]) -> None:
        assert self.renewal_under_way is not None
        was_trusted = self.trust.trusted(self.now)
        self.trust.renewal_answered(answer, begun=self.renewal_under_way[1])
        self.renewal_under_way = None
        self.regained += not was_trusted and self.trust.trusted(self.now)

    def give_up_renewal(self, value: int, answer: Answer[IncarnationRecord | None] | None) -> None:
        assert self.renewal_under_way is not None
        self.trust.renewal_answered(Unknown("given up"), begun=self.renewal_under_way[1])
        self.renewal_under_way = None
        if answer is None:
            self.late.append(
                lambda: void(self.change(value, IncarnationRecord(INCARNATION, alive=True, renewals=value + 1)))
            )

    def moves_of_the_observer(self) -> Iterator[Move]:
        if self.read_under_way is None:
            yield "observer begins a read", self.begin_read
        else:
            begun, seen = self.read_under_way
            if seen is None:
                yield "read reaches the store", self.look
            else:
                yield "read returns", lambda: self.end_read(begun, seen)
            yield "read fails", lambda: setattr(self, "read_under_way", None)
        if self.record_under_way is not None:
            yield "record arrives", self.read_record
        elif self.detector.is_member(INCARNATION) or INCARNATION in self.detector.to_read(older_than=0.0):
            yield "record is read", lambda: setattr(self, "record_under_way", self.record)
        if self.declaration is None:
            for _, renewals in self.detector.to_declare():
                yield "declare dead", lambda renewals=renewals: setattr(self, "declaration", (renewals, None))
        else:
            value, answer = self.declaration
            if answer is None:
                yield "declaration reaches the store", lambda: self.apply_declaration(value)
            else:
                yield "declaration is answered", lambda: self.end_declaration(answer)
            yield "declaration is given up", lambda: self.give_up_declaration(value, answer)

    def begin_read(self) -> None:
        self.read_under_way = self.now, None

    def look(self) -> None:
        assert self.read_under_way is not None
        self.read_under_way = self.read_under_way[0], self.stored_beat

    def end_read(self, begun: float, seen: int) -> None:
        beats = [heartbeat(seen)] if seen else []
        self.detector.observed(begun=begun, returned=self.now, heartbeats=beats)
        self.read_under_way = None

    def read_record(self) -> None:
        self.detector.record_read(INCARNATION, self.record_under_way, returned=self.now)
        self.record_under_way = None

    def apply_declaration(self, value: int) -> None:
        self.declaration = value, self.change(value, IncarnationRecord(INCARNATION, alive=False, renewals=value))

    def end_declaration(self, answer: Answer[IncarnationRecord | None]) -> None:
        self.detector.declared(INCARNATION, answer, returned=self.now)
        self.declaration = None

    def give_up_declaration(self, value: int, answer: Answer[IncarnationRecord | None] | None) -> None:
        self.end_declaration(Unknown("given up"))
        if answer is None:
            self.late.append(
                lambda: void(self.change(value, IncarnationRecord(INCARNATION, alive=False, renewals=value)))
            )

    def change(self, renewals: int, new: IncarnationRecord) -> Answer[IncarnationRecord | None]:
        if self.record != IncarnationRecord(INCARNATION, alive=True, renewals=renewals):
            return Rejected(self.record)
        self.record = new
        return APPLIED


def heartbeat(beat: int) -> Heartbeat:
    return Heartbeat(
        incarnation=INCARNATION, beat=beat, state=NodeState.LIVE, address="", wall_ms=0, version="", low_watermark=None
    )


def void(_: object) -> None: ...


@pytest.mark.parametrize("block", range(8))
def test_no_walk_ends_with_an_incarnation_that_is_dead_and_trusted(block: int) -> None:
    deaths = regained = 0
    for seed in range(block * 50, block * 50 + 50):
        walk = Walk(seed)
        walk.run()
        deaths += not walk.record.alive
        regained += walk.regained
    assert deaths > 5, "the walks must lead to deaths"
    assert regained > 60, "the walks must lead through regained trust"
