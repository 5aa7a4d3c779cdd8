"""A trial call: one call made at once for somebody who wants to see what his receiver makes of it. Nothing of it is
kept.

It is built, signed, judged and sent as a schedule's call is, and marked, so that a receiver can tell it from one.
"""

from typing import Final

import msgspec

from membership.errors import MinutehandError
from scheduler_service.domain.clients import Client
from scheduler_service.domain.errors import Overloaded
from scheduler_service.domain.schedules import Definition

TRIAL_HEADER: Final = ("Minutehand-Trial", "true")
"""Goes with trial calls only."""


class TrialCall(msgspec.Struct, frozen=True, kw_only=True):
    """What to send for whom. The id of `definition` names no schedule; `secrets` are the raw bytes of those active."""

    client: Client
    definition: Definition
    secrets: tuple[bytes, ...]


class TrialCallTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds from the start until so much was done; None: it never was (of TLS also: there was none)."""

    resolved: float | None = None
    connected: float | None = None
    secured: float | None = None
    first_byte: float | None = None
    ended: float


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """What was sent and what came back. `status` or `error` with `detail`, never both; `delivered` is what a schedule
    would be said to be. `sent`: at least a part of the request left. `addresses` are those that a connection was tried
    to, in order, as host:port; what the network policy refused is not told. `connected_to` is the one that took it."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    started_at: int
    sent: bool
    delivered: bool
    addresses: tuple[str, ...] = ()
    connected_to: str | None = None
    times: TrialCallTimes
    status: int | None = None
    http_version: str | None = None
    response_headers: tuple[tuple[str, str], ...] = ()
    excerpt: str = ""
    error: str | None = None
    detail: str = ""


class TrialCallsFull(Overloaded):
    """All clients' trial calls together are as many as this process makes."""


class TooManyTrialCalls(MinutehandError):
    """The client has as many under way, or has had as many of late, as it may."""

    def __init__(self, detail: str, *, retry_after_seconds: float) -> None:
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds
