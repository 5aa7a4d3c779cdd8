"""One answer as its bytes come: its status, where it ends, and what it may take. Sans-IO: fed bytes, asked what holds.

    begin --feed, while `end` is None--> "complete" | "malformed" | "broken" | "too-long"

A final status (200 and above) is known from its status line alone; what comes to be wrong after it ends the answer and
leaves the status. Of lines that are no status line, and of 101, the end is `malformed`; of all else below 200 there may
be any number before the final one, and they are skipped here: of their heads, only lines without CR are refused. llhttp
(`httptools`) reads the final answer alone: it decides where that ends, and refuses what other readers might take for
another end (Content-Length twice or beside Transfer-Encoding, folded headers, lines without CR): such an answer is
`broken`. Of what came, no more than a begun line is kept beside head and excerpt, and those until `forget`.
"""

import re
from email.utils import mktime_tz, parsedate_tz
from typing import Any, Final, Literal

import httptools

End = Literal["complete", "malformed", "broken", "too-long"]

_STATUS_LINE = re.compile(rb"HTTP/(1\.[01]) ([0-9]{3})[^0-9]")
_STATUS_LINE_BYTES: Final = 13
_HEAD_END = re.compile(rb"\n\r?\n")
_INTERIM_END = re.compile(rb"\r\n(\r\n)|[^\r]\n")
_HEAD_END_BYTES: Final = 4
_FIRST_FINAL_STATUS: Final = 200
_FIRST_KEPT_STATUS: Final = 300
_SWITCHING_PROTOCOLS: Final = 101
_LONGEST_DIGITS: Final = 9
_KNOWN_ANSWERS: Final = 1_024
_KNOWN_BYTES: Final = 512
_LONGEST_PAUSE_SECONDS: Final = 21_600.0


def retry_after_seconds(value: str, *, wall_ms: int) -> float | None:
    """What a receiver asks for by Retry-After, 6 hours at most. None: nothing, or no time to come."""
    if value.isascii() and value.isdigit():
        seconds = float(value[:_LONGEST_DIGITS])
    elif (date := parsedate_tz(value)) is not None:
        try:
            seconds = mktime_tz(date) - wall_ms / 1000
        except (OverflowError, ValueError):
            return None
    else:
        return None
    return min(seconds, _LONGEST_PAUSE_SECONDS) if seconds > 0 else None


class KnownAnswers(dict[bytes, int]):
    """Short whole answers as they came in one piece, and their status: successes by HTTP/1.1 that end by themselves and
    leave the connection fit for use. A receiver gives the same ones again and again; one found here is not parsed."""

    def remember(self, data: bytes, status: int) -> None:
        if len(data) <= _KNOWN_BYTES:
            if len(self) >= _KNOWN_ANSWERS:
                self.clear()
            self[data] = status


