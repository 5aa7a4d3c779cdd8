"""One request on an HTTP/2 connection and its answer; what `answer` is for HTTP/1.1."""

import re
from collections.abc import Sequence
from typing import Final, Generic, TypeVar

from poller_cluster.delivery.answer import AnswerBody, End
from scheduler_service.domain.end_notices import ANSWER_BYTES
from scheduler_service.domain.verbs import OF_SUCCESSES

A = TypeVar("A")

_SWITCHING_PROTOCOLS: Final = 101
_FIRST_FINAL_STATUS: Final = 200
_FIRST_KEPT_STATUS: Final = 300
_STATUS_DIGITS: Final = 3
_MOST_INTERIM: Final = 64
_NAME: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_OF_SUCCESSES: Final = frozenset(name.encode() for name in OF_SUCCESSES)
_VALUE: Final = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")

Header = tuple[bytes, bytes]


class Stream(AnswerBody, Generic[A]):
    """`number`: its id on the connection, 0 before it was written. `attempt`: None once that has ended. `on_kept`: the
    connection had brought an answer before. `heard_at_start`: the connection's `heard` when the request was written.

    `status`: 0 until the final head. `unacknowledged`: bytes not yet given back to its window. `left`: what may still
    come, as `session` counts it. `unsent`: the rest of the body; `outstanding`: bytes of it that the receiver has not
    given back to the window. `fed`: something of an answer came. `refused`: the receiver says that it did not process
    the request.
    """

    __slots__ = (
        "_headers",
        "_interim",
        "attempt",
        "fed",
        "heard_at_start",
        "left",
        "number",
        "on_kept",
        "outstanding",
        "refused",
        "status",
        "unacknowledged",
        "unsent",
    )

    version: Final = b"2"

    def __init__(
        self,
        attempt: A,
        *,
        response_bytes: int,
        framing_bytes: int,
        excerpt_bytes: int,
        observed: bool,
        kept: bool = False,
    ) -> None:
        self.attempt: A | None = attempt
        self.number = self.status = self.heard_at_start = self.unacknowledged = self.outstanding = 0
        self.end = None
        self.on_kept = self.fed = self.refused = self._unasked = False
        self.left = response_bytes + framing_bytes
        self.unsent: memoryview | None = None
        self._response_bytes = response_bytes
        self._excerpt_bytes = excerpt_bytes
        self._keeps = observed or kept
        self._kept_bytes = ANSWER_BYTES if kept else excerpt_bytes
        self._headers: list[Header] = []
        self._kept = bytearray()
        self._body_bytes = self._interim = 0

    def hear_head(self, headers: Sequence[Header]) -> None:
        """The head of an interim answer or of the final one. Its status must come first and have three digits. Headers
        that are kept and would not be valid over HTTP/1.1 end the answer as `broken`."""
        if self.end is not None:
            return
        self.fed = True
        name, digits = headers[0] if headers else (b"", b"")
        status = int(digits) if name == b":status" and len(digits) == _STATUS_DIGITS and digits.isdigit() else 0
        if status < 100 or status == _SWITCHING_PROTOCOLS:
            self.end = "malformed"
        elif status >= _FIRST_FINAL_STATUS:
            self.status = status
            self._keeps = (
                self._keeps or status >= _FIRST_KEPT_STATUS or any(name in _OF_SUCCESSES for name, _ in headers)
            )
            if self._keeps:
                self._headers = list(headers[1:])
                if not all(_NAME.fullmatch(name) and _VALUE.fullmatch(value) for name, value in self._headers):
                    self._headers, self.end = [], "broken"
        else:
            self._interim += 1
            if self._interim > _MOST_INTERIM:
                self.end = "too-long"

    def hear_end(self, end: End) -> None:
        if self.end is None:
            self.end = end

    def hear_refusal(self) -> None:
        """The receiver says that it did not process the request; not believed if it has begun to answer."""
        self.refused = not self.fed
        self.hear_end("broken")

    @property
    def may_ask(self) -> bool:
        """Whether all headers are here, which may ask for something."""
        return self._keeps

    def forget(self) -> None:
        """Drop headers and excerpt."""
        self._headers, self._kept = [], bytearray()

    def fields(self) -> list[tuple[str, str]]:
        """The headers of the final answer; kept when the excerpt is."""
        return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in self._headers]
