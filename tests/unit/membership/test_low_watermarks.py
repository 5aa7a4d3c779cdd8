"""The low watermark of an incarnation over the pollers that count."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from membership.identity import PollerKey
from membership.low_watermarks import LowWatermarks

A, B, C = (PollerKey("shop", number) for number in range(3))


def test_there_is_no_low_watermark_before_a_poller_counts() -> None:
    assert LowWatermarks().send({}.__getitem__) is None


def test_the_low_watermark_is_the_oldest_mark_of_the_pollers_that_count() -> None:
    low_watermarks, positions = LowWatermarks(), {A: 10, B: 12}
    low_watermarks.count(A, position=10)
    low_watermarks.count(B, position=12)
    assert low_watermarks.send(positions.__getitem__) == 10
    positions[A] = 15
    assert low_watermarks.send(positions.__getitem__) == 12


def test_a_poller_below_a_low_watermark_that_was_sent_cannot_count() -> None:
    """Sending it is enough: a heartbeat may arrive even if it was not confirmed."""
    low_watermarks = LowWatermarks()
    low_watermarks.count(A, position=10)
    assert low_watermarks.may_count(9), "nothing was sent yet"
    low_watermarks.send({A: 10}.__getitem__)
    assert not low_watermarks.may_count(9)
    assert low_watermarks.may_count(10)
    with pytest.raises(ValueError, match="was already sent"):
        low_watermarks.count(B, position=9)


def test_with_no_poller_that_counts_the_last_low_watermark_stays() -> None:
    low_watermarks = LowWatermarks()
    low_watermarks.count(A, position=10)
    low_watermarks.send({A: 10}.__getitem__)
    low_watermarks.discount(A)
    assert low_watermarks.send({}.__getitem__) == 10


def test_a_poller_that_counts_again_counts_from_where_it_is_then() -> None:
    low_watermarks = LowWatermarks()
    low_watermarks.count(A, position=10)
    low_watermarks.discount(A)
    low_watermarks.count(A, position=8)
    assert low_watermarks.send({A: 8}.__getitem__) == 8


def test_pollers_below_a_mark_are_found_and_still_count() -> None:
    low_watermarks, positions = LowWatermarks(), {A: 10, B: 12, C: 30}
    for poller, position in positions.items():
        low_watermarks.count(poller, position=position - 5)
    assert low_watermarks.below(13, positions.__getitem__) == [A, B]
    assert low_watermarks.below(10, positions.__getitem__) == []
    assert low_watermarks.send(positions.__getitem__) == 10


@given(
    st.lists(
        st.tuples(st.sampled_from(["count", "discount", "move", "send"]), st.integers(0, 5), st.integers(0, 9)),
        max_size=60,
    )
)
def test_the_low_watermark_is_what_looking_at_all_pollers_gives(steps: list[tuple[str, int, int]]) -> None:
    low_watermarks, positions, counted = (
        LowWatermarks(),
        {PollerKey("c", number): 0 for number in range(6)},
        set[PollerKey](),
    )
    for what, number, by in steps:
        poller = PollerKey("c", number)
        if what == "count" and poller not in counted and low_watermarks.may_count(positions[poller]):
            low_watermarks.count(poller, position=positions[poller])
            counted.add(poller)
        elif what == "discount":
            low_watermarks.discount(poller)
            counted.discard(poller)
        elif what == "move":
            positions[poller] += by
        elif what == "send":
            before = low_watermarks.sent
            expected = min((positions[one] for one in counted), default=before)
            assert low_watermarks.send(positions.__getitem__) == expected
            assert before is None or (expected is not None and expected >= before)


def test_a_beat_looks_at_few_of_many_pollers() -> None:
    low_watermarks, looked = LowWatermarks(), 0
    pollers = [PollerKey("c", number) for number in range(1_000)]
    for poller in pollers:
        low_watermarks.count(poller, position=7)

    def position_of(_: PollerKey) -> int:
        nonlocal looked
        looked += 1
        return 7

    for _ in range(60):
        low_watermarks.send(position_of)
    assert looked == 60
