"""How long outcomes wait for others to share their advance: longer on a node with many busy minutes.

An advance costs the store about as much as a hundred of its rows (2.7 ms of Cassandra's CPU for 30 rows, 6 ms for 250),
so a node with many lanes that each call now and then would spend most of the cluster on them. What waits is in doubt
should the node crash: so it waits no longer than the rate of advances needs, and never beyond a bound.
"""

from poller_cluster.settings import MinuteSettings


class RecordPace:
    """One per node. A minute is busy while rows of it are claimed."""

    __slots__ = ("_busy", "_settings")

    def __init__(self, settings: MinuteSettings) -> None:
        self._settings = settings
        self._busy = 0

    def changed(self, by: int) -> None:
        """That many more minutes are busy, or fewer."""
        self._busy += by

    @property
    def record_after_ms(self) -> int:
        """So that all busy minutes together write about `advances_per_second`, within the two bounds."""
        even = self._busy * 1000 // self._settings.advances_per_second
        return max(self._settings.record_after_ms, min(even, self._settings.record_after_longest_ms))
