"""A trial call: one call made at once, to see how a receiver handles it. Nothing of it is stored.

It is built, signed, judged and sent as a schedule's call is, and marked, so that a receiver can tell it apart.
"""

from typing import Final

import msgspec

from membership.errors import MinutehandError
from scheduler_service.domain.clients import Client
from scheduler_service.domain.destinations import Destination
from scheduler_service.domain.errors import Overloaded
from scheduler_service.domain.schedules import Definition

TRIAL_HEADER: Final = ("Minutehand-Trial", "true")
"""Sent with trial calls only."""


class TrialCall(msgspec.Struct, frozen=True, kw_only=True):
    """What to send, for which client. The id of `definition` names no schedule; `secrets`: raw bytes of active ones;
    `private_keys`: those of active key pairs. `destination`: the one that the definition's URL names."""

    client: Client
    definition: Definition
    secrets: tuple[bytes, ...]
    private_keys: tuple[bytes, ...] = ()
    destination: Destination | None = None


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """The request that a call would make now, signed. `hidden`: names of headers whose values are a destination's."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    hidden: frozenset[str] = frozenset()


class TrialCallTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds from the start until each step was done; None: it was not reached (`secured`: or there was no TLS)."""

    resolved: float | None = None
    connected: float | None = None
    secured: float | None = None
    first_byte: float | None = None
    ended: float


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """What was sent and what came back. Has a `status`, or an `error` with `detail`, never both (and neither if a
    target that knows no statuses took the call); `delivered`: whether a
    schedule would count as delivered. `sent`: at least a part of the request left. `addresses`: those tried, in order,
    as host:port, without those that the network policy refused; `connected_to`: the one that accepted. `hidden` as of
    a preview. `verb`: what the answer asks for (`verbs`); `verb_ignored`: why a fire of a cron would not obey."""

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
    verb: str | None = None
    verb_ignored: str | None = None
    hidden: frozenset[str] = frozenset()


class TrialCallsFull(Overloaded):
    """This process has as many trial calls under way, of all clients, as it may."""


class TooManyTrialCalls(MinutehandError):
    """The client has as many trial calls under way, or has made as many recently, as it may."""

    def __init__(self, detail: str, *, retry_after_seconds: float) -> None:
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds
