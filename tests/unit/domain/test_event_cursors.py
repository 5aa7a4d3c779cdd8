"""Cursors of feeds: what is encoded step by step is what is encoded at once, and comes back."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.domain.event_cursors import FeedCursor, MovingCursor, decode_feed_cursor, encode_feed_cursor
from scheduler_service.domain.events import Position, track_of, track_of_built_in
from scheduler_service.domain.ids import ClientId, Minute, PollerId

POLLERS = st.integers(0, 9_999).map(PollerId)
TRACKS = POLLERS.map(track_of) | POLLERS.map(lambda poller: track_of_built_in(ClientId("$events"), poller))
POSITIONS = st.builds(Position, st.integers(0, 2**40), st.integers(0, 2**31 - 1), st.integers(-1, 2**31 - 2))


@given(
    begun=st.dictionaries(TRACKS, POSITIONS, max_size=20),
    moves=st.lists(st.tuples(TRACKS, POSITIONS), max_size=20),
    made_in=st.integers(0, 2**31).map(Minute),
)
def test_a_moving_cursor_has_the_text_of_the_whole_one(
    begun: dict[str, Position], moves: list[tuple[str, Position]], made_in: Minute
) -> None:
    moving, positions = MovingCursor(FeedCursor(made_in, begun)), dict(begun)
    for track, position in moves:
        moving.move(track, position)
        positions[track] = position
        whole = FeedCursor(made_in, positions)
        assert moving.text().decode() == encode_feed_cursor(whole)
        assert decode_feed_cursor(moving.text().decode()) == whole
