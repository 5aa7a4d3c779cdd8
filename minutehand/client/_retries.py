"""When a request that got no answer, or one that says "later", is sent again."""

import asyncio
import random
import time
import uuid
from dataclasses import dataclass
from typing import Protocol

from minutehand.client._errors import MinutehandApiError, MinutehandClientError, MinutehandUnreachable

DEFAULT_RETRIES = 4
DEFAULT_DEADLINE_SECONDS = 60.0
_BASE_SECONDS = 0.2
_CAP_SECONDS = 10.0
_LATER = (429, 503)


class Pace(Protocol):
    """Time and chance, as retries need them. For tests; nobody else has to name one."""

    def monotonic(self) -> float:
        """Seconds."""

    def fraction(self) -> float:
        """Uniform in [0, 1)."""

    def new_key(self) -> str:
        """An idempotency key that nobody has used."""

    def sleep(self, seconds: float) -> None: ...

    async def sleep_async(self, seconds: float) -> None: ...


class SystemPace:
    """The real ones."""

    def monotonic(self) -> float:
        return time.monotonic()

    def fraction(self) -> float:
        return random.random()  # noqa: S311

    def new_key(self) -> str:
        return str(uuid.uuid4())

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def sleep_async(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Limits:
    """How often an operation is repeated at most, and how long after its first request, in seconds, the last one is
    begun."""

    retries: int
    deadline_seconds: float

    def __post_init__(self) -> None:
        if self.retries < 0 or self.deadline_seconds < 0:
            raise ValueError("retries and retry_deadline_seconds can't be negative")


class Turns:
    """The requests of one operation. It begins with the first."""

    def __init__(self, limits: Limits, pace: Pace) -> None:
        self._limits = limits
        self._pace = pace
        self._began = pace.monotonic()
        self._done = 0

    def pause_after(self, error: MinutehandClientError) -> float | None:
        """Seconds to wait before the same again: what the API asks for, and on top of it 0.2 s, doubled with every turn
        up to 10 s, with half jitter. None: give up."""
        if self._done >= self._limits.retries or not is_passing(error):
            return None
        backoff = min(_CAP_SECONDS, _BASE_SECONDS * 2.0**self._done)
        asked = error.retry_after_seconds if isinstance(error, MinutehandApiError) else None
        pause = (asked or 0.0) + backoff * (1 + self._pace.fraction()) / 2
        if self._pace.monotonic() + pause > self._began + self._limits.deadline_seconds:
            return None
        self._done += 1
        return pause


def is_passing(error: MinutehandClientError) -> bool:
    """Whether the same request may succeed a little later."""
    if isinstance(error, MinutehandApiError):
        return error.status in _LATER
    return isinstance(error, MinutehandUnreachable) and error.passing


def was_refused(error: MinutehandClientError) -> bool:
    """Whether the API says that nothing was done, for want of room in a rate: whatever it was may be sent again."""
    return isinstance(error, MinutehandApiError) and error.status == 429
