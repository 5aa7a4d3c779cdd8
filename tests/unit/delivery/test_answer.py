"""Parses answers from their bytes: the status, the end, and the bounds."""

import tracemalloc
from itertools import pairwise
from sys import getsizeof
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poller_cluster.delivery.answer import Answer, KnownAnswers, retry_after_seconds
from scheduler_service.domain.end_notices import ANSWER_BYTES

RESPONSE_BYTES, FRAMING_BYTES = 1_000, 2_000
WALL_MS = 1_795_253_400_000
OK = b"HTTP/1.1 200 OK\r\n"
EMPTY = OK + b"Content-Length: 0\r\n\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def answer(**differing: Any) -> Answer:
    made = Answer(response_bytes=RESPONSE_BYTES, framing_bytes=FRAMING_BYTES, excerpt_bytes=10)
    made.begin(**({"bodiless": False, "observed": True} | differing))
    return made


def feed(made: Answer, *pieces: bytes) -> Answer:
    """Feed bytes as a connection does: nothing after the end."""
    for piece in pieces:
        if made.count(len(piece)) and made.end is None:
            made.feed(piece)
    return made


def seen(made: Answer) -> tuple[int, str | None, bool]:
    return made.status, made.end, made.reusable


@pytest.mark.parametrize(
    ("came", "expected"),
    [
        (EMPTY, (200, "complete", True)),
        (OK + b"Content-Length: 3\r\n\r\nabc", (200, "complete", True)),
        (OK + b"Content-Length: 3\r\n\r\nab", (200, None, False)),
        (b"HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\n", (204, "complete", True)),
        (b"HTTP/1.1 304 No\r\nContent-Length: 3\r\n\r\n", (304, "complete", True)),
        (OK + b"Connection: close\r\nContent-Length: 0\r\n\r\n", (200, "complete", False)),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", (200, "complete", False)),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", (200, "complete", True)),
        (
            b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            (200, "complete", False),
        ),
        (OK + b"\r\nuntil it ends", (200, None, False)),
        (CHUNKED + b"3;x=y\r\nabc\r\n0\r\nX-Trailer: 1\r\n\r\n", (200, "complete", True)),
        (b"HTTP/1.1 103 Early\r\nLink: <a>\r\n\r\n" + EMPTY, (200, "complete", True)),
        (b"HTTP/1.1 100 Go\r\n\r\n" * 20 + EMPTY, (200, "complete", True)),
        (b"HTTP/1.1 100\r\n\r\n" + EMPTY, (200, "complete", True)),
        (b"HTTP/1.1 103 E\r\nConnection: close\r\n\r\n" + EMPTY, (200, "complete", True)),
        (b"HTTP/1.0 100 Continue\r\n\r\n" + EMPTY, (200, "complete", True)),
        (b"HTTP/1.1 103 E\r\nContent-Length: 9\r\nTransfer-Encoding: x\r\n\r\n" + EMPTY, (200, "complete", True)),
        (b"HTTP/1.1 100 Go\r\n\r\n" * 3, (0, None, False)),
        (b"HTTP/1.1 500 No\r\nContent-Len", (500, None, False)),
        (b"HTTP/1.1 200\r\n", (200, None, False)),
    ],
)
def test_where_an_answer_ends(came: bytes, expected: tuple[int, str | None, bool]) -> None:
    assert seen(feed(answer(), came)) == expected


@pytest.mark.parametrize(
    "came",
    [
        OK + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
        OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
        OK + b"Content-Length: +3\r\n\r\nabc",
        OK + b"Content-Length: 99999999999999999999\r\n\r\nabc",
        OK + b"X: a\r\n b\r\nContent-Length: 0\r\n\r\n",
        OK + b"X : a\r\nContent-Length: 0\r\n\r\n",
        OK + b"X: a\nContent-Length: 0\n\n",
        b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        OK + b"X: a\0b\r\nContent-Length: 0\r\n\r\n",
        CHUNKED + b"g\r\n",
        CHUNKED + b"3\nabc\r\n0\r\n\r\n",
        CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n",
        CHUNKED + b"fffffffffffffffff\r\n",
    ],
)
def test_ambiguous_framing_breaks_the_answer_but_keeps_its_status(came: bytes) -> None:
    made = feed(answer(), came)
    assert seen(made) == (200, "broken", False)


