"""What bounds all minutes of a node together: how often they write, how many rows they hold, how many read at once."""

import asyncio
from collections.abc import Sequence

from poller_cluster.settings import MinuteSettings
from scheduler_service.domain.schedules import Row

ROW_BYTES = 2_000
FEWEST_ROWS = 50
"""Every minute may hold this many rows, whatever memory they take, so that it makes progress."""
_MIB = 1024 * 1024
_FADING = 0.9


class RecordPace:
    """How long outcomes wait to share a commit: longer on a node with many busy minutes.

    A commit costs the store about as much as a hundred of its rows (2.7 ms of Cassandra's CPU for 30 rows, 6 ms for
    250), so the commits of many pollers with few calls each would take most of the cluster. Waiting outcomes are in
    doubt if the node crashes, so they wait no longer than the rate of commits requires, and never beyond a bound.

    The rows of a commit are bounded too (`record_rows`). Cassandra's CPU seconds per 1,000 rows, and milliseconds of
    one commit (medians of 12 rounds of `tests.bench.rows`, outcomes in columns, two cores with other load):

        rows        130      250      500    1,000
        CPU       0.025    0.019    0.018    0.016
        p50, p99  20, 214  33, 235  54, 383  69, 499
        heartbeats written meanwhile: p50 22, 32, 35, 33; p99 116, 121, 209, 364

    Beyond 500 little is saved, and one commit takes long. With a bound of 250, a node that had 60,000 rows due at once
    wrote 98 to 124 of them a commit: a third of its commits only claimed, and of the others a third to a half were
    full. So the size of a commit depends more on the bound by time, and on claims, than on this bound.

    One per node. A minute is busy while rows of it are claimed.
    """

    __slots__ = ("_busy", "_settings")

    def __init__(self, settings: MinuteSettings) -> None:
        self._settings = settings
        self._busy = 0

    def changed(self, by: int) -> None:
        """The number of busy minutes changed by `by`."""
        self._busy += by

    @property
    def record_after_ms(self) -> int:
        """Such that all busy minutes together write about `commits_per_second` commits, within the two bounds."""
        even = self._busy * 1000 // self._settings.commits_per_second
        return max(self._settings.record_after_ms, min(even, self._settings.record_after_longest_ms))


class RowWindow:
    """How many rows each running minute may hold in memory: an even part of the node's memory for rows.

    Rows that do not fit stay in Cassandra and are read when there is room. A row takes about `ROW_BYTES` beside its
    texts (1,000,000 rows of 200 bytes over 256 pollers took 1.3 GB where every minute held 2,000 of them).

    One per node. The row size is estimated from the pages read: it grows at once and shrinks by a moving average.
    """

    __slots__ = ("_bytes_a_row", "_minutes", "_settings")

    def __init__(self, settings: MinuteSettings) -> None:
        self._settings = settings
        self._minutes = 0
        self._bytes_a_row = float(ROW_BYTES)

    def changed(self, by: int) -> None:
        """The number of running minutes changed by `by`."""
        self._minutes += by

    def read(self, rows: Sequence[Row]) -> None:
        """A page was read."""
        if rows:
            texts = sum(len(row.body or b"") + len(row.url or "") + len(row.headers or "") for row in rows)
            found = ROW_BYTES + texts / len(rows)
            self._bytes_a_row = max(found, _FADING * self._bytes_a_row + (1 - _FADING) * found)

    @property
    def rows(self) -> int:
        """How many rows each minute may hold."""
        budget = self._settings.rows_memory_mb * _MIB / self._bytes_a_row
        return max(min(int(budget / max(self._minutes, 1)), self._settings.window_rows), FEWEST_ROWS)


class MinuteLimits:
    """What bounds all minutes of a node together: how often they write, how many rows they hold, how many read a page
    at once. One per node."""

    __slots__ = ("page_reads", "record_pace", "row_window")

    def __init__(self, settings: MinuteSettings) -> None:
        self.record_pace = RecordPace(settings)
        self.row_window = RowWindow(settings)
        self.page_reads = asyncio.Semaphore(settings.page_reads_at_once)
