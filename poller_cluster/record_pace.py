"""How long outcomes wait for others to share their advance: longer on a node with many busy minutes.

An advance costs the store about as much as a hundred of its rows (2.7 ms of Cassandra's CPU for 30 rows, 6 ms for 250),
so a node with many lanes that each call now and then would spend most of the cluster on them. What waits is in doubt
should the node crash: so it waits no longer than the rate of advances needs, and never beyond a bound.

The rows of an advance are bounded too (`record_rows`). Cassandra's CPU seconds per 1,000 rows, and milliseconds of one
advance (medians of 12 rounds of `tests.bench.rows`, outcomes in columns, two cores that had much else to do):

    rows        130      250      500    1,000
    CPU       0.025    0.019    0.018    0.016
    p50, p99  20, 214  33, 235  54, 383  69, 499
    heartbeats written beside: p50 22, 32, 35, 33; p99 116, 121, 209, 364

Beyond 500 little is saved, and one advance takes long. With at most 250 a node that had 60,000 rows due at once wrote
98 to 124 of them an advance: a third of its advances only claimed, and of the others a third to a half were full. So
the bound by time, and claims, say more than this one.
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
