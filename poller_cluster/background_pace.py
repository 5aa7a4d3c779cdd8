"""How much of storage the work for the past may use, judged by how storage answers everything a node asks. Pure.

    a window without a sign of overload      the pause is halved; without a pause one slot more
    more than 1 % of its requests were slow  a quarter of the slots less
    ... or were not answered                 half of the slots less; with one slot left, the pause doubles

More than 1 % slow is the same as a p99 above `slow_ms`. Slowness alone leaves one slot without pauses: then the calls
of the present are what storage is busy with, and one request at a time beside them does no harm. Requests without an
answer mean that storage is losing work, and what is lost is asked for again; then even one at a time may be too much.

Additive increase and multiplicative decrease let several nodes share one storage fairly without knowing of each other.
"""

from poller_cluster.settings import BackgroundSettings

WINDOW_SECONDS = 0.5
"""How long requests are gathered before they are judged."""
FIRST_SHARE = 0.25
"""Part of the slots at the start: storage may be cold, and every other node may have started too."""
BAD_SHARE = 0.01
FIRST_PAUSE_SECONDS = 0.1


class BackgroundPace:
    """Of one node. `now` is monotonic seconds, and never goes back."""

    __slots__ = ("_asked", "_began", "_settings", "_size", "_slow", "_unanswered", "pause_seconds", "shrunk")

    def __init__(self, settings: BackgroundSettings, *, now: float) -> None:
        self._settings = settings
        self._size = max(settings.requests_at_once * FIRST_SHARE, 1.0)
        self._began = now
        self._asked = self._slow = self._unanswered = 0
        self.pause_seconds = 0.0
        """From the end of one background request to the start of the next, about; above 0 only with one slot left."""
        self.shrunk = 0
        """Windows after which the node did less for the past."""

    @property
    def size(self) -> int:
        """Background requests that may be under way at once."""
        return int(self._size)

    def observe(self, seconds: float, *, answered: bool, now: float) -> bool:
        """A request ended, of whatever kind. True: `size` or `pause_seconds` may have changed."""
        self._asked += 1
        if not answered:
            self._unanswered += 1
        elif seconds * 1000 > self._settings.slow_ms:
            self._slow += 1
        if now - self._began < WINDOW_SECONDS:
            return False
        self._judge()
        self._began = now
        self._asked = self._slow = self._unanswered = 0
        return True

    def _judge(self) -> None:
        bearable = self._asked * BAD_SHARE
        if self._unanswered > bearable:
            self.shrunk += 1
            if self.size == 1:
                longer = max(self.pause_seconds * 2, FIRST_PAUSE_SECONDS)
                self.pause_seconds = min(longer, self._settings.longest_pause_seconds)
            self._size = max(self._size / 2, 1.0)
        elif self._slow + self._unanswered > bearable:
            self.shrunk += 1
            self._size = max(self._size * 0.75, 1.0)
        elif self.pause_seconds > 0:
            halved = self.pause_seconds / 2
            self.pause_seconds = halved if halved >= FIRST_PAUSE_SECONDS else 0.0
        else:
            self._size = min(self._size + 1, float(self._settings.requests_at_once))