@pytest.mark.parametrize(
    "came",
    [
        b"SSH-2.0-x\r\n",
        b"hi\n",
        b"\r\n" + EMPTY,
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 101 Switching\r\n\r\n",
        b"HTTP/1.1 099 X\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.2 200 OK\r\n\r\n",
        b"HTTP/1.1 2000\r\n\r\n",
        b"HTTP/1.1  200 OK\r\n\r\n",
        b"HTTP/1.1 103 Early\nX\n\nnonsense",
        b"HTTP/1.1 103\n\n" + EMPTY,
        b"HTTP/1.1 103 Early\nLink: <a>\r\n\r\n" + EMPTY,
        b"HTTP/1.1 103 Early\r\nLink: <a>\n\n" + EMPTY,
        b"HTTP/1.1 103 Early\r\n\n" + EMPTY,
        b"HTTP/1.1\t200 OK\r\nContent-Length: 0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\x00\x00",
    ],
)
def test_what_is_no_answer(came: bytes) -> None:
    assert seen(feed(answer(), came)) == (0, "malformed", False)
    assert seen(feed(answer(), *[came[at : at + 1] for at in range(len(came))])) == (0, "malformed", False)


@pytest.mark.parametrize(
    "after",
    [
        b"x",
        b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
        EMPTY,
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ],
)
@pytest.mark.parametrize("first", [EMPTY, b"HTTP/1.1 204 No\r\n\r\n", CHUNKED + b"0\r\n\r\n"])
def test_bytes_after_an_answer_are_ignored(first: bytes, after: bytes) -> None:
    made = feed(answer(), first + after)
    assert seen(made) == (200 if first != b"HTTP/1.1 204 No\r\n\r\n" else 204, "complete", False)


@pytest.mark.parametrize(
    ("came", "reusable"),
    [
        (OK + b"Content-Length: 3\r\n\r\n", True),
        (EMPTY, True),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n", True),
        (OK + b"Content-Length: 3\r\n\r\nabc", False),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", False),
        (OK + b"\r\n", False),
    ],
)
def test_answers_to_head_have_no_body(came: bytes, reusable: bool) -> None:
    made = feed(answer(bodiless=True), came)
    assert seen(made) == (200, "complete", reusable)
    made.begin(bodiless=False, observed=False)
    if reusable:
        assert seen(feed(made, EMPTY)) == (200, "complete", True)


def test_answers_follow_one_another_and_know_nothing_of_the_last_one() -> None:
    made = answer()
    for _ in range(3):
        feed(made, b"HTTP/1.1 500 No\r\nRetry-After: 7\r\nContent-Length: 3\r\n\r\nwhy")
        assert (made.excerpt, made.fields()[0], made.received) == ("why", ("Retry-After", "7"), 57)
        made.begin(bodiless=False, observed=False)
        assert (made.status, made.excerpt, made.fields(), made.fed) == (0, "", [], False)
        assert seen(feed(made, OK + b"Content-Length: 3\r\n\r\nabc")) == (200, "complete", True)
        assert (made.excerpt, made.fields()) == ("", []), "nothing is kept of what nobody looks at"
        made.begin(bodiless=False, observed=True)


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (CHUNKED + b"5;", b"a"),
        (CHUNKED + b"0\r\n", b"X: 1\r\n"),
        (CHUNKED, b"1;aaaaaaaaaaaaaa\r\na\r\n"),
        (OK, b"X: 1\r\n"),
        (OK + b"X: ", b"a"),
        (OK + b"\r\n", b"a"),
        (OK + b"Content-Length: 1000000\r\n\r\n", b"a"),
    ],
)
def test_an_endless_answer_is_too_long(head: bytes, piece: bytes) -> None:
    made = feed(answer(), head)
    pieces = 0
    while made.end is None:
        feed(made, piece)
        pieces += 1
        assert pieces * len(piece) < 2 * (RESPONSE_BYTES + FRAMING_BYTES)
    assert seen(made) == (200, "too-long", False)


