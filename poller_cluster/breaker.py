"""A breaker: keeps calls away from a host that does nothing but fail, and tries it again with few. Pure.

    closed --failures in a row--> open --its time is over--> half-open --a success--> closed
                                   ^-----------a failure: twice as long-----'

What counts as a failure is what a gateway would call one of the host, not of the single request: no connection, no
answer in time, an answer that is no HTTP, 5xx, and 429. Any other status shows that somebody is there and resets the
count. Counting failures in a row is what Envoy's outlier detection does (`consecutive_5xx`, with the ejection time
growing by the number of ejections); doubling the time is Nygard's circuit breaker with the field's usual backoff
("Release It!", 2007). Our own endings (refused by policy, trust lost, engine stopped) say nothing of the host.

Several attempts are under way when a breaker opens; what they come to later is not counted again: every attempt
remembers the breaker's `generation`, which changes with each opening and closing.
"""

from enum import Enum

from poller_cluster.delivery.result import AttemptResult
from poller_cluster.settings import DestinationSettings

_HOST_ERRORS = frozenset(
    {"connect-failed", "connect-refused", "resolve-failed", "tls-failed", "timeout", "reset", "bad-response"}
)
_TOO_MANY_REQUESTS = 429
_LARGEST_DOUBLING = 30


class Health(Enum):
    """What one attempt says of its host."""

    GOOD = "good"
    BAD = "bad"
    SILENT = "silent"


def health(result: AttemptResult) -> Health:
    """See the module for what counts as what."""
    if result.status is not None:
        bad = result.status >= 500 or result.status == _TOO_MANY_REQUESTS
        return Health.BAD if bad else Health.GOOD
    return Health.BAD if result.error in _HOST_ERRORS else Health.SILENT


class Breaker:
    """Of one (client, host). Every `now` is monotonic seconds."""

    __slots__ = ("_failures", "_opened", "_settings", "generation", "until")

    def __init__(self, settings: DestinationSettings) -> None:
        self._settings = settings
        self._failures = 0
        self._opened = 0
        self.generation = 0
        self.until = 0.0
        """While open: when the host may be tried again."""

    @property
    def closed(self) -> bool:
        return self._opened == 0

    @property
    def spotless(self) -> bool:
        """Nothing would be forgotten with it."""
        return self._opened == 0 and self._failures == 0

    def is_open(self, now: float) -> bool:
        """Closed to everybody; afterwards it is half-open until somebody's attempt has ended."""
        return self._opened > 0 and now < self.until

    @property
    def open_seconds(self) -> float:
        """How long this opening lasts as a whole."""
        settings = self._settings
        doubled = settings.breaker_open_seconds * 2.0 ** min(max(self._opened - 1, 0), _LARGEST_DOUBLING)
        return min(settings.breaker_longest_seconds, doubled)

    def ended(self, came_to: Health, *, generation: int, now: float) -> bool:
        """An attempt begun under `generation` has ended. True when that opened or closed the breaker."""
        if generation != self.generation or came_to is Health.SILENT:
            return False
        if came_to is Health.GOOD:
            self._failures = 0
            changed, self._opened = self._opened > 0, 0
            self.generation += changed
            return changed
        if self.is_open(now):
            return False
        self._failures += 1
        if self._opened == 0 and self._failures < self._settings.breaker_failures:
            return False
        self._failures = 0
        self._opened += 1
        self.generation += 1
        self.until = now + self.open_seconds
        return True
