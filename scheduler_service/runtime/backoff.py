"""Pauses between attempts to reach storage."""

from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.randomness import Randomness

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0


class Backoff:
    """Pauses that double up to `LONGEST_PAUSE_SECONDS`, each multiplied by a random factor of 0.5 to 1.5."""

    def __init__(self, *, clock: Clock, randomness: Randomness) -> None:
        self._clock = clock
        self._randomness = randomness
        self._pause = FIRST_PAUSE_SECONDS

    async def wait(self) -> None:
        pause, self._pause = self._pause, min(self._pause * 2, LONGEST_PAUSE_SECONDS)
        await self._clock.sleep(pause * (0.5 + self._randomness.fraction()))

    def reset(self) -> None:
        self._pause = FIRST_PAUSE_SECONDS
