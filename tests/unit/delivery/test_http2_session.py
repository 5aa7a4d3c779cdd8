"""HTTP/2 sessions over bytes, against receivers that keep to the protocol and receivers that do not."""

import pytest
from hpack import Decoder

from poller_cluster.delivery.http2.session import MOST_STREAMS, Session
from tests.support import http2_frames as h2
from tests.support.http2_frames import Frame, data, frame, frames_of, goaway, head, settings
from tests.support.http2_sessions import BLOCK, NO_TABLE, begun, session, stream, taken


class TestRequests:
    def test_a_head_and_a_body(self) -> None:
        to = session()
        one = begun(to, b"{}")
        assert list(frames_of(to.take())) == [
            Frame(h2.HEADERS, h2.END_HEADERS, 1, NO_TABLE + BLOCK),
            Frame(h2.DATA, h2.END_STREAM, 1, b"{}"),
        ]
        two = begun(to)
        assert list(frames_of(to.take())) == [Frame(h2.HEADERS, h2.END_HEADERS | h2.END_STREAM, 3, BLOCK)]
        assert to.streams == {1: one, 3: two}

    def test_no_table_is_used_from_the_first_block_on(self) -> None:
        """Receivers that allow less than the default table require an acknowledgement; ours may be lowered at any
        time.
        """
        to, decoder = session(header_table_size=0), Decoder()
        decoder.max_allowed_table_size = 0
        for _ in range(2):
            begun(to)
            to.receive(settings(header_table_size=0))
            (block,) = [each.payload for each in frames_of(to.take()) if each.kind == h2.HEADERS]
            assert (b":path", b"/") in list(decoder.decode(block, raw=True))

    def test_a_push_promise_breaks_the_connection(self) -> None:
        made: Session[str] = Session()
        (ours, window) = frames_of(made.take())
        assert (2).to_bytes(2, "big") + bytes(4) in [ours.payload[at : at + 6] for at in range(0, len(ours.payload), 6)]
        assert (window.kind, window.stream) == (h2.WINDOW_UPDATE, 0)
        made.receive(settings())
        begun(made)
        made.receive(frame(h2.PUSH_PROMISE, h2.END_HEADERS, 1, (2).to_bytes(4, "big") + BLOCK))
        assert made.broken

    def test_bodies_go_as_the_windows_admit_in_turns(self) -> None:
        to = session(initial_window_size=20_000)
        first, second = stream(), stream()
        for each in (first, second):
            to.request(each, method="POST", block=BLOCK, body=b"x" * 30_000)
        to.write_bodies(1_000_000)
        sent = taken(to, h2.DATA)
        assert [(each.stream, len(each.payload)) for each in sent] == [(1, 16_384), (3, 16_384), (1, 3_616), (3, 3_616)]
        to.receive(frame(h2.WINDOW_UPDATE, 0, 3, (50_000).to_bytes(4, "big")))
        to.write_bodies(1_000_000)
        assert [(each.stream, each.flags, len(each.payload)) for each in taken(to, h2.DATA)] == [(3, 1, 10_000)]
        # This leaves 15,535 of the connection's 65,535.
        to.receive(frame(h2.WINDOW_UPDATE, 0, 1, (50_000).to_bytes(4, "big")))
        third = stream()
        to.request(third, method="POST", block=BLOCK, body=b"x" * 30_000)
        to.write_bodies(1_000_000)
        assert sum(len(each.payload) for each in taken(to, h2.DATA)) == 65_535 - 50_000
        to.receive(frame(h2.WINDOW_UPDATE, 0, 0, (50_000).to_bytes(4, "big")))
        to.write_bodies(1_000_000)
        # The window of the third stream is full again.
        assert sum(len(each.payload) for each in taken(to, h2.DATA)) == 30_000 + 30_000 + 20_000 - 65_535

    def test_no_more_is_prepared_than_asked_for(self) -> None:
        to = session(initial_window_size=1_000_000)
        to.receive(frame(h2.WINDOW_UPDATE, 0, 0, (1_000_000).to_bytes(4, "big")))
        one = stream()
        to.request(one, method="POST", block=BLOCK, body=b"x" * 500_000)
        to.write_bodies(65_536)
        assert sum(len(each.payload) for each in taken(to, h2.DATA)) == 65_536

    def test_the_number_of_streams_is_bounded_by_settings(self) -> None:
        unsettled: Session[str] = Session()
        assert (unsettled.settled, unsettled.most_streams) == (False, 1)
        assert session(max_concurrent_streams=7).most_streams == 7
        assert session(max_concurrent_streams=70_000).most_streams == MOST_STREAMS
        assert session().most_streams == MOST_STREAMS


