"""What an observing engine records of an attempt beside its result."""

from typing import Any, Final

from poller_cluster.delivery.answer import Answer
from poller_cluster.delivery.http2.stream import Stream
from poller_cluster.delivery.result import Observation

MAX_HEADERS: Final = 64
MAX_HEADER_BYTES: Final = 8_192
"""Bounds on the kept headers of an answer."""


AnyAnswer = Answer | Stream[Any]


class Sight:
    """The record of one attempt; instants are monotonic seconds."""

    def __init__(self, *, started: float, head: bytes) -> None:
        """`head`: the bytes to write over HTTP/1.1. `sent`: the headers that were written over HTTP/2 instead."""
        self._started = started
        self._head = head
        self.sent: tuple[tuple[str, str], ...] | None = None
        self.addresses: list[str] = []
        self.connected_to: str | None = None
        self.resolved: float | None = None
        self.connected: float | None = None
        self.secured: float | None = None
        self.first_byte: float | None = None

    def observation(self, answer: AnyAnswer | None) -> Observation:
        answered = answer is not None and answer.status > 0
        return Observation(
            headers=_headers(self._head) if self.sent is None else self.sent,
            addresses=tuple(self.addresses),
            connected_to=self.connected_to,
            resolved_seconds=self._since_start(self.resolved),
            connected_seconds=self._since_start(self.connected),
            secured_seconds=self._since_start(self.secured),
            first_byte_seconds=self._since_start(self.first_byte) if answered else None,
            http_version=answer.version.decode() if answer is not None and answered else None,
            response_headers=kept_headers(answer.fields()) if answer is not None else (),
        )

    def _since_start(self, instant: float | None) -> float | None:
        return None if instant is None else instant - self._started


def _headers(head: bytes) -> tuple[tuple[str, str], ...]:
    lines = head.decode("ascii").split("\r\n")[1:]
    return tuple((name, value.strip()) for name, colon, value in (line.partition(":") for line in lines) if colon)


def kept_headers(headers: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The first headers that fit the bounds."""
    kept, size = [], 0
    for name, value in headers[:MAX_HEADERS]:
        size += len(name) + len(value) + len(": \r\n")
        if size > MAX_HEADER_BYTES:
            break
        kept.append((name, value))
    return tuple(kept)


def socket_name(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
