"""How the ingest waits for what decides nothing yet: the API, and brokers of Kafka."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from minutehand.ingest.api import Later, pause_after
from minutehand.ingest.counts import IngestCounts, Waiting
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.logging import get_logger
from scheduler_service.runtime.randomness import Randomness

T = TypeVar("T")
_LOGGED_TURNS: Final = (4, 12)
_LOGGED_SECONDS: Final = 300.0
"""From one line about the same wait to the next, later on."""
_log = get_logger("minutehand.ingest")


async def until_decided(
    ask: Callable[[], Awaitable[T]], *, name: str, clock: Clock, randomness: Randomness, counts: IngestCounts
) -> T:
    """Ask again after growing pauses until there is an answer. `name`: who waits, such as a partition; `counts` has it
    meanwhile. Raises all but Later."""
    turn, logged_at = 0, clock.monotonic()
    try:
        while True:
            try:
                return await ask()
            except Later as later:
                counts.later["denied" if later.denied else "passing"] += 1
                pause, now = pause_after(later, turn, fraction=randomness.fraction()), clock.monotonic()
                if turn in _LOGGED_TURNS or (later.denied and turn == 0) or now - logged_at >= _LOGGED_SECONDS:
                    _log.warning("ingest-waits", partition=name, reason=later.reason)
                    logged_at = now
                waiting = counts.waiting.get(name)
                since = now if waiting is None else waiting.since
                counts.waiting[name] = Waiting(since, later.reason if later.denied else None)
                turn += 1
                await clock.sleep(pause)
    finally:
        counts.waiting.pop(name, None)
