"""One answer as its bytes come: its status, where it ends, and what it may take. Sans-IO: fed bytes, asked what holds.

    begin --feed, while `end` is None--> "complete" | "malformed" | "broken" | "too-long"

A final status (200 and above) is known from its status line alone; what comes to be wrong after it ends the answer and
leaves the status. Of lines that are no status line, and of 101, the end is `malformed`; of all else below 200 there may
be any number before the final one. llhttp (`httptools`) reads the rest: it decides where the answer ends, and refuses
what other readers might take for another end (Content-Length twice or beside Transfer-Encoding, folded headers, lines
without CR): such an answer is `broken`.
"""

import re
from email.utils import mktime_tz, parsedate_tz
from typing import Any, Final, Literal

import httptools

End = Literal["complete", "malformed", "broken", "too-long"]

_STATUS_LINE = re.compile(rb"HTTP/(1\.[01])[ \t]([0-9]{3})[^0-9]")
_STATUS_LINE_BYTES: Final = 13
_HEAD_END = re.compile(rb"\n\r?\n")
_FIRST_FINAL_STATUS: Final = 200
_SWITCHING_PROTOCOLS: Final = 101
_LONGEST_DIGITS: Final = 9
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
        "_parsed",
        "_parser",
        "_pieces",
        "_read_from",
        "_response_bytes",
        "_skips_head",
        "_unasked",
        "end",
        "fed",
        "received",
        "status",
        "version",
    )

    def __init__(self, *, response_bytes: int, framing_bytes: int, excerpt_bytes: int) -> None:
        self._response_bytes = response_bytes
        self._answer_bytes = response_bytes + framing_bytes
        self._excerpt_bytes = excerpt_bytes
        self._parser: Any = httptools.HttpResponseParser(self)
        self._pieces: list[bytes] = []
        self._begun = bytearray()
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
        self._head: bytes | bytearray = b""
        self._head_complete = self._parsed = self._keep = self._unasked = self._skips_head = False
        self._body_bytes = self._read_from = 0
        if self._pieces:
            self._pieces = []
        if self._begun:
            self._begun = bytearray()

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
        self.fed = True
        if not self.status:
            self._find_status(data)
        elif not self._head_complete and self._keeps_head:
            self._head += data
        if self.end == "malformed":
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._keep = False
            if self.end is None:
                self.end = "broken" if self.status else "malformed"
            return
        if self.end == "complete" and self._headless:
            # The parser may wait for the body that the head speaks of; and what follows the head was not asked for.
            if not data.endswith(b"\r\n\r\n") or data.find(b"\r\n\r\n") != len(data) - 4:
                self._unasked = True
            self._parser = httptools.HttpResponseParser(self)

    def _find_status(self, data: bytes) -> None:
        if not self._begun:
            match = _STATUS_LINE.match(data)
            if match is not None and (status := int(match[2])) >= _FIRST_FINAL_STATUS:
                self._found(status, match[1], data)
                return
        begun = self._begun
        begun += data
        at = 0
        while True:
            if self._skips_head:
                end = _HEAD_END.search(begun, max(at, self._read_from))
                if end is None:
                    self._read_from = max(len(begun) - at - 2, 0)
                    break
                at, self._skips_head, self._read_from = end.end(), False, 0
            match = _STATUS_LINE.match(begun, at)
            if match is None:
                rest = begun[at : at + _STATUS_LINE_BYTES]
                if len(rest) == _STATUS_LINE_BYTES or b"\n" in rest:
                    self.end = "malformed"
                break
            status = int(match[2])
            if status >= _FIRST_FINAL_STATUS:
                self._found(status, match[1], begun[at:])
                return
            if status < 100 or status == _SWITCHING_PROTOCOLS:
                self.end = "malformed"
                break
            self._skips_head = True
            self._read_from = match.end() - 1
        del begun[:at]

    def _found(self, status: int, version: bytes, head: bytes | bytearray) -> None:
        self.status = status
        self.version = version
        if status >= 300 or self._keeps_head:
            self._keeps_head = True
            self._head = bytearray(head)

    def on_message_begin(self) -> None:
        if self.end is not None:
            self._unasked = True

    def on_headers_complete(self) -> None:
        if self.end is not None or self._parser.get_status_code() < _FIRST_FINAL_STATUS:
            return
        self._head_complete = True
        if self._headless:
            self._keep = self._parser.should_keep_alive()
            self.end = "complete"

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
        if self._head_complete and self.end is None:
            self._keep = self._parser.should_keep_alive()
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
        """The headers of the final answer as far as they came, kept as the excerpt is."""
        head = bytes(self._head)
        end = _HEAD_END.search(head)
        lines = (head if end is None else head[: end.start()]).decode("latin-1").split("\n")[1:]
        return [(name, value.strip()) for name, colon, value in (line.partition(":") for line in lines) if colon]

    def ends_with_connection(self) -> bool:
        """Whether it has no end of its own, so that the connection's end is a proper one. For kept heads."""
        framing = {name.lower() for name, _ in self.fields()} & {"content-length", "transfer-encoding"}
        return self._head_complete and not framing and self.end is None

    def close(self) -> None:
        self._parser = None
