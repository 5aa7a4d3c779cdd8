"""Bounds of an HTTP/2 session for everything that a receiver may send without an end."""

import pytest
from h2.settings import SettingCodes

from poller_cluster.delivery.http2.session import CONTROL_COST, FRAME_COST, MOST_STREAMS, Session
from tests.support import http2_frames as h2
from tests.support.http2_frames import data, frame, goaway, head, settings
from tests.support.http2_sessions import FRAMING_BYTES, RESPONSE_BYTES, begun, receive_all, session

CONTROL = {
    "settings": settings(max_concurrent_streams=10),
    "empty settings": settings(),
    "acknowledgements": frame(h2.SETTINGS, h2.ACK),
    "pings": frame(h2.PING, 0, 0, b"12345678"),
    "answers to pings": frame(h2.PING, h2.ACK, 0, b"12345678"),
    "windows": frame(h2.WINDOW_UPDATE, 0, 0, (1).to_bytes(4, "big")),
    "windows of a stream": frame(h2.WINDOW_UPDATE, 0, 1, (1).to_bytes(4, "big")),
    "priorities": frame(h2.PRIORITY, 0, 1, (3).to_bytes(4, "big") + b"\x10"),
    "unknown": frame(h2.UNKNOWN, 0, 0, b"x"),
    "going away": goaway(0x7FFF_FFFF),
}