class TestAnswers:
    def test_one_in_pieces(self) -> None:
        to = session()
        one = begun(to)
        told = head(1, "500", ("retry-after", "5")) + data(1, b"0123456") + data(1, b"789ab", ends=True)
        for at in range(len(told)):
            heard = to.receive(told[at : at + 1])
            assert heard in ([], [one])
        assert (one.status, one.end, one.excerpt) == (500, "complete", "0123456789")
        assert one.fields() == [("retry-after", "5")]

    def test_headers_of_a_success_are_kept_where_they_say_more_than_its_status(self) -> None:
        to = session()
        one = begun(to)
        to.receive(head(1, "200", ("minutehand-call-at", "soon")) + data(1, b"", ends=True))
        assert (one.may_ask, one.fields()) == (True, [("minutehand-call-at", "soon")])

    def test_headers_of_one_that_succeeded_are_not_kept_unless_it_is_observed(self) -> None:
        to = session()
        plain, observed = begun(to), begun(to, observed=True)
        to.receive(head(1, "200", ("x", "1")) + data(1, b"ok", ends=True))
        to.receive(head(3, "200", ("x", "1")) + data(3, b"ok", ends=True))
        assert (plain.fields(), plain.excerpt, plain.may_ask) == ([], "", False)
        assert (observed.fields(), observed.excerpt) == ([("x", "1")], "ok")

    @pytest.mark.parametrize("status", ["101", "099", "20", "2000", "abc", "", "+20"])
    def test_what_is_no_status(self, status: str) -> None:
        to = session()
        one, other = begun(to), begun(to)
        assert to.receive(head(1, status)) == [one]
        assert (one.status, one.end) == (0, "malformed")
        assert (other.end, to.broken) == (None, False)

    def test_a_head_without_a_status(self) -> None:
        to = session()
        one = begun(to)
        to.receive(frame(h2.HEADERS, h2.END_HEADERS, 1, h2.block(("x", "1"))))
        assert (one.status, one.end, to.broken) == (0, "malformed", False)

    def test_interim_answers_are_skipped(self) -> None:
        to = session()
        one = begun(to)
        to.receive(head(1, "103", ("link", "x")) + head(1, "100"))
        assert (one.status, one.end, one.fed) == (0, None, True)
        to.receive(head(1, "204", ends=True))
        assert (one.status, one.end) == (204, "complete")

    @pytest.mark.parametrize("value", ["a\x1b[2Jb", "a\nb", "a\0b", "a\x7f"])
    def test_headers_that_could_do_harm_are_not_kept(self, value: str) -> None:
        to = session()
        one = begun(to)
        to.receive(head(1, "500", ("x", value)))
        assert (one.status, one.end, one.fields()) == (500, "broken", [])

    def test_frames_before_a_violation_count(self) -> None:
        to = session()
        one, two = begun(to), begun(to)
        heard = to.receive(head(1, "201", ends=True) + frame(h2.PING, 0, 0, b"short") + head(3, "202", ends=True))
        assert (one.status, one.end) == (201, "complete")
        assert (two.status, two.end) == (0, None)
        assert heard == [one]
        assert to.broken

    def test_a_body_that_is_too_long(self) -> None:
        to = session()
        one, other = begun(to), begun(to)
        to.receive(head(1, "500"))
        for _ in range(5):
            to.receive(data(1, b"x" * 16_000))
        assert (one.end, other.end, to.broken) == ("too-long", None, False)
        assert to.leave(one)
        assert [each.stream for each in taken(to, h2.RST_STREAM)] == [1]

    def test_windows_are_given_back(self) -> None:
        """Many answers exceed a connection's window, and one answer exceeds a stream's."""
        to = session()
        stream_window, connection_window = 65_535, 1_048_576
        for number in range(1, 101, 2):
            one = begun(to)
            to.receive(head(number))
            for ends in (False, False, False, True):
                to.receive(data(number, b"x" * 16_000, ends=ends))
                updates = taken(to, h2.WINDOW_UPDATE)
                connection_window += sum(int.from_bytes(each.payload, "big") for each in updates if not each.stream)
                connection_window -= 16_000
                assert connection_window >= 16_000
            assert one.end == "complete"
            to.leave(one)
        one = begun(to)
        to.receive(head(101))
        for _ in range(4):
            to.receive(data(101, b"x" * 16_000))
            updates = taken(to, h2.WINDOW_UPDATE)
            stream_window += sum(int.from_bytes(each.payload, "big") for each in updates if each.stream == 101) - 16_000
        assert stream_window >= 32_000


