"""How many rows each running minute may hold in memory: an even part of what the node has for rows.

What does not fit stays in Cassandra and is read when there is room. A row takes about `ROW_BYTES` beside its texts
(1,000,000 rows of 200 bytes over 256 lanes took 1.3 GB where every minute held 2,000 of them).
"""

from collections.abc import Sequence

from poller_cluster.settings import MinuteSettings
from scheduler_service.domain.schedules import Row

ROW_BYTES = 2_000
FEWEST_ROWS = 50
"""A minute goes on with so few, whatever they take."""
_MIB = 1024 * 1024
_FADING = 0.9


class RowWindow:
    """One per node. Knows how large rows are from the pages that were read lately: at once of larger ones, by and by of
    smaller ones."""

    __slots__ = ("_bytes_a_row", "_minutes", "_settings")

    def __init__(self, settings: MinuteSettings) -> None:
        self._settings = settings
        self._minutes = 0
        self._bytes_a_row = float(ROW_BYTES)

    def changed(self, by: int) -> None:
        """That many more minutes run, or fewer."""
        self._minutes += by

    def read(self, rows: Sequence[Row]) -> None:
        """A page came."""
        if rows:
            texts = sum(len(row.body or b"") + len(row.url or "") + len(row.headers or "") for row in rows)
            found = ROW_BYTES + texts / len(rows)
            self._bytes_a_row = max(found, _FADING * self._bytes_a_row + (1 - _FADING) * found)

    @property
    def rows(self) -> int:
        """Of each minute."""
        budget = self._settings.rows_memory_mb * _MIB / self._bytes_a_row
        return max(min(int(budget / max(self._minutes, 1)), self._settings.window_rows), FEWEST_ROWS)