def test_interim_answers_without_an_end_are_too_long_too() -> None:
    made = answer()
    for _ in range(200):
        feed(made, b"HTTP/1.1 103 Early\r\n\r\n")
    assert seen(made) == (0, "too-long", False)


def test_the_bounds_are_exact() -> None:
    full = b"Content-Length: %d\r\n\r\n"
    assert seen(feed(answer(), OK + full % RESPONSE_BYTES + b"a" * RESPONSE_BYTES)) == (200, "complete", True)
    assert feed(answer(), OK + full % (RESPONSE_BYTES + 1) + b"a" * (RESPONSE_BYTES + 1)).end == "too-long"
    made = answer()
    assert made.count(RESPONSE_BYTES + FRAMING_BYTES)
    assert made.end is None
    assert not made.count(1)
    assert made.end == "too-long"


def test_an_end_by_the_connection() -> None:
    assert feed(answer(), OK + b"\r\nabc").ends_with_connection()
    assert not feed(answer(), OK + b"X: 1\r\n").ends_with_connection()
    assert not feed(answer(), OK + b"Content-Length: 4\r\n\r\nabc").ends_with_connection()
    assert not feed(answer(), CHUNKED + b"3\r\nabc\r\n").ends_with_connection()


def test_received_bytes_are_not_held_for_long() -> None:
    """A receiver decides how much it sends, and its connection may be idle for minutes."""
    made = Answer(response_bytes=RESPONSE_BYTES, framing_bytes=1_000_000, excerpt_bytes=1_000)
    made.begin(bodiless=False, observed=True)
    started = held(made)
    feed(made, b"HTTP/1.1 103 Early\r\nLink: <", b"a" * 200_000)
    assert held(made) < started + 200
    feed(made, b">\r\n\r\nHTTP/1.1 500 No\r\nContent-Length: 3\r\nX: ", b"b" * 200_000, b"\r\n\r\nabc")
    assert (seen(made), made.excerpt, len(made.fields())) == ((500, "complete", True), "abc", 2)
    made.forget()
    assert held(made) < started + 200


def held(made: Answer) -> int:
    """The total size of the bytes reachable from it."""
    values = [getattr(made, name) for name in Answer.__slots__]
    pieces = [piece for value in values if isinstance(value, list) for piece in value]
    return sum(getsizeof(value) for value in values + pieces)


WHOLE = [
    EMPTY,
    b"HTTP/1.1 103 Early\r\nLink: <a>\r\n\r\nHTTP/1.1 100 Go\r\n\r\n"
    b"HTTP/1.1 404 No\r\nContent-Length: 12\r\n\r\nabcdefghijkl",
    CHUNKED + b"3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nX: 1\r\n\r\n",
    b"HTTP/1.1 2000 X\r\nContent-Length: 3\r\n\r\nabc",
    b"HTTP/1.1 103 Early\r\n\r\nSPAM SPAM SPAM\r\n\r\n",
    OK + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    b"HTTP/1.1 103 E\r\nConnection: close\r\n\r\n" + EMPTY,
    b"HTTP/1.0 100 Continue\r\n\r\nHTTP/1.1 500 No\r\nContent-Length: 3\r\n\r\nwhy",
    b"HTTP/1.1 500 No\r\nRetry-After: 9\r\n\r\nuntil it ends",
]


@given(st.sampled_from(WHOLE), st.lists(st.integers(0, 130), max_size=6))
def test_it_is_the_same_answer_however_its_bytes_come(whole: bytes, cuts: list[int]) -> None:
    edges = sorted({0, *(min(cut, len(whole)) for cut in cuts), len(whole)})
    pieces = [whole[left:right] for left, right in pairwise(edges)]
    for made in (feed(answer(), *pieces), feed(answer(), *[whole[at : at + 1] for at in range(len(whole))])):
        together = feed(answer(), whole)
        assert seen(made) == seen(together)
        assert (made.excerpt, made.version) == (together.excerpt, together.version)
        if made.end == "complete":
            assert made.fields() == together.fields()


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        ("0", None),
        ("-5", None),
        ("1.5", None),
        ("", None),
        ("9" * 5_000, 21_600.0),
        ("\u0663", None),
        ("Sat, 21 Nov 2026 09:31:30 GMT", 90.0),
        ("Sat, 21 Nov 2026 09:29:30 GMT", None),
        ("Sat, 21 Nov 9999 09:29:30 GMT", 21_600.0),
        ("Sat, 99 Nov 99999999999999 09:29:30 GMT", None),
    ],
)
def test_retry_after(value: str, seconds: float | None) -> None:
    assert retry_after_seconds(value, wall_ms=WALL_MS) == seconds


