"""Chooses the days of clients that a run archives. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler_service.domain.archives import RUN_CLOCKS_MS, ArchivedDay, day_of
from scheduler_service.domain.ids import DAY_MS, HOUR_MS
from spark.io.members import Pollers
from spark.jobs.clients import KnownClient, settled_before


class Wanted(NamedTuple):
    """A day of a client that begins at `at`, Unix milliseconds. `before`: its mark, if it is archived already."""

    client_id: str
    at: int
    before: ArchivedDay | None = None


@dataclass(slots=True)
class Plan:
    """The days of clients to archive, and how many are left out for which reason."""

    wanted: list[Wanted] = field(default_factory=list)
    archived: int = 0
    unsettled: list[Wanted] = field(default_factory=list)
    elsewhere: list[ArchivedDay] = field(default_factory=list)


def first_day(client: KnownClient) -> int:
    """The first day that may have rows: dues of the hour before a client was created are accepted."""
    return day_of(client.created * 1000 - HOUR_MS)


def as_of(now_ms: int) -> int:
    """The instant as of which a run that begins now archives rows."""
    return now_ms - RUN_CLOCKS_MS


def plan(
    known_clients: Iterable[KnownClient],
    marks: Iterable[ArchivedDay],
    pollers: Mapping[str, Pollers],
    *,
    start: int,
    end: int,
    now_ms: int,
    place: str,
    again: bool,
) -> Plan:
    """Plan the days that begin in [start, end), Unix milliseconds. An archived day is archived again where it is stale,
    or if `again`; always in its former place, the only one that has the rows that retention has deleted since."""
    known: dict[tuple[str, int], ArchivedDay] = {(mark.client_id, mark.day): mark for mark in marks}
    made = Plan()
    for client in known_clients:
        settled = min(settled_before(client, pollers.get(client.client_id)) * 1000, as_of(now_ms))
        for at in range(max(start, first_day(client)), end, DAY_MS):
            before = known.get((client.client_id, at))
            one = Wanted(client.client_id, at, before)
            if before is not None and not (before.stale or again):
                made.archived += 1
            elif before is not None and before.rows and before.place != place:
                made.elsewhere.append(before)
            elif at + DAY_MS > settled:
                made.unsettled.append(one)
            else:
                made.wanted.append(one)
    return made


def past_retention(client: KnownClient, at: int, *, now_ms: int) -> bool:
    """Whether retention may have deleted rows of that day, or may do so while it is read."""
    return at < now_ms + HOUR_MS - client.retention_days * DAY_MS


def by_day(wanted: Iterable[Wanted]) -> dict[int, list[Wanted]]:
    """By day, in order."""
    found: dict[int, list[Wanted]] = {}
    for one in sorted(wanted, key=lambda one: (one.at, one.client_id)):
        found.setdefault(one.at, []).append(one)
    return found
