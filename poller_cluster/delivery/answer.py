"""Incremental parser of one answer: its status, where it ends, and its bounds. Sans-IO.

    begin --feed, while `end` is None--> "complete" | "malformed" | "broken" | "too-long"

A final status (200 and above) is taken from its status line alone; a fault after it ends the answer and leaves the
status. A line that is no status line, and 101, end it as `malformed`. Any number of other statuses below 200 may come
before the final one; they are skipped here, and only lines without CR are refused in their heads. llhttp (`httptools`)
parses the final answer only: it decides where that ends, and refuses what other parsers might end elsewhere
(Content-Length twice or beside Transfer-Encoding, folded headers, lines without CR): such an answer is `broken`. It
keeps only an incomplete line, the head and the excerpt, the latter two until `forget`. Of a success it keeps them only
if the head came in pieces, or names a header of `domain.verbs`.
"""

import re
from typing import Any, Final, Literal

import httptools

from scheduler_service.domain.end_notices import ANSWER_BYTES
from scheduler_service.domain.verbs import seconds_until

End = Literal["complete", "malformed", "broken", "too-long"]

_STATUS_LINE = re.compile(rb"HTTP/(1\.[01]) ([0-9]{3})[^0-9]")
_STATUS_LINE_BYTES: Final = 13
_HEAD_END = re.compile(rb"\n\r?\n")
_INTERIM_END = re.compile(rb"\r\n(\r\n)|[^\r]\n")
_HEAD_END_BYTES: Final = 4
_SAYS_VERB = re.compile(rb"\n(?:retry-after|minutehand-(?:call-at|stop-cron))[\t ]*:", re.IGNORECASE)
_FIRST_FINAL_STATUS: Final = 200
_FIRST_KEPT_STATUS: Final = 300
_SWITCHING_PROTOCOLS: Final = 101
_KNOWN_ANSWERS: Final = 1_024
_KNOWN_BYTES: Final = 512
_LONGEST_PAUSE_SECONDS: Final = 21_600.0


def retry_after_seconds(value: str, *, wall_ms: int) -> float | None:
    """The pause that a Retry-After value asks for, 6 hours at most. None: not valid, or not in the future."""
    seconds = seconds_until(value, wall_ms=wall_ms)
    return None if seconds is None else min(seconds, _LONGEST_PAUSE_SECONDS)


class KnownAnswers(dict[bytes, int]):
    """A cache of short whole answers that came in one read, with their status: HTTP/1.1 successes that are framed and
    leave the connection reusable. Receivers repeat the same bytes, and a known answer is not parsed again."""

    def remember(self, data: bytes, status: int) -> None:
        if len(data) <= _KNOWN_BYTES:
            if len(self) >= _KNOWN_ANSWERS:
                self.clear()
            self[data] = status


class AnswerBody:
    """What answers have alike over HTTP/1.1 and HTTP/2: the bound of their body, and what is kept of it. Subclasses set
    the attributes, as a call more for each answer would cost. `end`: why nothing more is read. `_keeps`: headers, body
    and excerpt are kept. `_unasked`: something came after the end."""

    __slots__ = (
        "_body_bytes",
        "_excerpt_bytes",
        "_keeps",
        "_kept",
        "_kept_bytes",
        "_response_bytes",
        "_unasked",
        "end",
    )

    end: End | None
    _body_bytes: int
    _excerpt_bytes: int
    _keeps: bool
    _kept: bytearray
    _kept_bytes: int
    _response_bytes: int
    _unasked: bool

    def hear_body(self, piece: bytes) -> None:
        if self.end is not None:
            self._unasked = True
            return
        if self._keeps and self._body_bytes < self._kept_bytes:
            # In one piece: a receiver may send its body in tens of thousands of chunks.
            self._kept += piece[: self._kept_bytes - self._body_bytes]
        self._body_bytes += len(piece)
        if self._body_bytes > self._response_bytes:
            self.end = "too-long"

    @property
    def excerpt(self) -> str:
        """The beginning of the body; kept only for statuses of 300 and above and for observed attempts."""
        return self.body[: self._excerpt_bytes].decode(errors="replace")

    @property
    def body(self) -> bytes:
        """What is kept of the body."""
        return bytes(self._kept)

    @property
    def cut(self) -> bool:
        """Whether the body had more than is kept of it, or broke off."""
        return self.end != "complete" or self._body_bytes > self._kept_bytes