class TestKnownAnswers:
    """An answer that arrived before in one piece is not parsed again, and gives the same result."""

    NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"
    WITH_BODY = OK + b"Content-Length: 3\r\n\r\nabc"
    CAME: tuple[bytes, ...] = (
        EMPTY,
        NO_CONTENT,
        WITH_BODY,
        WITH_BODY[:-1],
        CHUNKED + b"3\r\nabc\r\n0\r\n\r\n",
        EMPTY + b"\r\n",
        EMPTY + EMPTY,
        NO_CONTENT + b"x",
        OK + b"Connection: close\r\nContent-Length: 0\r\n\r\n",
        OK + b"Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + EMPTY,
        b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 503 No\r\nContent-Length: 3\r\n\r\nabc",
        OK + b"X: " + b"x" * 600 + b"\r\nContent-Length: 0\r\n\r\n",
    )

    @staticmethod
    def plain(known: KnownAnswers, **differing: Any) -> Answer:
        made = Answer(response_bytes=RESPONSE_BYTES, framing_bytes=FRAMING_BYTES, excerpt_bytes=10, known=known)
        made.begin(**({"bodiless": False, "observed": False} | differing))
        return made

    @given(st.lists(st.tuples(st.sampled_from(CAME), st.booleans(), st.booleans(), st.integers(0, 80)), max_size=12))
    def test_each_answer_is_parsed_independently_of_earlier_ones(
        self, exchanges: list[tuple[bytes, bool, bool, int]]
    ) -> None:
        known = KnownAnswers()
        for came, bodiless, observed, cut in exchanges:
            pieces = [piece for piece in (came[:cut], came[cut:]) if piece]
            asked = {"bodiless": bodiless, "observed": observed}
            one, alone = self.plain(known, **asked), self.plain(KnownAnswers(), **asked)
            feed(one, *pieces)
            feed(alone, *pieces)
            assert seen(one) == seen(alone)
            assert (one.version, one.excerpt, one.fields()) == (alone.version, alone.excerpt, alone.fields())
            assert one.ends_with_connection() == alone.ends_with_connection()

    def test_a_connection_goes_on_behind_one_as_behind_any_other(self) -> None:
        known = KnownAnswers()
        made = self.plain(known)
        for came, status in ((EMPTY, 200), (EMPTY, 200), (self.WITH_BODY, 200), (EMPTY, 200), (self.NO_CONTENT, 204)):
            made.begin(bodiless=False, observed=False)
            assert seen(feed(made, came)) == (status, "complete", True)
        made.begin(bodiless=False, observed=False)
        assert seen(feed(made, EMPTY[:9], EMPTY[9:])) == (200, "complete", True)

    def test_known_bytes_are_an_answer_only_where_one_begins(self) -> None:
        known = KnownAnswers()
        feed(self.plain(known), EMPTY)
        inside = self.plain(known)
        feed(inside, OK + b"Content-Length: 100\r\n\r\n", EMPTY)
        assert seen(inside) == (200, None, False)

    def test_an_answer_to_head_has_no_body_however_well_it_is_known(self) -> None:
        known = KnownAnswers()
        feed(self.plain(known), self.WITH_BODY)
        assert seen(feed(self.plain(known, bodiless=True), self.WITH_BODY)) == (200, "complete", False)

    def test_an_observed_attempt_gets_the_whole_of_a_known_answer(self) -> None:
        known = KnownAnswers()
        feed(self.plain(known), self.WITH_BODY)
        made = feed(self.plain(known, observed=True), self.WITH_BODY)
        assert (made.excerpt, made.fields()) == ("abc", [("Content-Length", "3")])

    def test_they_are_remembered_whole_short_and_few(self) -> None:
        known = KnownAnswers()
        for came in self.CAME:
            feed(self.plain(known), came)
        assert set(known) == {EMPTY, self.NO_CONTENT, self.WITH_BODY, self.CAME[4], self.CAME[5], self.CAME[11]}
        for number in range(3_000):
            feed(self.plain(known), OK + b"X: %d\r\nContent-Length: 0\r\n\r\n" % number)
        assert len(known) <= 1_024