class TestEndsOfStreams:
    def test_a_stream_that_both_sides_have_ended_sends_nothing(self) -> None:
        to = session()
        one = begun(to, b"{}")
        to.take()
        to.receive(head(1, ends=True))
        assert not to.leave(one)
        assert to.take() == b""

    def test_an_answer_before_the_body_was_read(self) -> None:
        to = session(initial_window_size=1)
        one = begun(to, b"x" * 100)
        to.receive(head(1, "413", ends=True))
        assert (one.status, one.end) == (413, "complete")
        assert to.leave(one)
        to.write_bodies(1_000)
        assert [each.kind for each in frames_of(to.take())][-1] == h2.RST_STREAM

    @pytest.mark.parametrize(
        "told",
        [
            head(1, "413", ends=True) + frame(h2.RST_STREAM, 0, 1, bytes(4)),
            frame(h2.RST_STREAM, 0, 1, (8).to_bytes(4, "big")),
            head(1, "101"),
            goaway(0),
        ],
        ids=["early answer", "reset", "malformed", "refused"],
    )
    def test_no_body_is_sent_for_an_ended_stream(self, told: bytes) -> None:
        """Even if the window opens before the stream is abandoned."""
        to = session(initial_window_size=10)
        one = begun(to, b"x" * 100)
        to.take()
        to.receive(told + settings(initial_window_size=1_000))
        to.write_bodies(1_000)
        assert (one.end is not None, taken(to, h2.DATA), to.broken) == (True, [], False)

    def test_data_of_an_abandoned_stream_keeps_the_connection_usable(self) -> None:
        """A full window may be under way; the connection stays usable."""
        to = session()
        one, other = begun(to), begun(to)
        to.receive(head(1))
        to.leave(one)
        for _ in range(64):
            to.receive(data(1, b"x" * 1_000))
        to.receive(head(3, ends=True))
        assert (other.end, to.broken) == ("complete", False)

    @pytest.mark.parametrize(
        "told",
        [
            head(1, "103"),
            head(1, "100") + head(1, "200") + data(1, b"ok", ends=True),
            head(1, "200") + head(1, "200", ("grpc-status", "0"), ends=True),
            frame(h2.RST_STREAM, 0, 1, bytes(4)) + frame(h2.WINDOW_UPDATE, 0, 1, (5).to_bytes(4, "big")),
        ],
        ids=["interim", "whole", "trailers", "reset"],
    )
    def test_frames_of_an_abandoned_stream_are_ignored(self, told: bytes) -> None:
        to = session()
        one, other = begun(to), begun(to)
        to.leave(one)
        to.take()
        to.receive(told + head(3, ends=True))
        assert (other.status, to.broken, to.take()) == (200, False, b"")

    def test_an_abandoned_stream_is_reset_once(self) -> None:
        """The connection's window is returned for data that still arrives."""
        to = session()
        said: list[Frame] = []
        for number in (1, 3, 5):
            to.leave(begun(to))
            for _ in range(45):
                to.receive(data(number, b"x" * 5_000))
                said += frames_of(to.take())
        assert not to.broken
        assert [each.stream for each in said if each.kind == h2.RST_STREAM] == [1, 3, 5]
        assert [each.stream for each in said if each.kind == h2.WINDOW_UPDATE] == [0]

    def test_heads_of_one_that_was_given_up_change_the_tables_of_all(self) -> None:
        to = session()
        one, other = begun(to), begun(to, observed=True)
        to.leave(one)
        to.take()
        held = b"\x40\x01x\x01y"  # a name and a value, for the table
        to.receive(frame(h2.HEADERS, h2.END_HEADERS, 1, h2.block((":status", "200")) + held))
        assert (to.take(), to.broken) == (b"", False)
        to.receive(frame(h2.HEADERS, h2.END_HEADERS, 3, h2.block((":status", "200")) + b"\xbe"))
        assert other.fields() == [("x", "y")]

    def test_frames_of_an_ended_stream_break_the_connection(self) -> None:
        to = session()
        one, given_up = begun(to), begun(to)
        to.receive(head(1, ends=True))
        for each in (one, given_up):
            to.leave(each)
        to.receive(head(3))
        assert not to.broken
        to.receive(head(1))
        assert to.broken

    def test_an_abandoned_stream_is_bounded_in_frames(self) -> None:
        to = session()
        one = begun(to)
        to.leave(one)
        to.take()
        came = said = 0
        while not to.broken:
            to.receive(data(1, b""))
            came += 1
            said += len(to.take())
            assert came < 2_000
        assert said < 50_000

    @pytest.mark.parametrize(("code", "refused"), [(7, True), (8, False), (0, False)])
    def test_resets(self, code: int, refused: bool) -> None:
        to = session()
        one, other = begun(to), begun(to)
        to.receive(frame(h2.RST_STREAM, 0, 1, code.to_bytes(4, "big")))
        assert (one.end, one.refused, other.end) == ("broken", refused, None)

    def test_going_away(self) -> None:
        to = session()
        one, two = begun(to), begun(to)
        assert to.receive(goaway(1)) == [two]
        assert (to.going, one.refused, two.refused, two.end) == (True, False, True, "broken")
        to.leave(two)
        to.receive(head(1) + data(1, b"ok", ends=True))
        assert (one.status, one.end, to.broken) == (200, "complete", False)

    def test_going_away_in_two_steps(self) -> None:
        to = session()
        one, two = begun(to), begun(to)
        assert to.receive(goaway(0x7FFF_FFFF)) == []
        assert to.receive(goaway(1)) == [two]
        assert (one.end, two.refused) == (None, True)

    def test_frames_to_send_survive_a_goaway(self) -> None:
        to = session()
        to.receive(frame(h2.PING, 0, 0, b"12345678") + goaway(1))
        assert [each.payload for each in taken(to, h2.PING)] == [b"12345678"]
