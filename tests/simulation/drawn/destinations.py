"""Destinations of a random world: callers change them through API processes, and the table says from when that holds.

A change is known to a node that nothing hinders soon after it is announced. If the announcement was lost, or something
hinders the node, it is known within a minute.
"""

from collections.abc import Callable, Coroutine
from itertools import count, groupby, pairwise
from typing import Any, NamedTuple

from scheduler_service.api.services import ApiServices
from scheduler_service.domain.destinations import StoredDestination
from scheduler_service.domain.errors import NotFound
from scheduler_service.domain.ids import ClientId, poller_of
from scheduler_service.domain.retry_rows import DESTINATION_PAUSED
from scheduler_service.usecases.destination_request import DestinationRequest
from tests.simulation.destinations import DestinationWatch, Said
from tests.simulation.drawn.api import Unanswered
from tests.simulation.drawn.clients import DESTINATIONS, OTHERWISE
from tests.simulation.drawn.schedules import Schedule
from tests.simulation.drawn.troubles import Troubles
from tests.simulation.drawn.world import DrawnWorld
from tests.simulation.receivers import Call

HEARD_MS = 3_000
"""How long after its announcement a change may be unknown to a node that nothing hinders."""
HINDERED_MS = 75_000
"""The same of a change that was not announced, and of a node that something hinders: a minute, and a pause or a
fault."""
RECOVERED_MS = 6_000
"""How long nothing must have hindered a node, so that its last reads have been answered."""
JUDGED_AHEAD_MS = 8_000
"""How long before its due a row may be judged: rows are read and claimed before they are due."""
LOOK_MS = (30_000, 600_000)
"""The least and the greatest time within which calls are made after a resume; between them, half of the pause."""
STARTED_MS = 4_000
"""How much later they may start: clocks differ, and nodes hear of the resume."""


class Resumed(NamedTuple):
    """Rows of one poller that waited when their destination was resumed, with the calls that each had; all must be
    made by `until`."""

    name: str
    at: float
    until: float
    rows: list[tuple[Schedule, int]]


