"""A process compares its wall clock with the members' median, from heartbeats alone."""

import pytest

from membership.clocks import ClockOffsets, Witness
from membership.identity import IncarnationNumber, NodeId, NodeIncarnation
from membership.ports import Heartbeat, NodeState

ME, A, B, C = (NodeIncarnation(NodeId(name), IncarnationNumber(1)) for name in ("me", "a", "b", "c"))
AGE_MS = 400


def heartbeat(incarnation: NodeIncarnation, beat: int, wall_ms: int) -> Heartbeat:
    return Heartbeat(
        incarnation=incarnation,
        beat=beat,
        state=NodeState.LIVE,
        address="",
        wall_ms=wall_ms,
        version="",
        low_watermark=None,
    )


class Reading:
    """Reads a second apart of rows that are `AGE_MS` old, where each clock is so far from the truth."""

    def __init__(self, **ahead_ms: int) -> None:
        self.offsets = ClockOffsets(window_beats=30, beat_seconds=1.0)
        self.ahead = {NodeIncarnation(NodeId(name), IncarnationNumber(1)): ahead for name, ahead in ahead_ms.items()}
        self.second = 0

    def read(self, times: int, *, skip: float = 0.0) -> None:
        for _ in range(times):
            self.second += 1
            at = self.second + skip
            rows = [
                heartbeat(incarnation, self.second, int(at * 1000) + ahead - AGE_MS)
                for incarnation, ahead in self.ahead.items()
            ]
            self.offsets.observed(rows, wall_ms=int(at * 1000) + self.ahead[ME], monotonic=at)

    @property
    def ahead_at_most(self) -> int | None:
        return self.offsets.ahead_at_most_ms(ME, list(self.ahead))

    def against(self, servers: list[int]) -> int | None:
        return self.offsets.offset_ms(ME, list(self.ahead), servers=servers)

    @property
    def offset(self) -> int | None:
        return self.offsets.offset_ms(ME, list(self.ahead))


@pytest.mark.parametrize(
    ("clocks", "expected"),
    [
        ({"me": 0, "a": 0, "b": 0}, 0),
        ({"me": 500, "a": 0, "b": 0}, 500),
        ({"me": -500, "a": 0, "b": 0}, -500),
        ({"me": 0, "a": 900, "b": 0}, 0),
        ({"me": 100, "a": 200, "b": 300}, -100),
        ({"me": 700}, 0),
        ({"me": 700, "a": 0}, 700),
        ({"me": 0, "a": 700}, 0),
    ],
)
def test_the_offset_is_against_the_median_and_of_two_the_earlier_is_right(
    clocks: dict[str, int], expected: int
) -> None:
    reading = Reading(**clocks)
    reading.read(31)
    assert reading.offset == expected


def test_it_is_unknown_until_enough_beats_were_seen() -> None:
    reading = Reading(me=500, a=0)
    reading.read(30)
    assert reading.offset is None
    reading.read(1)
    assert reading.offset == 500


def test_what_is_beyond_doubt_is_known_after_few_beats() -> None:
    reading = Reading(me=3_600_000, a=0)
    reading.read(3)
    assert reading.offset is None
    reading.read(1)
    assert reading.offset == 3_600_000


def test_a_row_seen_for_the_first_time_or_after_a_pause_is_no_sample() -> None:
    """It may be of any age; if counted as fresh, it would make all others look hours ahead."""
    reading = Reading(me=0, a=0)
    reading.read(40)
    reading.offsets.observed([heartbeat(B, 7, -3_600_000)], wall_ms=40_100, monotonic=40.1)
    assert reading.offsets.offset_ms(ME, [ME, A, B]) == 0
    reading.read(40, skip=9_000.0)
    assert reading.offset == 0


def test_a_step_of_ones_own_clock_begins_again() -> None:
    reading = Reading(me=0, a=0)
    reading.read(40)
    reading.ahead[ME] = 400
    reading.read(1)
    assert reading.offset is None
    reading.read(30)
    assert reading.offset == 400


def test_who_is_no_member_is_not_asked() -> None:
    reading = Reading(me=0, a=0, b=900, c=900)
    reading.read(40)
    assert reading.offsets.offset_ms(ME, [ME, A]) == 0
    assert reading.offsets.offset_ms(ME, [ME, B, C]) == -900
    assert reading.offsets.offset_ms(C, [ME, A]) is None


