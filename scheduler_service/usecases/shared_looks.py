"""Looks at storage that several callers make at the same moment: one asks storage, and all take its answer."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from scheduler_service.runtime.clock import Clock

FEWEST_SWEPT = 1_000
"""Answers that are kept before those that are too old are dropped."""
KEPT_FACTOR: Final = 10.0

T = TypeVar("T")


@dataclass(slots=True)
class _Answer:
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    value: Any = None
    until: float = -math.inf


class SharedLooks:
    """Keeps answers for fractions of a minute. Not for what must be seen by a read that begins after it was written."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answers: dict[Hashable, _Answer] = {}
        self._sweep_at = FEWEST_SWEPT

    def __len__(self) -> int:
        return len(self._answers)

    async def look(self, key: Hashable, read: Callable[[], Awaitable[T]], *, keep: Callable[[T], float]) -> T:
        """What `read` answers, or answered to another caller with this key not longer than `keep` seconds ago. A caller
        that comes while another one reads waits for it. Raises what `read` raises, which is not kept."""
        if (answer := self._answers.get(key)) is None:
            self._sweep()
            answer = self._answers[key] = _Answer()
        async with answer.reading:
            if self._clock.monotonic() < answer.until:
                kept: T = answer.value
                return kept
            answer.value, answer.until = None, -math.inf
            value = await read()
            if (seconds := keep(value)) > 0:
                answer.value, answer.until = value, self._clock.monotonic() + seconds
            return value

    def _sweep(self) -> None:
        if len(self._answers) < self._sweep_at:
            return
        now = self._clock.monotonic()
        self._answers = {
            key: answer for key, answer in self._answers.items() if answer.until > now or answer.reading.locked()
        }
        self._sweep_at = max(FEWEST_SWEPT, 2 * len(self._answers))


class KeptLook(Generic[T]):
    """A look that takes many reads. It is kept for `KEPT_FACTOR` times as long as it took, and `least_seconds` at
    least: so it takes up at most a tenth of the time, however often it is asked for."""

    def __init__(self, read: Callable[[], Awaitable[T]], *, least_seconds: float, clock: Clock) -> None:
        self._read = read
        self._least_seconds = least_seconds
        self._clock = clock
        self._reading = asyncio.Lock()
        self._kept: T
        self._until = -math.inf

    async def __call__(self) -> T:
        """Raises what `read` raises, which is not kept."""
        async with self._reading:
            began = self._clock.monotonic()
            if began >= self._until:
                self._kept = await self._read()
                ended = self._clock.monotonic()
                self._until = ended + max(self._least_seconds, KEPT_FACTOR * (ended - began))
            return self._kept