class Answer:
    """Of one connection, request after request. `close` when the connection is: the parser leads back to it."""

    __slots__ = (
        "_answer_bytes",
        "_begun",
        "_body_bytes",
        "_excerpt_bytes",
        "_head",
        "_head_complete",
        "_headless",
        "_keep",
        "_keeps_head",
        "_known",
        "_parsed",
        "_parser",
        "_pieces",
        "_response_bytes",
        "_skips_head",
        "_unasked",
        "end",
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
        self._pieces: list[bytes] = []
        self.begin(bodiless=False, observed=False)

    def begin(self, *, bodiless: bool, observed: bool) -> None:
        """Another request is about to be written. `bodiless`: its answer has no body (HEAD)."""
        self.status = 0
        self.version = b""
        self.received = 0
        self.fed = False
        self.end: End | None = None
        self._headless = bodiless
        self._keeps_head = observed
        self._head_complete = self._parsed = self._keep = self._unasked = self._skips_head = False
        self._body_bytes = 0
        self._begun = b""
        self.forget()

    def forget(self) -> None:
        """Hold nothing more of what came: the connection may be idle for long."""
        self._head = b""
        if self._pieces:
            self._pieces = []

    def count(self, size: int) -> bool:
        """So many bytes came from the receiver, whatever they are. False: too many, since the request was written."""
        self.received += size
        if self.received <= self._answer_bytes:
            return True
        if self.end is None:
            self.end = "too-long"
        return False

    def feed(self, data: bytes) -> None:
        """Bytes of the answer, which were counted. Nothing may be fed after the end. `fed`: there were any."""
        if self.fed or self._keeps_head or self._headless:
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
        if self.reusable and self.version == b"1.1" and self.status < _FIRST_KEPT_STATUS:
            self._known.remember(data, self.status)

    def _parse(self, data: bytes) -> None:
        if not self.status:
            data = self._find_status(data)
            if not data:
                return
        if not self._head_complete and self._keeps_head:
            self._head += data
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._keep = False
            if self.end is None:
                self.end = "broken"
            return
        if self.end == "complete" and self._headless:
            # The parser may wait for the body that the head speaks of; and what follows the head was not asked for.
            if not data.endswith(b"\r\n\r\n") or data.find(b"\r\n\r\n") != len(data) - 4:
                self._unasked = True
            self._parser = httptools.HttpResponseParser(self)

    def _find_status(self, data: bytes) -> bytes:
        """What of it belongs to the final answer, once that has begun."""
        begun, at = self._begun + data if self._begun else data, 0
        while True:
            if self._skips_head:
                end = _INTERIM_END.search(begun, at)
                if end is None:
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
                if status >= _FIRST_KEPT_STATUS or match[1] == b"1.0":
                    self._keeps_head = True
                if self._keeps_head:
                    self._head = bytearray()
                return begun[at:] if at else begun
            if status < 100 or status == _SWITCHING_PROTOCOLS:
                break
            # From its last digit on: the line may end right after it.
            at, self._skips_head = match.end() - 2, True
        self.end, self._begun = "malformed", b""
        return b""

    def on_message_begin(self) -> None:
        if self.end is not None:
            self._unasked = True

    def on_headers_complete(self) -> None:
        if self.end is not None:
            return
        self._head_complete = True
        if self._headless:
            self._complete()

    def on_body(self, piece: bytes) -> None:
        if self.end is not None:
            self._unasked = True
            return
        if self._keeps_head and self._body_bytes < self._excerpt_bytes:
            self._pieces.append(piece[: self._excerpt_bytes - self._body_bytes])
        self._body_bytes += len(piece)
        if self._body_bytes > self._response_bytes:
            self.end = "too-long"

    def on_message_complete(self) -> None:
        if self.end is None:
            self._complete()

    def _complete(self) -> None:
        # HTTP/1.0 knows no Transfer-Encoding: a proxy on the way may see another end of such an answer.
        faulty = self.version == b"1.0" and "transfer-encoding" in self._names()
        self._keep = not faulty and self._parser.should_keep_alive()
        self.end = "complete"

    @property
    def reusable(self) -> bool:
        """Whether another request may follow on the connection: the answer is complete, by its own framing, and
        nothing came after it."""
        return self._keep and not self._unasked and self.end == "complete"

    @property
    def excerpt(self) -> str:
        """The beginning of the body, kept of answers from 300 on and of those observed."""
        return b"".join(self._pieces).decode(errors="replace")

    def fields(self) -> list[tuple[str, str]]:
        """The headers of the final answer as far as they came, kept as the excerpt is, and of HTTP/1.0."""
        head = bytes(self._head)
        end = _HEAD_END.search(head)
        lines = (head if end is None else head[: end.start()]).decode("latin-1").split("\n")[1:]
        return [(name, value.strip()) for name, colon, value in (line.partition(":") for line in lines) if colon]

    def ends_with_connection(self) -> bool:
        """Whether it has no end of its own, so that the connection's end is a proper one. For kept heads."""
        framing = self._names() & {"content-length", "transfer-encoding"}
        return self._head_complete and not framing and self.end is None

    def _names(self) -> set[str]:
        return {name.lower() for name, _ in self.fields()}

    def close(self) -> None:
        self._parser = None
