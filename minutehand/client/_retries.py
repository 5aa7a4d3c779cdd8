"""When a request that got no answer, or a temporary refusal, is sent again."""

from dataclasses import dataclass
from typing import Any

from minutehand.client._calls import Operation
from minutehand.client._errors import MinutehandApiError, MinutehandClientError, MinutehandUnreachable
from minutehand.client._once import REFUSED, Tokens
from minutehand.client._runtime import Runtime

DEFAULT_RETRIES = 4
DEFAULT_DEADLINE_SECONDS = 60.0
_BASE_SECONDS = 0.2
_CAP_SECONDS = 10.0
_LATER = (429, 503)
_CLOCK_IN_DOUBT = "clock-in-doubt"


@dataclass(frozen=True, slots=True)
class Limits:
    """How often an operation is repeated at most, and how many seconds after its first request the last repeat may
    begin."""

    retries: int
    deadline_seconds: float

    def __post_init__(self) -> None:
        if self.retries < 0 or self.deadline_seconds < 0:
            raise ValueError("retries and retry_deadline_seconds can't be negative")


class Turns:
    """The requests of one operation, which all do the same.

    At most one of `token` and `key` makes them idempotent. A token that is refused before anything under it may have
    taken effect is replaced by a key. After that point repeats must carry the same token, since a key could create the
    schedule twice: where an API knows no tokens, another one is asked.
    """

    def __init__(self, operation: Operation[Any], *, limits: Limits, runtime: Runtime, tokens: Tokens) -> None:
        self._operation = operation
        self._tokens = tokens
        self._limits = limits
        self._runtime = runtime
        self._began = runtime.monotonic()
        self._done = 0
        self._perhaps_made = False
        self.token: str | None = None
        self.key = operation.idempotency_key
        # A key costs the API a conditional write, so none is generated for what is never repeated, and no token either.
        if operation.keyed and self.key is None and limits.retries > 0:
            if operation.creating is not None:
                self.token = tokens.new(operation.creating)
            if self.token is None:
                self.key = runtime.new_key()

    def pause_after(self, error: MinutehandClientError) -> float | None:
        """Seconds to wait before the repeat: what the API asks for plus 0.2 s, doubled with every repeat up to 10 s,
        with half jitter. None: give up. Raises MinutehandUnreachable instead of a refusal that says nothing about the
        earlier request."""
        unknown = self.token is not None and is_token_unknown(error)
        if unknown:
            self._tokens.rest()
        if self.token is not None and not self._perhaps_made and (unknown or is_token_refused(error)):
            self.token, self.key = None, self._runtime.new_key()
            return 0.0
        pause = self._pause_after(error, passing=unknown or is_passing(error))
        if pause is None and unknown:
            raise MinutehandUnreachable(
                "a create got no answer and may have been made; the API that it was repeated to knows no tokens",
                passing=True,
            ) from error
        return pause

    def _pause_after(self, error: MinutehandClientError, *, passing: bool) -> float | None:
        if not (self._operation.repeatable or was_refused(error)):
            return None
        if self._done >= self._limits.retries or not passing:
            return None
        backoff = min(_CAP_SECONDS, _BASE_SECONDS * 2.0**self._done)
        asked = error.retry_after_seconds if isinstance(error, MinutehandApiError) else None
        pause = (asked or 0.0) + backoff * (1 + self._runtime.fraction()) / 2
        if self._runtime.monotonic() + pause > self._began + self._limits.deadline_seconds:
            return None
        self._done += 1
        self._perhaps_made = self._perhaps_made or perhaps_done(error)
        return pause


def is_token_refused(error: MinutehandClientError) -> bool:
    return isinstance(error, MinutehandApiError) and error.kind == REFUSED


def is_token_unknown(error: MinutehandClientError) -> bool:
    """Whether the API is of a version without this parameter."""
    return isinstance(error, MinutehandApiError) and any(fault.pointer == "/once" for fault in error.errors)


def is_passing(error: MinutehandClientError) -> bool:
    """Whether a repeat may succeed a little later."""
    if isinstance(error, MinutehandApiError):
        return error.status in _LATER
    return isinstance(error, MinutehandUnreachable) and error.passing


def was_refused(error: MinutehandClientError) -> bool:
    """Whether a rate limit refused the request before anything was done: then any request may be repeated."""
    return isinstance(error, MinutehandApiError) and error.status == 429


def perhaps_done(error: MinutehandClientError) -> bool:
    """Whether the request may have taken effect. It may even after 503 `overloaded`: the row of a late create can be
    stored when the queue has no room for its requeue."""
    if isinstance(error, MinutehandUnreachable):
        return error.sent
    return not (was_refused(error) or (isinstance(error, MinutehandApiError) and error.kind == _CLOCK_IN_DOUBT))
