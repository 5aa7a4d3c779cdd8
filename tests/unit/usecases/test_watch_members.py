"""A process that is no member reads heartbeats: who is live, whom to notify, whose clock is wrong."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from membership.errors import StoreUnavailable
from membership.identity import IncarnationNumber, NodeId, NodeIncarnation
from membership.ports import Heartbeat, IncarnationRecord, NodeState
from membership.settings import MembershipSettings
from scheduler_service.usecases.members import SHOWN_ENDED_MS, Member, MembersSeen, MemberState, WatchMembers
from tests.support.membership_store import MembershipStore, StorePort
from tests.support.virtual_clock import EPOCH_MS, VirtualClock
from tests.support.virtual_loop import run_virtual, virtual_loop

NOW_MS = 1_800_000_000_000


def incarnation(name: str, incarnation: int = 1) -> NodeIncarnation:
    return NodeIncarnation(NodeId(name), IncarnationNumber(incarnation))


def heartbeat(of: NodeIncarnation, beat: int, **other: Any) -> Heartbeat:
    values: dict[str, Any] = {
        "state": NodeState.LIVE,
        "address": f"{of.node_id}:{of.number}",
        "wall_ms": NOW_MS,
        "version": "1",
        "low_watermark": None,
    }
    return Heartbeat(incarnation=of, beat=beat, **{**values, **other})


class Watched:
    """`MembersSeen` whose observer reads once a second; fields that a test does not give stay as they were."""

    def __init__(self) -> None:
        self.seen = MembersSeen(MembershipSettings())
        self.at = 0.0

    def read(self, *heartbeats: Heartbeat, after: float = 1.0, own_offset_ms: int = 0) -> None:
        self.at += after
        self.seen.observed(heartbeats, wall_ms=NOW_MS + round(self.at * 1_000) + own_offset_ms, monotonic=self.at)

    def members(self, *, later: float = 0.0) -> dict[NodeIncarnation, Member]:
        found = self.seen.members(wall_ms=NOW_MS + round(self.at * 1_000), monotonic=self.at + later)
        return {member.incarnation: member for member in found}

    def states(self) -> dict[NodeIncarnation, MemberState]:
        return {of: member.state for of, member in self.members().items()}


def test_the_age_of_a_beat_is_since_it_was_seen_to_advance() -> None:
    watched = Watched()
    watched.read(heartbeat(incarnation("a"), 7))
    assert watched.members()[incarnation("a")].beat_age_seconds is None, "it may be of any age"
    watched.read(heartbeat(incarnation("a"), 8))
    assert watched.members(later=0.25)[incarnation("a")].beat_age_seconds == 0.25
    for _ in range(20):
        watched.read(heartbeat(incarnation("a"), 8))
    assert watched.members()[incarnation("a")].beat_age_seconds == 20.0
    assert watched.states() == {incarnation("a"): MemberState.LIVE}, "silent is not dead"


def test_death_is_what_the_record_says() -> None:
    watched = Watched()
    watched.read(heartbeat(incarnation("a"), 1), heartbeat(incarnation("b"), 1))
    assert watched.seen.to_ask() == [incarnation("a"), incarnation("b")], "neither was seen to advance"
    for of in (incarnation("a"), incarnation("b")):
        watched.seen.record_read(of, IncarnationRecord(of, alive=True, renewals=1), asked_at=watched.at)
    for beat in range(2, 7):
        watched.read(heartbeat(incarnation("a"), beat), heartbeat(incarnation("b"), 1))
        asked = watched.seen.to_ask()
        assert asked in ([], [incarnation("b")])
    assert asked == [incarnation("b")]
    watched.seen.record_read(
        incarnation("b"), IncarnationRecord(incarnation("b"), alive=False, renewals=1), asked_at=watched.at
    )
    assert watched.states() == {incarnation("a"): MemberState.LIVE, incarnation("b"): MemberState.DEAD}
    for beat in range(7, 20):
        watched.read(heartbeat(incarnation("a"), beat), heartbeat(incarnation("b"), 1))
        assert watched.seen.to_ask() == [], "that is final"
    assert set(watched.seen.targets.addresses) == {"a"}


def test_an_incarnation_without_a_record_and_one_that_could_not_be_asked_about() -> None:
    watched = Watched()
    watched.read(heartbeat(incarnation("a"), 1), heartbeat(incarnation("b"), 1))
    watched.seen.record_read(incarnation("a"), None, asked_at=watched.at)
    watched.seen.record_unread(incarnation("b"), asked_at=watched.at)
    assert watched.seen.to_ask() == []
    assert watched.states() == {incarnation("a"): MemberState.DEAD, incarnation("b"): MemberState.LIVE}
    watched.read(heartbeat(incarnation("a"), 1), heartbeat(incarnation("b"), 1), after=3.0)
    assert watched.seen.to_ask() == [incarnation("b")]


def test_the_newest_and_every_unfinished_incarnation_is_shown() -> None:
    left = heartbeat(incarnation("a", 1), 9, state=NodeState.LEFT)
    draining = heartbeat(incarnation("a", 2), 5, state=NodeState.DRAINING)
    watched = Watched()
    watched.read(left, draining, heartbeat(incarnation("a", 3), 1))
    assert watched.states() == {incarnation("a", 2): MemberState.DRAINING, incarnation("a", 3): MemberState.LIVE}
    watched.read(left, heartbeat(incarnation("a", 2), 6, state=NodeState.LEFT))
    assert watched.states() == {incarnation("a", 2): MemberState.LEFT}
    watched.at += SHOWN_ENDED_MS / 1_000
    watched.read(left, heartbeat(incarnation("a", 2), 6, state=NodeState.LEFT))
    assert watched.states() == {}


def test_hints_go_to_live_nodes_that_beat() -> None:
    watched = Watched()
    rows = [
        heartbeat(incarnation("a"), 1),
        heartbeat(incarnation("b"), 1, state=NodeState.DRAINING),
        heartbeat(incarnation("c"), 1),
    ]
    watched.read(*rows)
    assert dict(watched.seen.targets.addresses) == {"a": "a:1", "c": "c:1"}, "until any was seen to beat"
    watched.read(heartbeat(incarnation("a"), 2, weight=2.5), *rows[1:])
    assert dict(watched.seen.targets.weights) == {"a": 2.5}
    same = watched.seen.targets
    watched.read(heartbeat(incarnation("a"), 3, weight=2.5), *rows[1:])
    assert watched.seen.targets is same
    for _ in range(8):
        watched.read(heartbeat(incarnation("a"), 3, weight=2.5), heartbeat(incarnation("c"), 2), rows[1])
    assert dict(watched.seen.targets.weights) == {}, "both have been silent for too long"
    assert watched.seen.alone


def test_a_new_node_is_notified_before_it_beats_but_not_for_long() -> None:
    watched = Watched()
    watched.read(heartbeat(incarnation("a"), 1))
    for beat in range(2, 4):
        watched.read(heartbeat(incarnation("a"), beat))
    for beat in range(4, 11):
        watched.read(heartbeat(incarnation("a"), beat), heartbeat(incarnation("b"), 1))
        assert set(watched.seen.targets.addresses) == {"a", "b"}, "members give it pollers as soon as they see it"
    watched.read(heartbeat(incarnation("a"), 11), heartbeat(incarnation("b"), 1))
    assert set(watched.seen.targets.addresses) == {"a"}


def test_an_older_incarnation_of_a_node_is_not_notified() -> None:
    watched = Watched()
    watched.read(heartbeat(incarnation("a", 1), 1), heartbeat(incarnation("a", 2), 1))
    watched.read(heartbeat(incarnation("a", 1), 2), heartbeat(incarnation("a", 2), 2))
    assert dict(watched.seen.targets.addresses) == {"a": "a:2"}


def test_a_program_of_before_is_one_that_does_not_tell_its_machines_clock() -> None:
    watched = Watched()
    watched.read(heartbeat(incarnation("a"), 1, system_ms=1), heartbeat(incarnation("b"), 1))
    assert watched.seen.older_programs
    watched.read(heartbeat(incarnation("a"), 2, system_ms=1), heartbeat(incarnation("b"), 1, state=NodeState.LEFT))
    assert not watched.seen.older_programs


def test_what_all_know_is_what_every_incarnation_that_has_not_ended_tells() -> None:
    watched = Watched()
    assert watched.seen.knows == 0
    watched.read()
    assert watched.seen.knows == 0, "there are none"
    watched.read(heartbeat(incarnation("a"), 1, knows=15), heartbeat(incarnation("b"), 1, knows=14))
    assert watched.seen.knows == 14
    watched.read(
        heartbeat(incarnation("a"), 2, knows=15), heartbeat(incarnation("b"), 1, knows=14, state=NodeState.LEFT)
    )
    assert watched.seen.knows == 15
    watched.read(heartbeat(incarnation("a"), 3, knows=15), heartbeat(incarnation("c"), 1))
    assert watched.seen.knows == 0, "nor does who does not tell"
    watched.seen.record_read(incarnation("c"), None, asked_at=0.0)
    watched.read(heartbeat(incarnation("a"), 4, knows=15), heartbeat(incarnation("c"), 1))
    assert watched.seen.knows == 15, "it is dead"


def test_a_time_without_reads_makes_no_incarnation_silent() -> None:
    watched = Watched()
    watched.read(heartbeat(incarnation("a"), 1))
    watched.read(heartbeat(incarnation("a"), 2))
    watched.read(heartbeat(incarnation("a"), 2), after=30.0)
    assert set(watched.seen.targets.addresses) == {"a"}
    assert not watched.seen.alone
    assert watched.members()[incarnation("a")].beat_age_seconds == 30.0, "its age is told as it is"


def beat_all(watched: Watched, count: int, offsets_ms: dict[str, int], *, own_offset_ms: int = 0) -> None:
    """`count` reads, a second apart, each of rows written 40 ms before by clocks with these errors."""
    for _ in range(count):
        beat = round(watched.at) + 1
        written = NOW_MS + round((watched.at + 1.0) * 1_000) - 40
        rows = [heartbeat(incarnation(name), beat, wall_ms=written + offset) for name, offset in offsets_ms.items()]
        watched.read(*rows, own_offset_ms=own_offset_ms)


def test_ones_own_clock_against_the_median_of_the_members() -> None:
    watched = Watched()
    beat_all(watched, 30, {"a": 0, "b": -300, "c": 100}, own_offset_ms=500)
    assert watched.seen.offset_ms is None, "not before thirty beats were seen to advance"
    beat_all(watched, 1, {"a": 0, "b": -300, "c": 100}, own_offset_ms=500)
    assert watched.seen.offset_ms == 540, "what a write and a read take counts as being ahead"
    offsets = {of.node_id: member.offset_ms for of, member in watched.members().items()}
    assert offsets == {"a": 0, "b": -300, "c": 100}


def test_a_node_that_joins_does_not_make_it_unknown() -> None:
    watched = Watched()
    beat_all(watched, 31, {"a": 0}, own_offset_ms=-700)
    beat_all(watched, 5, {"a": 0, "b": 0}, own_offset_ms=-700)
    assert watched.seen.offset_ms == -660
    assert watched.members()[incarnation("b")].offset_ms is None


def test_an_offset_beyond_doubt_is_known_after_few_beats() -> None:
    watched = Watched()
    beat_all(watched, 4, {"a": 0}, own_offset_ms=60_000)
    assert watched.seen.offset_ms == 60_040


def test_clocks_of_those_that_ended_do_not_count() -> None:
    watched = Watched()
    beat_all(watched, 31, {"a": 0, "b": 900, "c": 900})
    assert watched.seen.offset_ms == -860
    for of in (incarnation("b"), incarnation("c")):
        watched.seen.record_read(of, IncarnationRecord(of, alive=False, renewals=1), asked_at=watched.at)
    beat_all(watched, 1, {"a": 0})
    assert watched.seen.offset_ms == 40


def test_after_a_beat_of_each_ones_own_clock_is_known_well_enough_for_creates() -> None:
    watched = Watched()
    beat_all(watched, 1, {"a": 0, "b": -300, "c": 100}, own_offset_ms=-3_600_000)
    assert watched.seen.first_offset_ms is None, "what was there before may be of any age"
    assert watched.seen.comparing
    beat_all(watched, 1, {"a": 0, "b": -300, "c": 100}, own_offset_ms=-3_600_000)
    assert watched.seen.first_offset_ms == -3_599_960
    beat_all(watched, 2, {"a": 0, "b": -300, "c": 100}, own_offset_ms=-3_600_000)
    assert not watched.seen.comparing


def test_who_does_not_beat_is_waited_for_no_longer_than_a_beat_and_a_half() -> None:
    watched = Watched()
    silent, known = heartbeat(incarnation("silent"), 5), []
    for beat in range(20):
        written = NOW_MS + round(watched.at * 1_000)
        watched.read(silent, heartbeat(incarnation("a"), beat, wall_ms=written), after=0.1)
        known.append(watched.seen.first_offset_ms)
    assert known[:15] == [None] * 15
    assert known[15:] == [100] * 5


def test_an_observer_alone_knows_nothing_and_does_not_hurry() -> None:
    watched = Watched()
    for _ in range(5):
        watched.read(heartbeat(incarnation("gone"), 5), heartbeat(incarnation("left"), 9, state=NodeState.LEFT))
    assert watched.seen.first_offset_ms is None
    assert watched.seen.alone
    assert not watched.seen.comparing


def test_what_was_known_stays_while_no_member_beats_until_the_clock_is_set() -> None:
    watched = Watched()
    beat_all(watched, 31, {"a": 0}, own_offset_ms=400)
    for _ in range(60):
        watched.read(heartbeat(incarnation("a"), 31), own_offset_ms=400)
    assert watched.seen.alone
    assert watched.seen.offset_ms is None
    assert watched.seen.first_offset_ms == 440
    watched.read(heartbeat(incarnation("a"), 31), own_offset_ms=-3_600_000)
    assert watched.seen.first_offset_ms is None
    beat_all(watched, 2, {"b": 0}, own_offset_ms=-3_600_000)
    assert watched.seen.first_offset_ms == -3_599_960


# The shell.


class Members:
    """A store in which nodes beat, and a process that watches them."""

    def __init__(self, *names: str, port: type[StorePort] = StorePort) -> None:
        self.store = MembershipStore()
        self.clock = VirtualClock()
        self.port = port(self.store, self.clock)
        self.names = dict.fromkeys(names, 0)
        self.crashes: list[BaseException] = []
        self.watch = WatchMembers(
            store=self.port,
            clock=self.clock,  # type: ignore[arg-type]
            settings=MembershipSettings(),
            on_crash=lambda name, error: self.crashes.append(error),
        )

    async def beat(self, seconds: int) -> None:
        for _ in range(seconds):
            for name, offset_ms in self.names.items():
                at = EPOCH_MS + round(virtual_loop().time() * 1_000)
                old = self.store.heartbeats.get(incarnation(name))
                row = heartbeat(incarnation(name), 1 if old is None else old.beat + 1, wall_ms=at + offset_ms)
                self.store.heartbeats[incarnation(name)] = row
                self.store.incarnations.setdefault(
                    incarnation(name), IncarnationRecord(incarnation(name), alive=True, renewals=1)
                )
            await virtual_loop().advance(1.0)

    def states(self) -> dict[str, str]:
        return {member.incarnation.node_id: str(member.state) for member in self.watch.members()}


def test_it_reads_once_a_second_and_checks_silent_incarnations() -> None:
    async def scenario() -> None:
        members = Members("a", "b")
        await members.beat(1)
        await members.watch.start()
        assert members.states() == {"a": "live", "b": "live"}, "there is a picture from the start"
        await members.beat(3)
        members.store.requests.clear()
        await members.beat(20)
        assert 19 <= members.store.requests["read_heartbeats"] <= 22
        assert 9 <= members.store.requests["read_server_clock"] <= 11
        assert set(members.store.requests) == {"read_heartbeats", "read_server_clock"}
        del members.names["b"]
        await members.beat(4)
        members.store.incarnations[incarnation("b")] = IncarnationRecord(incarnation("b"), alive=False, renewals=1)
        await members.beat(4)
        assert members.states() == {"a": "live", "b": "dead"}
        asked = members.store.requests["read_incarnation"]
        await members.beat(10)
        assert members.store.requests["read_incarnation"] == asked
        await members.watch.stop()
        assert members.crashes == []

    run_virtual(scenario)


def test_the_clock_is_compared_within_two_seconds_of_the_start() -> None:
    async def scenario() -> None:
        members = Members("a", "b")
        members.clock.skew_ms = -3_600_000
        await members.beat(1)
        await members.watch.start()
        assert members.watch.first_offset_ms is None
        await members.beat(2)
        assert members.watch.first_offset_ms is not None
        assert -3_600_000 <= members.watch.first_offset_ms < -3_599_800
        await members.watch.stop()

    run_virtual(scenario)


@pytest.mark.parametrize(
    ("ahead", "servers", "expected"),
    [
        ({"a": 0}, [0], 600_000),
        ({"a": 600_000}, [0], 600_000),
        ({"a": 600_000}, [600_000], 0),
        ({"a": 600_000, "b": 600_000}, [0], 0),
        ({"a": 600_000, "b": 600_000}, [0, 0], 600_000),
        ({"a": 600_000}, [0, 0, 600_000], 600_000),
    ],
)
def test_a_clock_that_members_agree_with_is_compared_with_the_servers_too(
    ahead: dict[str, int], servers: list[int], expected: int
) -> None:
    """This process's host is 600 s ahead: the members on it agree with it."""

    async def scenario() -> None:
        members = Members(*ahead)
        members.names, members.store.server_skews_ms = ahead, servers
        members.clock.skew_ms = 600_000
        await members.watch.start()
        await members.beat(6)
        assert members.watch.first_offset_ms is not None
        assert abs(members.watch.first_offset_ms - expected) < 2_000
        await members.beat(31)
        assert members.watch.offset_ms is not None
        assert abs(members.watch.offset_ms - expected) < 2_000
        await members.watch.stop()

    run_virtual(scenario)


def test_while_storage_is_away_the_picture_stays_and_ages() -> None:
    async def scenario() -> None:
        members = Members("a")
        members.port.away = True
        await members.watch.start()
        with pytest.raises(StoreUnavailable):
            await members.watch.known()
        members.port.away = False
        await members.watch.known()
        await members.beat(5)
        assert members.states() == {"a": "live"}
        members.port.away = True
        await members.beat(30)
        (member,) = members.watch.members()
        assert member.beat_age_seconds is not None
        assert 29 < member.beat_age_seconds < 32
        assert set(members.watch.targets.addresses) == {"a"}
        members.port.away = False
        await members.beat(2)
        (member,) = members.watch.members()
        assert member.beat_age_seconds is not None
        assert member.beat_age_seconds < 2
        await members.watch.stop()
        await members.watch.stop()
        assert members.crashes == []

    run_virtual(scenario)


def test_a_record_that_does_not_come_holds_up_no_read() -> None:
    class SlowRecords(StorePort):
        stuck: asyncio.Event

        async def read_incarnation(self, incarnation: NodeIncarnation) -> IncarnationRecord | None:
            await self.stuck.wait()
            return await super().read_incarnation(incarnation)

    async def scenario() -> None:
        stuck = SlowRecords.stuck = asyncio.Event()
        members = Members("a", port=SlowRecords)
        members.store.heartbeats[incarnation("old")] = heartbeat(incarnation("old"), 1)
        await members.watch.start()
        await members.beat(10)
        assert members.store.requests["read_heartbeats"] >= 10
        stuck.set()
        await members.beat(1)
        assert members.states()["old"] == "dead"
        await members.watch.stop()

    run_virtual(scenario)


def test_an_offset_over_250_ms_is_logged_once() -> None:
    async def scenario() -> None:
        members = Members("a")
        await members.watch.start()
        with capture_logs() as said:
            await members.beat(60)
            assert said == []
            members.clock.skew_ms = 400
            await members.beat(60)
            members.clock.skew_ms = 0
            await members.beat(60)
        await members.watch.stop()
        assert [(line["event"], line["log_level"]) for line in said] == [
            ("clock-off", "warning"),
            ("clock-agrees", "warning"),
        ]
        assert 390 < said[0]["offset_ms"] < 500

    run_virtual(scenario)