class TestBounds:
    @pytest.mark.parametrize("told", CONTROL.values(), ids=CONTROL)
    def test_frames_that_are_no_answer(self, told: bytes) -> None:
        to = session()
        begun(to)
        to.take()
        said = 0
        for _ in range(CONTROL_COST // FRAME_COST - 1):
            to.receive(told)
            said += len(to.take())
        assert not to.broken
        assert said <= 17 * CONTROL_COST // FRAME_COST
        to.receive(told * 2)
        assert to.broken

    def test_large_frames_of_unknown_types(self) -> None:
        to = session()
        to.receive(frame(h2.UNKNOWN, 0, 0, b"x" * 16_000))
        assert not to.broken
        to.receive(frame(h2.UNKNOWN, 0, 0, b"x" * 16_000))
        assert to.broken

    def test_unknown_settings_are_not_kept(self) -> None:
        to = session()
        known = set(to._h2.remote_settings)
        for first in range(100, 2_000, 200):
            ids = range(first, first + 200)
            told = b"".join(code.to_bytes(2, "big") + bytes(4) for code in ids) + b"\0\x03\0\0\0\x07"
            to.receive(frame(h2.SETTINGS, first % 3 * 2, payload=told))
        assert set(to._h2.remote_settings) - known == {SettingCodes.MAX_CONCURRENT_STREAMS}
        assert (to.most_streams, to.broken) == (7, False)
        to.receive(frame(h2.SETTINGS, payload=b"\0\x03\0"))
        assert to.broken

    def test_windows_given_back_in_small_pieces(self) -> None:
        """A receiver that reads large bodies slowly. More updates than bytes sent are a flood."""
        to = session(initial_window_size=1_000_000)
        to.receive(frame(h2.WINDOW_UPDATE, 0, 0, (1_000_000).to_bytes(4, "big")))
        for number in (1, 3):
            one = begun(to, b"x" * 524_288)
            assert one.unsent is None
            for _ in range(512):
                for of in (0, number):
                    to.receive(frame(h2.WINDOW_UPDATE, 0, of, (1_024).to_bytes(4, "big")))
            assert not to.broken
        for _ in range(CONTROL_COST // FRAME_COST):
            to.receive(frame(h2.WINDOW_UPDATE, 0, 3, (1_024).to_bytes(4, "big")))
            assert not to.broken
        to.receive(frame(h2.WINDOW_UPDATE, 0, 0, (1_024).to_bytes(4, "big")) * 2)
        assert to.broken

    def test_windows_of_a_byte(self) -> None:
        """A piece of a body returns no more window than its size, or a receiver could cause a frame for each byte."""
        to = session(initial_window_size=0)
        begun(to, b"x" * 2_000)
        for _ in range(CONTROL_COST // FRAME_COST + 1):
            to.receive(frame(h2.WINDOW_UPDATE, 0, 1, (1).to_bytes(4, "big")))
            to.write_bodies(1_000_000)
            assert not to.broken
        to.receive(frame(h2.WINDOW_UPDATE, 0, 1, (1).to_bytes(4, "big")) * 2)
        assert to.broken

    def test_each_request_allows_some_more(self) -> None:
        to = session()
        for number in range(1, 401, 2):
            one = begun(to)
            to.receive(frame(h2.PING, 0, 0, b"12345678") * 8 + head(number, ends=True))
            to.take()
            assert (one.end, to.broken) == ("complete", False)
            to.leave(one)

    def test_the_budget_for_control_frames_does_not_grow_with_streams(self) -> None:
        to = session()
        for number in range(1, 401, 2):
            one = begun(to)
            to.receive(head(number, ends=True))
            to.leave(one)
        receive_all(to, frame(h2.PING, 0, 0, b"12345678") * (CONTROL_COST // FRAME_COST + 1))
        assert to.broken

    def test_a_frame_that_is_too_large_before_it_is_there(self) -> None:
        to = session()
        to.receive(frame(h2.DATA, 0, 1, b"x" * 16_385)[:9])
        assert to.broken

    @pytest.mark.parametrize("payload", [b"", b"x"])
    def test_small_pieces_of_a_body(self, payload: bytes) -> None:
        to = session()
        one, other = begun(to), begun(to)
        to.receive(head(1))
        came = 0
        while one.end is None:
            to.receive(data(1, payload))
            came += 1
            assert came <= (RESPONSE_BYTES + FRAMING_BYTES) // FRAME_COST
        assert (one.end, one.status, to.broken, other.end) == ("too-long", 200, False, None)

    def test_interim_answers(self) -> None:
        to = session()
        one = begun(to)
        came = 0
        while one.end is None:
            to.receive(head(1, "103", ("link", "x" * 1_000)))
            came += 1
            assert came < 150
        assert (one.end, one.status, to.broken) == ("too-long", 0, False)

    def test_only_so_many_interim_answers(self) -> None:
        to = session()
        one, other = begun(to), begun(to)
        to.receive(head(1, "103") * 64)
        assert one.end is None
        to.receive(head(1, "103"))
        assert (one.status, other.end, to.broken) == (0, None, False)
        assert [each.end for each in (one, other)] == ["too-long", None]

    def test_an_excess_within_one_read_breaks_the_connection(self) -> None:
        """A read contains hundreds of frames, and the stream's end is among those behind the excess."""
        to = session()
        one, other = begun(to), begun(to)
        most = 64 + 262_144 // FRAME_COST
        assert to.receive(head(1, "103") * 500) == [one]
        assert (one.end, to.broken) == ("too-long", False)
        receive_all(to, head(1, "103") * most)
        assert (other.end, to.broken) == (None, True)

    def test_headers_that_a_byte_names(self) -> None:
        """A few bytes encode them, and decoding takes long; the bound also applies to a stream that was given up."""
        interim, final = (h2.block((":status", status)) + b"\xba" * 999 for status in ("103", "200"))
        to = session()
        one, given_up = begun(to), begun(to)
        to.leave(given_up)
        for _ in range((RESPONSE_BYTES + FRAMING_BYTES) // 68_000):
            to.receive(frame(h2.HEADERS, h2.END_HEADERS, 1, interim))
            assert one.end is None
        to.receive(frame(h2.HEADERS, h2.END_HEADERS, 1, interim))
        assert (one.end, to.broken) == ("too-long", False)
        for _ in range(262_144 // 68_000):
            to.receive(frame(h2.HEADERS, h2.END_HEADERS, 3, final))
            assert not to.broken
        receive_all(to, frame(h2.HEADERS, h2.END_HEADERS, 3, final) * 2)
        assert to.broken

    def test_continuations(self) -> None:
        to = session()
        begun(to)
        to.receive(frame(h2.HEADERS, 0, 1, h2.block((":status", "200"))))
        for _ in range(64):
            to.receive(frame(h2.CONTINUATION, 0, 1))
        assert to.broken

    @pytest.mark.parametrize("last", [15_000, 16_384])
    def test_a_block_in_large_pieces(self, last: int) -> None:
        """Also for a stream that was given up: the library decodes a block once it is complete."""
        to = session()
        for _ in range(2):
            to.leave(begun(to))
        headers = h2.block(("x", "y" * (16_384 + last - 10)))
        to.receive(frame(h2.HEADERS, 0, 1, headers[:16_384]))
        assert not to.broken
        to.receive(frame(h2.CONTINUATION, h2.END_HEADERS, 1, headers[16_384:]))
        assert to.broken is (last == 16_384)
        assert to._decoder.fields == int(not to.broken)

    def test_a_block_that_resizes_the_table_again_and_again(self) -> None:
        to = session()
        one = begun(to)
        for _ in range(2):
            to.receive(frame(h2.HEADERS, h2.END_HEADERS, 1, b"\x20\x3f\xe1\x1f" + h2.block((":status", "103"))))
        assert (one.end, to.broken) == (None, False)
        to.receive(frame(h2.HEADERS, h2.END_HEADERS, 1, b"\x20" * 3 + h2.block((":status", "200"))))
        assert (one.status, to.broken) == (0, True)

    def test_streams_of_its_own(self) -> None:
        """They have no reader, so the library would keep them. Given-up streams allow for frames of any stream."""
        to = session()
        to.leave(begun(to))
        to.receive(head(2))
        assert (to.broken, len(to._h2.streams)) == (True, 0)

    def test_the_budget_for_abandoned_streams_does_not_grow_with_their_number(self) -> None:
        to = session()
        for _ in range(40):
            to.leave(begun(to))
        came = 0
        while not to.broken:
            to.receive(data(1, b"x" * 16_384))
            came += 1
            assert came <= 256
        assert came == 4_194_304 // (16_384 + 9) + 1

    def test_headers_that_unfold(self) -> None:
        """A header of 4 KB is in the table, and a single byte names it again each time."""
        to = session()
        begun(to)
        held = b"\x40\x01x\x7f\xa1\x1d" + b"y" * 3_872
        to.receive(frame(h2.HEADERS, h2.END_HEADERS, 1, h2.block((":status", "103")) + held))
        assert not to.broken
        to.receive(frame(h2.HEADERS, h2.END_HEADERS, 1, h2.block((":status", "200")) + b"\xbe" * 10_000))
        assert to.broken

    def test_what_is_long_to_read_is_taken_in_by_turns(self) -> None:
        """Any frames, all of them, in their order."""
        to = session()
        streams = [begun(to) for _ in range(10)]
        floods = [
            b"".join(head(each.number, "103") * 40 for each in streams),
            b"".join(head(each.number) + data(each.number) * 90 for each in streams),
            b"".join(data(each.number, b"x", ends=True) for each in streams),
        ]
        raw, turns = b"".join(floods), 0
        assert len(raw) < 65_536
        while raw or to.behind:
            before = to.frames
            to.receive(raw)
            assert to.frames - before <= 65_536 // FRAME_COST
            raw, turns = b"", turns + 1
        assert turns > 5
        assert [(each.status, each.end) for each in streams] == [(200, "complete")] * 10

    def test_useful_window_updates_count_for_a_turn(self) -> None:
        to = session(initial_window_size=1_000_000)
        to.receive(frame(h2.WINDOW_UPDATE, 0, 0, (1_000_000).to_bytes(4, "big")))
        begun(to, b"x" * 500_000)
        to.receive(frame(h2.WINDOW_UPDATE, 0, 0, (256).to_bytes(4, "big")) * 1_000)
        assert (to.frames, to.behind, to.broken) == (2 + 256, True, False)

    def test_headers_that_a_byte_names_count_for_a_turn(self) -> None:
        to = session()
        begun(to)
        to.receive(frame(h2.HEADERS, h2.END_HEADERS, 1, h2.block((":status", "103")) + b"\xba" * 999) * 2)
        assert (to.frames, to.behind, to.broken) == (2, True, False)

    def test_a_body_at_once(self) -> None:
        """One turn handles as much as one read returns."""
        to = session()
        one = begun(to)
        to.receive(head(1) + data(1, b"x" * 16_000) * 3 + data(1, b"x" * 10_000, ends=True))
        assert (one.end, to.behind) == ("complete", False)

    def test_settings_come_first(self) -> None:
        made: Session[str] = Session()
        made.receive(frame(h2.PING, 0, 0, b"12345678"))
        assert made.broken

    @pytest.mark.parametrize(
        "told",
        [
            head(5),
            data(2, b"x"),
            frame(h2.CONTINUATION, h2.END_HEADERS, 1, b""),
            frame(h2.WINDOW_UPDATE, 0, 0, bytes(4)),
            frame(h2.SETTINGS, h2.ACK, 0, b"123456"),
            frame(h2.HEADERS, h2.END_HEADERS, 1, b"\xff\xff\xff\xff\xff"),
            frame(
                h2.HEADERS, h2.END_HEADERS | 0x20, 1, (1).to_bytes(4, "big") + b"\x10" + h2.block((":status", "200"))
            ),
            frame(h2.DATA, 0x8, 1, b"\xff"),
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            b"\0" * 9,
        ],
    )
    def test_invalid_control_frames_break_the_connection(self, told: bytes) -> None:
        to = session()
        begun(to)
        to.receive(told)
        assert to.broken

    def test_ended_streams_are_forgotten(self) -> None:
        to = session()
        for number in range(1, 2_001, 2):
            one = begun(to)
            to.receive(head(number, ends=True))
            to.leave(one)
        assert (to.streams, len(to._h2.streams)) == ({}, 0)
        held = begun(to)
        for number in range(2_003, 4_003, 2):
            one = begun(to)
            to.receive(head(number, ends=True))
            to.leave(one)
        assert to.streams == {2_001: held}
        assert len(to._h2.streams) <= 2 * MOST_STREAMS + 1
