"""How many rows each minute ahead holds, as the processes that place rows have counted them. Pure.

    rows acknowledged --count--> LoadCounts of the process --now and then--> its row of (client, hour) --sum--> readers

A create must not pay for it, so nothing is written with a row. Each process counts in memory what it has placed, less
what it has ended before its call, by client and minute. A write replaces a whole row, so it may be repeated. The sum
over all writers is the load.

The sum is near the truth, not equal to it. A process that is killed takes along what it has not written. A row is
missing if its write got no answer and was not repeated, and counts twice if an acknowledged create is repeated. Rows
that programs before this table placed were never counted. So loads inform; nothing may be decided by them that would
be wrong if they were.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from scheduler_service.domain.ids import HOUR_MS, MINUTES_PER_HOUR, ClientId, Hour, Minute, hour_of
from scheduler_service.runtime.randomness import Randomness

ALL_CLIENTS: Final = ClientId("$all")
"""Under this name each process also counts the rows of all clients."""
LOADS_KEPT_MS: Final = 7 * 24 * HOUR_MS
"""For how long after its hour a load can be read."""
MAX_COUNTED_HOURS: Final = 20_000
"""Hours of clients that a process keeps. More are forgotten once they are written: about 0.5 KB each."""
HOT_ROWS: Final = 125
"""Rows of one minute from which a process wants to know what others have placed in its hour: an eighth of what one
poller is guaranteed."""

_NOTHING: Final = (0,) * MINUTES_PER_HOUR


FREER_WITHIN: Final = 120
"""Minutes before and after a full one among which a freer one is looked for."""
_REMEMBERED: Final = 10_000
"""Freer minutes that are remembered, so that a crowd of creates for one minute looks for it once."""


class FullMinute(NamedTuple):
    """A minute that holds more than is guaranteed. `freer`: the nearest one that holds less; None: none is known."""

    rows: int
    guaranteed: int
    freer: Minute | None


class HourLoad(NamedTuple):
    """What one writer has placed in one hour, by minute. `loads` has 60 numbers, which may be negative: another writer
    has placed what this one ended."""

    hour: Hour
    writer: UUID
    loads: Sequence[int]


class Unwritten(NamedTuple):
    """A row to write, as of `version` of the counts."""

    client_id: ClientId
    load: HourLoad
    version: int


@dataclass(slots=True)
class _Counted:
    writer: UUID
    own: "array[int]" = field(default_factory=lambda: array("q", _NOTHING))
    totalled: "array[int]" = field(default_factory=lambda: array("q", _NOTHING))
    """What of `own` has been added to the rows of all clients."""
    others: "array[int] | None" = None
    """What other writers had placed when they were last read."""
    version: int = 0
    written: int = 0


class LoadCounts:
    """The counts of one process. An entry that was forgotten begins again as another writer, so that what was written
    before still counts."""

    __slots__ = ("_freer", "_hours", "_most", "_randomness")

    def __init__(self, randomness: Randomness, *, most_hours: int = MAX_COUNTED_HOURS) -> None:
        self._hours: dict[tuple[ClientId, int], _Counted] = {}
        self._randomness = randomness
        self._most = most_hours
        self._freer: dict[tuple[ClientId, int, int], Minute | None] = {}

    def __len__(self) -> int:
        return len(self._hours)

    def placed(self, client_id: ClientId, minute: int, rows: int) -> None:
        """Count rows of a minute; a negative number has ended before its call. Built-in clients' rows count nothing."""
        hour, at = divmod(minute, MINUTES_PER_HOUR)
        counted = self._hours.get((client_id, hour))
        if counted is None:
            if client_id.startswith("$"):
                return
            counted = self._of(client_id, hour)
        counted.own[at] += rows
        counted.version += 1

    def _of(self, client_id: ClientId, hour: int) -> _Counted:
        counted = self._hours.get((client_id, hour))
        if counted is None:
            counted = self._hours[client_id, hour] = _Counted(self._randomness.uuid4())
        return counted

    def unwritten(self, *, limit: int) -> list[Unwritten]:
        """At most about `limit` rows that have changed since they were written, those waiting longest first, and those
        of all clients with them."""
        waiting = [key for key, counted in self._hours.items() if counted.version > counted.written]
        own = [key for key in waiting if key[0] != ALL_CLIENTS][:limit]
        totals = {key: None for key in waiting if key[0] == ALL_CLIENTS}
        for key in own:
            for hour in self._total(key):
                totals[ALL_CLIENTS, hour] = None
        return [self._row(key) for key in (*own, *totals)]

    def _total(self, key: tuple[ClientId, int]) -> Iterator[int]:
        """Add what is new of a client's hour to the row of all clients, and answer its hour."""
        counted, hour = self._hours[key], key[1]
        if counted.own != counted.totalled:
            total = self._of(ALL_CLIENTS, hour)
            total.own = array("q", map(_sum_less, total.own, counted.own, counted.totalled))
            total.version += 1
            counted.totalled = counted.own[:]
            yield hour

    def _row(self, key: tuple[ClientId, int]) -> Unwritten:
        (client_id, hour), counted = key, self._hours[key]
        return Unwritten(client_id, HourLoad(Hour(hour), counted.writer, tuple(counted.own)), counted.version)

    def written(self, rows: Iterable[Unwritten]) -> None:
        """Storage has these rows. Those that have not changed meanwhile go behind the others, and need no write."""
        for client_id, load, version in rows:
            key = client_id, int(load.hour)
            counted = self._hours.get(key)
            if counted is not None and counted.writer == load.writer:
                counted.written = max(counted.written, version)
                del self._hours[key]
                self._hours[key] = counted

    def forget(self, before: Hour) -> None:
        """Drop hours that are over, and written ones of others where there are too many."""
        self._hours = {key: counted for key, counted in self._hours.items() if key[1] >= before}
        self._freer = {}
        excess = len(self._hours) - self._most
        if excess > 0:
            written = [key for key, counted in self._hours.items() if counted.written == counted.version]
            for key in written[:excess]:
                del self._hours[key]

    # What the process knows of a minute's load.

    def hot(self) -> list[tuple[ClientId, Hour]]:
        """Hours in whose fullest minute this process has placed so many rows that others' matter."""
        return [
            (client_id, Hour(hour))
            for (client_id, hour), counted in self._hours.items()
            if client_id != ALL_CLIENTS and max(counted.own) >= HOT_ROWS
        ]

    def heard(self, client_id: ClientId, hour: Hour, loads: Iterable[HourLoad]) -> None:
        """What is stored of an hour: of it, that of other writers."""
        counted = self._hours.get((client_id, int(hour)))
        if counted is not None:
            others = [load.loads for load in loads if load.hour == hour and load.writer != counted.writer]
            counted.others = array("q", [sum(column) for column in zip(_NOTHING, *others, strict=True)])

    def known(self, client_id: ClientId, minute: int) -> int:
        """The rows of a minute as far as this process knows: its own and, in hot hours, others' of a moment ago."""
        counted = self._hours.get((client_id, minute // MINUTES_PER_HOUR))
        if counted is None:
            return 0
        at = minute % MINUTES_PER_HOUR
        return counted.own[at] if counted.others is None else counted.own[at] + counted.others[at]

    def beyond(self, client_id: ClientId, minute: int, *, guaranteed: int, first: int) -> FullMinute | None:
        """What a minute holds if that is more than is guaranteed; None if it is not. `first`: the first minute that
        may be freer. As far as this process knows."""
        rows = self.known(client_id, minute)
        if rows <= guaranteed:
            return None
        key = client_id, minute, guaranteed
        freer = self._freer.get(key)
        if freer is None or freer < first or self.known(client_id, freer) >= guaranteed:
            if key in self._freer and freer is None:
                return FullMinute(rows, guaranteed, None)
            if len(self._freer) >= _REMEMBERED:
                self._freer.clear()
            freer = self._freer[key] = self._nearest(client_id, minute, guaranteed, first)
        return FullMinute(rows, guaranteed, freer)

    def _nearest(self, client_id: ClientId, minute: int, guaranteed: int, first: int) -> Minute | None:
        """The later one of two that are as near."""
        for distance in range(1, FREER_WITHIN + 1):
            for other in (minute + distance, minute - distance):
                if other >= first and self.known(client_id, other) < guaranteed:
                    return Minute(other)
        return None


def _sum_less(total: int, own: int, totalled: int) -> int:
    return total + own - totalled


def loads_of(hours: Iterable[HourLoad], *, first: Minute, last: Minute) -> dict[Minute, int]:
    """The rows of each minute from `first` to `last`, both included, that has any. A sum below nothing, because a
    writer was killed, is nothing."""
    sums: dict[int, list[int]] = {}
    for hour, _, loads in hours:
        known = sums.get(hour)
        sums[hour] = list(loads) if known is None else list(map(int.__add__, known, loads))
    return {
        Minute(minute): rows
        for hour in sorted(sums)
        for minute, rows in enumerate(sums[hour], hour * MINUTES_PER_HOUR)
        if rows > 0 and first <= minute <= last
    }


def days_of(first: Minute, last: Minute) -> Iterator[tuple[Hour, Hour]]:
    """The first and the last hour of each day (UTC) that these minutes touch."""
    begin, end = hour_of(first), hour_of(last)
    while begin <= end:
        day_ends = Hour(begin - begin % 24 + 23)
        yield begin, Hour(min(day_ends, end))
        begin = Hour(day_ends + 1)