class TestVerbs:
    """The headers of a success are kept where they may say more than its status."""

    SNOOZED = OK + b"Content-Length: 0\r\nrEtry-After: 5\r\n\r\n"

    @staticmethod
    def unobserved(known: KnownAnswers | None = None) -> Answer:
        return TestKnownAnswers.plain(KnownAnswers() if known is None else known)

    def test_of_a_success_they_are_kept_though_it_came_before(self) -> None:
        known = KnownAnswers()
        for came in (EMPTY, self.SNOOZED, EMPTY, self.SNOOZED):
            made = feed(self.unobserved(known), came)
            assert seen(made) == (200, "complete", True)
            fields = [("Content-Length", "0"), ("rEtry-After", "5")] if came is self.SNOOZED else []
            assert (made.may_ask, made.fields()) == (came is self.SNOOZED, fields)
        assert list(known) == [EMPTY]

    @pytest.mark.parametrize("name", [b"Retry-After", b"Minutehand-Call-At", b"MINUTEHAND-STOP-CRON"])
    def test_wherever_the_head_is_cut(self, name: bytes) -> None:
        came = OK + b"Content-Length: 0\r\n" + name + b": x\r\n\r\n"
        for at in range(1, len(came)):
            made = feed(self.unobserved(), came[:at], came[at:])
            assert made.may_ask
            assert (name.decode(), "x") in made.fields()

    def test_an_incomplete_head_asks_for_nothing(self) -> None:
        assert not feed(self.unobserved(), self.SNOOZED[:-3]).may_ask

    def test_a_body_or_a_value_that_looks_like_one_is_none(self) -> None:
        for came in (
            OK + b"Content-Length: 16\r\n\r\n\nretry-after: 10",
            OK + b"X: retry-after: 10\r\nX-Retry-After: 10\r\nContent-Length: 0\r\n\r\n",
        ):
            made = feed(self.unobserved(), came)
            assert [value for name, value in made.fields() if name.lower() == "retry-after"] == []


@pytest.mark.parametrize("status", [200, 500])
def test_the_body_of_a_kept_answer_is_kept_whole_up_to_its_bound(status: int) -> None:
    made = Answer(response_bytes=100_000, framing_bytes=FRAMING_BYTES, excerpt_bytes=10)
    head = f"HTTP/1.1 {status} X\r\nX-Y: 1\r\nContent-Length: ".encode()
    for size, cut in ((65_536, False), (65_537, True)):
        made.begin(bodiless=False, observed=False, kept=True)
        feed(made, head + b"%d\r\n\r\n" % size, b"a" * size)
        assert (len(made.body), made.cut, made.excerpt) == (65_536, cut, "a" * 10)
        assert made.fields()[0] == ("X-Y", "1")
    made.begin(bodiless=False, observed=False, kept=True)
    feed(made, head + b"3\r\n\r\nab")
    assert (made.body, made.cut) == (b"ab", True), "it broke off"
    made = answer(observed=False)
    feed(made, head + b"20\r\n\r\n" + b"a" * 20)
    assert made.body == (b"" if status == 200 else b"a" * 10)


def test_a_kept_body_in_tens_of_thousands_of_chunks_takes_no_more_room_than_its_bytes() -> None:
    made = Answer(response_bytes=ANSWER_BYTES, framing_bytes=6 * ANSWER_BYTES, excerpt_bytes=10)
    made.begin(bodiless=False, observed=False, kept=True)
    feed(made, CHUNKED)
    tracemalloc.start()
    try:
        feed(made, *[b"2\r\nxy\r\n" * 1_000] * 32)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert made.body == b"xy" * 32_000
    assert held < 2 * ANSWER_BYTES