class Answer(AnswerBody):
    """The answers of one connection, one request after another. `close` it with the connection: the parser refers back
    to it, and that reference cycle would live until the garbage collector runs."""

    __slots__ = (
        "_answer_bytes",
        "_begun",
        "_head",
        "_head_complete",
        "_headless",
        "_keep",
        "_known",
        "_parser",
        "_skips_head",
        "fed",
        "received",
        "status",
        "version",
    )

    def __init__(
        self, *, response_bytes: int, framing_bytes: int, excerpt_bytes: int, known: KnownAnswers | None = None
    ) -> None:
        self._known = KnownAnswers() if known is None else known
        self._response_bytes = response_bytes
        self._answer_bytes = response_bytes + framing_bytes
        self._excerpt_bytes = excerpt_bytes
        self._parser: Any = httptools.HttpResponseParser(self)
        self._head: bytes | bytearray = b""
        self._kept = bytearray()
        self.begin(bodiless=False, observed=False)

    def begin(self, *, bodiless: bool, observed: bool, kept: bool = False) -> None:
        """Reset before another request is written. `bodiless`: its answer has no body (HEAD). `kept`: its body is kept,
        and not only the excerpt."""
        self.status = 0
        self.version = b""
        self.received = 0
        self.fed = False
        self.end = None
        self._headless = bodiless
        self._keeps = observed or kept
        self._kept_bytes = ANSWER_BYTES if kept else self._excerpt_bytes
        self._head_complete = self._keep = self._unasked = self._skips_head = False
        self._body_bytes = 0
        self._begun = b""
        self.forget()

    def forget(self) -> None:
        """Drop head and excerpt: the connection may be idle for long."""
        self._head = b""
        if self._kept:
            self._kept = bytearray()

    def count(self, size: int) -> bool:
        """Count bytes read from the socket, TLS included. False: the answer has exceeded its bound."""
        self.received += size
        if self.received <= self._answer_bytes:
            return True
        if self.end is None:
            self.end = "too-long"
        return False

    def feed(self, data: bytes) -> None:
        """Parse bytes that were counted. Nothing may be fed after the end. `fed`: any bytes came."""
        if self.fed or self._keeps or self._headless:
            self.fed = True
            self._parse(data)
            return
        self.fed = True
        status = self._known.get(data)
        if status is not None:
            self.status, self.version, self.end = status, b"1.1", "complete"
            self._head_complete = self._keep = True
            return
        self._parse(data)
        plain = self.version == b"1.1" and not self._keeps
        if plain and self.reusable and self.status < _FIRST_KEPT_STATUS:
            self._known.remember(data, self.status)

    def _parse(self, data: bytes) -> None:
        if not self.status:
            data = self._find_status(data)
            if not data:
                return
        if not self._head_complete and self._keeps:
            self._head += data
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._keep = False
            if self.end is None:
                self.end = "broken"
            return
        if self.end == "complete" and self._headless:
            # llhttp may wait for the body that Content-Length announces, so it is replaced; bytes after the head are
            # unsolicited.
            if not data.endswith(b"\r\n\r\n") or data.find(b"\r\n\r\n") != len(data) - 4:
                self._unasked = True
            self._parser = httptools.HttpResponseParser(self)

    def _find_status(self, data: bytes) -> bytes:
        """Skip interim answers. Returns the bytes of the final answer, b"" if it has not begun."""
        begun, at = self._begun + data if self._begun else data, 0
        while True:
            if self._skips_head:
                end = _INTERIM_END.search(begun, at)
                if end is None:
                    # The last bytes may be the beginning of the head's end.
                    self._begun = begun[max(at, len(begun) - _HEAD_END_BYTES + 1) :]
                    return b""
                if end[1] is None:
                    break
                at, self._skips_head = end.end(), False
            match = _STATUS_LINE.match(begun, at)
            if match is None:
                rest = begun[at : at + _STATUS_LINE_BYTES]
                if len(rest) == _STATUS_LINE_BYTES or b"\n" in rest:
                    break
                self._begun = rest
                return b""
            status = int(match[2])
            if status >= _FIRST_FINAL_STATUS:
                self._begun = b""
                self.status, self.version = status, match[1]
                rest = begun[at:] if at else begun
                if status >= _FIRST_KEPT_STATUS or match[1] == b"1.0" or _may_say_verb(rest):
                    self._keeps = True
                if self._keeps:
                    self._head = bytearray()
                return rest
            if status < 100 or status == _SWITCHING_PROTOCOLS:
                break
            # Skip from the last digit on, because the line may end right after it.
            at, self._skips_head = match.end() - 2, True
        self.end, self._begun = "malformed", b""
        return b""

    on_body = AnswerBody.hear_body

    def on_message_begin(self) -> None:
        if self.end is not None:
            self._unasked = True

    def on_headers_complete(self) -> None:
        if self.end is not None:
            return
        self._head_complete = True
        if self._headless:
            self._complete()

    def on_message_complete(self) -> None:
        if self.end is None:
            self._complete()

    def _complete(self) -> None:
        # HTTP/1.0 has no Transfer-Encoding, so a proxy on the way may end such an answer elsewhere.
        faulty = self.version == b"1.0" and "transfer-encoding" in self._names()
        self._keep = not faulty and self._parser.should_keep_alive()
        self.end = "complete"

    @property
    def reusable(self) -> bool:
        """Whether another request may follow on the connection: the answer is complete by its own framing, and nothing
        came after it."""
        return self._keep and not self._unasked and self.end == "complete"

    @property
    def may_ask(self) -> bool:
        """Whether all headers are here, which may ask for something."""
        return self._keeps and self._head_complete

    def fields(self) -> list[tuple[str, str]]:
        """The headers of the final answer as far as they came; kept when the excerpt is, and for HTTP/1.0."""
        head = bytes(self._head)
        end = _HEAD_END.search(head)
        lines = (head if end is None else head[: end.start()]).decode("latin-1").split("\n")[1:]
        return [(name, value.strip()) for name, colon, value in (line.partition(":") for line in lines) if colon]

    def ends_with_connection(self) -> bool:
        """Whether the answer is not framed, so that the end of the connection completes it. Only for kept heads."""
        framing = self._names() & {"content-length", "transfer-encoding"}
        return self._head_complete and not framing and self.end is None

    def _names(self) -> set[str]:
        return {name.lower() for name, _ in self.fields()}

    def close(self) -> None:
        self._parser = None


def _may_say_verb(begun: bytes) -> bool:
    """Whether the head of this answer names a header that says more than its status, or may still."""
    return b"\r\n\r\n" not in begun or _SAYS_VERB.search(begun) is not None