class DrawnDestinations(DestinationWatch):
    """Changes destinations, and judges what follows."""

    def __init__(self, world: DrawnWorld, troubles: Troubles) -> None:
        super().__init__()
        self._world = world
        self._troubles = troubles
        self._announced: dict[Said, float] = {}
        self._unannounced: list[Said] = []
        self._numbers = count(1)
        self._resumed: list[Resumed] = []
        self._paused_since: dict[tuple[str, str], float] = {}
        self.limited: set[tuple[str, str]] = set()
        """Those that at any time allowed few calls at once."""
        world.destination_watch = self
        world.on_destination = self._changed
        world.on_announced = self._all_announced

    # What callers request.

    async def make_all(self) -> None:
        """Put every destination that there is not."""
        if not self._world.setting.destinations:
            return
        for client in self._world.clients:
            for name in DESTINATIONS:
                if self.history(client, name)[-1].url is None:
                    await self.put(client, name)

    async def resume_all(self) -> None:
        for client, name in self.paused():
            await self.resume(client, name)

    def paused(self) -> list[tuple[str, str]]:
        return [whose for whose, said in self._said.items() if said[-1].paused]

    async def put(self, client: str, name: str, *, most: int | None = None, patience: int | None = None) -> None:
        """Move it to another URL, with another credential. `most`: how many calls may be under way."""
        number = next(self._numbers)
        request = DestinationRequest(
            url=f"http://receiver.test/of-{number}/",
            headers={"Authorization": f"Bearer of-{number}"},
            max_in_flight=most,
        )

        async def verb(services: ApiServices) -> object:
            known, destinations = await services.catalog.client(ClientId(client)), services.destinations
            return await destinations.put(known, name, destinations.draft(known, request))

        if most is not None:
            self.limited.add((client, name))
        await self._ask(f"put {name} of {client} as of-{number}", verb, patience)

    async def pause(self, client: str, name: str, patience: int | None = None) -> None:
        await self._ask(
            f"pause {name} of {client}", lambda services: services.destinations.pause(ClientId(client), name), patience
        )

    async def resume(self, client: str, name: str, patience: int | None = None) -> None:
        await self._ask(
            f"resume {name} of {client}",
            lambda services: services.destinations.resume(ClientId(client), name),
            patience,
        )

    async def delete(self, client: str, name: str, patience: int | None = None) -> None:
        async def verb(services: ApiServices) -> None:
            known = await services.catalog.client(ClientId(client))
            await services.destinations.delete(known, name, force=True)

        await self._ask(f"delete {name} of {client}", verb, patience)

    async def _ask(
        self, what: str, verb: Callable[[ApiServices], Coroutine[Any, Any, object]], patience: int | None
    ) -> None:
        try:
            await self._world.asked_until_answered(verb, tries=patience)
        except (Unanswered, NotFound) as error:
            self._world.note("client", f"{what}: {error}")

    # What is seen.

    def _changed(self, client: str, name: str, stored: StoredDestination | None) -> None:
        before, now = self.history(client, name)[-1], self._world.now_ms()
        said = self.says(client, name, stored, at=now)
        self._unannounced.append(said)
        self._world.note("store", f"{name} of {client}: {said.url}{' paused' if said.paused else ''}")
        if said.paused and stored is not None and stored.paused_at is not None:
            # The clock of the process that paused it may have been wrong; nodes go by what it wrote.
            self._paused_since[client, name] = min(now, stored.paused_at)
        elif before.paused and said.url is not None:
            self._note_waiting(client, name, now)

    def _note_waiting(self, client: str, name: str, now: float) -> None:
        shortest, longest = LOOK_MS
        until = now + min(max((now - self._paused_since[client, name]) / 2, shortest), longest) + STARTED_MS
        waiting = []
        for schedule in self._world.schedules.values():
            if (schedule.client_id, schedule.destination) != (client, name) or schedule.flow or schedule.ordering_key:
                continue
            cells = self._world.cells_of(schedule, "state", "reason", "next_attempt_at")
            if cells is not None and cells[1] == DESTINATION_PAUSED and cells[2] > now + JUDGED_AHEAD_MS:
                waiting.append((schedule, len(schedule.calls)))
        waiting.sort(key=lambda one: (poller_of(one[0].schedule_id), one[0].schedule_id))
        for _, rows in groupby(waiting, key=lambda one: poller_of(one[0].schedule_id)):
            self._resumed.append(Resumed(name, now, until, list(rows)))

    def _all_announced(self) -> None:
        for said in self._unannounced:
            self._announced[said] = self._world.now_ms()
        self._unannounced.clear()

    # What must hold.

    def known_by(self, changed: Said, call: Call) -> float:
        announced = self._announced.get(changed)
        hindered = self._troubles.hindered(call.node, since=call.at_ms - RECOVERED_MS)
        if announced is None or hindered:
            return changed.at + HINDERED_MS
        return announced + HEARD_MS

    def wrong(self, name: str, call: Call) -> str | None:
        """A schedule that named it may have been updated to name a URL instead."""
        if call.url == OTHERWISE and self._world.schedules[call.schedule_id].cancel_wishes:
            return None
        return super().wrong(name, call)

    def was_missing(self, client: str, name: str, *, until: float) -> bool:
        """Whether it was deleted after it was first made, and before `until`."""
        return any(said.url is None and said.at <= until for said in self.history(client, name)[1:])

    def held(self, schedule: Schedule, *, until: float) -> bool:
        """Whether calls to its destination, or with its ordering key, may have waited for a destination at `until`,
        or for calls that a destination allows."""
        for (client, name), said in self._said.items():
            if client != schedule.client_id or (name != schedule.destination and schedule.ordering_key is None):
                continue
            if (client, name) in self.limited:
                return True
            ends = [*(each.at for each in said[1:]), float("inf")]
            if any(each.paused and end + HINDERED_MS > until for each, end in zip(said, ends, strict=True)):
                return True
        return False

    def check_waiting(self) -> None:
        """A pause counts no attempt."""
        for schedule in self._world.schedules.values():
            if schedule.destination is None or schedule.redeliver_wishes:
                continue
            cells = self._world.cells_of(schedule, "reason", "attempts")
            if cells is None or cells[0] != DESTINATION_PAUSED:
                continue
            made = max((call.attempt for call in schedule.calls), default=0)
            if (cells[1] or 0) > made:
                raise self._world.violation(f"{schedule.schedule_id} waits, with {cells[1]} attempts of {made} made")

    def check_resumed(self) -> None:
        """What had waited was called in the order of its dues, and soon."""
        for resumed in self._resumed:
            called = [
                (schedule, schedule.calls[before])
                for schedule, before in resumed.rows
                if len(schedule.calls) > before and not schedule.cancel_wishes and not schedule.redeliver_wishes
            ]
            if not called:
                continue
            last = max(call.at_ms for _, call in called)
            client = called[0][0].client_id
            if (client, resumed.name) in self.limited or any(
                resumed.at < said.at <= last for said in self.history(client, resumed.name)
            ):
                continue
            if self._troubles.between(called[0][0], resumed.at - JUDGED_AHEAD_MS, last):
                continue
            if last > resumed.until:
                raise self._world.violation(f"{resumed.name} was resumed at {resumed.at}, and called at {last}")
            in_turn = sorted(called, key=lambda one: (one[1].at_ms, one[0].due))
            if any(one[0].due > after[0].due for one, after in pairwise(in_turn)):
                raise self._world.violation(f"{resumed.name} was resumed, and called out of order: {in_turn}")