@pytest.mark.parametrize(
    ("clocks", "bound"),
    [
        ({"me": 0, "a": 0, "b": 0}, AGE_MS),
        ({"me": 500, "a": 0, "b": 0}, 500 + AGE_MS),
        ({"me": -2_000, "a": 0, "b": 0}, 0),
        ({"me": 500, "a": 0}, 500 + AGE_MS),
        ({"me": 500, "a": 500 + 2 * AGE_MS, "b": 0}, 0),
        ({"me": 500}, 0),
    ],
)
def test_no_clock_is_further_ahead_than_the_first_beats_allow(clocks: dict[str, int], bound: int) -> None:
    reading = Reading(**clocks)
    assert reading.ahead_at_most == (None if len(clocks) > 1 else 0)
    reading.read(2)
    assert reading.ahead_at_most == bound
    assert reading.offset == (None if len(clocks) > 1 else 0)


def test_few_beats_of_one_member_count_as_few() -> None:
    reading = Reading(me=0, a=0)
    members = list(reading.ahead)
    for _ in range(4):
        assert reading.offsets.few_of(members)
        reading.read(1)
    assert not reading.offsets.few_of(members)
    assert reading.offsets.few_of([*members, B])


def test_witnesses_are_the_others_with_their_distance_and_step() -> None:
    reading = Reading(me=500, a=0, b=-300)
    reading.read(3)
    assert reading.offsets.witnesses(list(reading.ahead), me=ME) == ()
    reading.read(1)
    assert reading.offsets.witnesses(list(reading.ahead), me=ME) == (Witness(A, 4, 500, 0), Witness(B, 4, 800, 0))
    assert reading.offsets.witnesses([A], me=None) == (Witness(A, 4, 500 + AGE_MS, 0),)


def test_a_clock_whose_writer_accepted_a_step_is_compared_again() -> None:
    """When that clock is set back, its old samples would be the smallest differences for as long as they are kept."""
    reading = Reading(me=0, a=0, b=0)
    reading.read(40)
    reading.ahead[A] = reading.ahead[B] = 600_000
    reading.read(35)
    assert reading.offset == -600_000
    reading.ahead[A] = reading.ahead[B] = 0
    reading.read(1)
    assert reading.offset is None
    reading.read(30)
    assert reading.offset == 0


@pytest.mark.parametrize(
    ("clocks", "servers", "expected"),
    [
        ({"me": 0}, [4_900], 0),
        ({"me": 0}, [5_000], 5_000),
        ({"me": 0}, [-600_000], 0),
        ({"me": 0}, [600_000, 0, 0], 0),
        ({"me": 0}, [-600_000, -600_000, 0], 0),
        ({"me": 0}, [-600_000] * 3, -600_000),
        ({"me": 0, "a": 0}, [600_000], 0),
        ({"me": 300, "a": 0, "b": 0}, [600_000], 300),
        ({"me": 300, "a": 0, "b": 0}, [4_000] * 5, 300),
        ({"me": 0, "a": 600_000}, [0], 0),
        ({"me": 600_000, "a": 0}, [600_000], 600_000),
        ({"me": 300, "a": 0, "b": 600_000, "c": 600_000}, [300, 300], 300),
        ({"me": 600_000, "a": 0, "b": 600_000}, [600_000] * 3, 600_000),
    ],
)
def test_servers_have_a_say_where_clocks_are_seconds_apart(
    clocks: dict[str, int], servers: list[int], expected: int
) -> None:
    """Otherwise members alone decide, and among them those with which most of all clocks agree."""
    reading = Reading(**clocks)
    reading.read(31)
    assert abs((reading.against(servers) or 0) - expected) <= AGE_MS


def test_servers_have_a_say_before_any_beat() -> None:
    reading = Reading(me=0, a=0)
    assert reading.against([600_000]) == 600_000
    reading.read(4)
    assert reading.against([600_000]) is None


def test_a_clock_that_is_apart_stays_so_until_it_is_well_within() -> None:
    reading = Reading(me=0)
    apart = [reading.against([ahead]) for ahead in (4_999, 5_001, 4_999, 2_501, 2_499, 4_999)]
    assert apart == [0, 5_001, 4_999, 2_501, 0, 0]


def test_the_first_bound_is_that_of_members_not_contradicted_by_servers() -> None:
    reading = Reading(me=500, a=-600_000, b=-600_000)
    reading.read(2)
    assert reading.ahead_at_most == 600_500 + AGE_MS
    members = list(reading.ahead)
    assert reading.offsets.ahead_at_most_ms(ME, members, servers=[0]) == 0


def test_a_process_that_is_no_member_does_not_count_its_own_clock() -> None:
    reading = Reading(me=600_000, a=0)
    reading.read(4)
    assert reading.offsets.apart_ms([A], me=None, servers=[0]) == 600_000 + AGE_MS
    assert reading.offsets.apart_ms([A], me=None, servers=[600_000]) == 600_000 + AGE_MS
    assert reading.offsets.apart_ms([A], me=None, servers=[]) is None
