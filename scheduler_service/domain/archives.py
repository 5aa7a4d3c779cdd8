"""Days of clients in the archive: Spark writes them, and retention may wait for them.

A day is archived as of an instant: it holds every row as it was then, all of them ended. A row that ends or is
redelivered later is not in it, so retention keeps that row's minute and marks the day as stale; the next archive run
adds what is new. The two instants come from different clocks, so a day is archived as of an instant `RUN_CLOCKS_MS`
before its run, and not at all while an outcome in it is younger than that.
"""

from uuid import UUID

import msgspec

from scheduler_service.domain.ids import DAY_MS, ClientId, UnixMillis
from scheduler_service.domain.schedules import Row

RUN_CLOCKS_MS = 600_000
"""How much the clock of a run may differ from those of the nodes: far more than nodes accept from each other."""

RunId = UUID


class ArchivedDay(msgspec.Struct, frozen=True, kw_only=True):
    """One UTC day of a client, which begins at `day`. `rows`: how many there are, of all kinds; 0: it has no file.
    `digest`: a sum over their contents. `place`: the archive's directory, as a URL. `past_retention`: the day was older
    than its client's retention when it was read, so it is complete only if retention waits. `stale`: a row of it ended
    again later."""

    client_id: ClientId
    day: UnixMillis
    as_of: UnixMillis
    rows: int
    digest: str
    place: str
    past_retention: bool = False
    stale: bool = False

    def holds(self, row: Row) -> bool:
        """Whether the archive has this row's present outcome."""
        return max(row.finished_at or 0, row.redelivered_at or 0) < self.as_of


def day_of(instant: int) -> UnixMillis:
    """The beginning of the UTC day that an instant is in."""
    return UnixMillis(instant // DAY_MS * DAY_MS)
