"""The days of clients that are in the archive: Spark writes them there, retention may wait for it.

A day is archived as of an instant: it holds every row as it was then, all of them ended. Whatever ends or is
redelivered later is not in it, so retention keeps that row's minute and says that the day is stale; the next run of the
archive adds what is new. The two instants are of different clocks, so a day is archived as of an instant that lies
CLOCKS_MS before its run, and not at all while something in it is younger than that.
"""

from uuid import UUID

import msgspec

from scheduler_service.domain.ids import DAY_MS, ClientId, UnixMillis
from scheduler_service.domain.schedules import Row

CLOCKS_MS = 600_000
"""How much the clock of a run may differ from those of the nodes: far more than nodes let each other's."""

RunId = UUID


class ArchivedDay(msgspec.Struct, frozen=True, kw_only=True):
    """One UTC day of a client, which begins at `day`. `rows`: how many there are, all kinds; 0: there is no file of it.
    `digest`: what their contents add up to. `place`: the archive's directory, as a URL. `past_retention`: the day was
    older than its client's retention when it was read, so it is only whole if retention waits. `stale`: something in it
    ended again later."""

    client_id: ClientId
    day: UnixMillis
    as_of: UnixMillis
    rows: int
    digest: str
    place: str
    past_retention: bool = False
    stale: bool = False

    def holds(self, row: Row) -> bool:
        """Whether what became of this row is what the archive says."""
        return max(row.finished_at or 0, row.redelivered_at or 0) < self.as_of


def day_of(instant: int) -> UnixMillis:
    """The beginning of the UTC day that an instant is in."""
    return UnixMillis(instant // DAY_MS * DAY_MS)
