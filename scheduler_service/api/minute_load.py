"""The header by which a create is told that its minute is fuller than what is guaranteed.

    Minutehand-Minute-Load: 1500;guaranteed=1000;freer="2026-11-21T09:35:00.000Z"

The numbers are those that this process has in memory: nothing is read for an answer. It knows what it has placed
itself and, of hours in which that is much, what others had placed some seconds ago.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from scheduler_service.api.services import ApiServices
from scheduler_service.domain.clients import GUARANTEED_CALLS_PER_MINUTE, Client
from scheduler_service.domain.ids import minute_of, minute_start
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.minute_loads import FullMinute

MINUTE_LOAD: Final = "Minutehand-Minute-Load"
MINUTE_LOAD_PATTERN: Final = r'^[0-9]+;guaranteed=[0-9]+(;freer="[0-9TZ:.-]+")?$'
MINUTE_LOAD_HEADERS: Final[Mapping[str, str]] = {
    MINUTE_LOAD: "Only if the minute of the due (of a batch: its fullest) holds more calls than the client is "
    'guaranteed: `CALLS;guaranteed=CALLS;freer="INSTANT"`. `freer` is the nearest minute that holds fewer, if one is '
    "known within two hours. Calls beyond the guarantee are late when nodes have no capacity to spare."
}


_NOTHING: Final[Mapping[str, str]] = {}


def minute_load(services: ApiServices, client: Client, due: int) -> Mapping[str, str]:
    """The header of a create that is acknowledged; empty if its minute is within the guarantee."""
    guaranteed, minute = GUARANTEED_CALLS_PER_MINUTE * client.poller_quota, minute_of(due)
    if services.minute_loads.counts.known(client.client_id, minute) <= guaranteed:
        return _NOTHING
    return fullest_load(services, client, (due,))


def fullest_load(services: ApiServices, client: Client, dues: Iterable[int]) -> Mapping[str, str]:
    """The same of a batch: that of its fullest minute."""
    counts, guaranteed = services.minute_loads.counts, GUARANTEED_CALLS_PER_MINUTE * client.poller_quota
    first = minute_of(services.clock.wall_ms()) + 1
    full = [
        found
        for minute in sorted(set(map(minute_of, dues)))
        if (found := counts.beyond(client.client_id, minute, guaranteed=guaranteed, first=first)) is not None
    ]
    return {MINUTE_LOAD: _text(max(full, key=lambda one: one.rows))} if full else _NOTHING


def _text(full: FullMinute) -> str:
    freer = "" if full.freer is None else f';freer="{format_instant(minute_start(full.freer))}"'
    return f"{full.rows};guaranteed={full.guaranteed}{freer}"
