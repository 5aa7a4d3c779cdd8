"""Create: a request becomes a row, in a poller of its client's quota, through `schedule_writer`.

    request -> draft (every rule, every fault) -> poller and id -> place -> acknowledged

A batch is many of these at once: each item succeeds or fails by itself.

Poller and id are chosen here, or derived from the caller's once token (`domain.once`). With a token the request is
judged as of the instant in it, and a repeat writes the same row. A repeat gets the answer of the first request,
whatever has become of the row since.
"""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from membership.errors import MinutehandError, StoreUnavailable
from scheduler_service.domain.clients import Client
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.ids import (
    PollerId,
    ScheduleId,
    UnixMillis,
    due_of,
    minute_of,
    new_schedule_id,
    poller_of,
)
from scheduler_service.domain.once import OnceIds
from scheduler_service.domain.ports.schedules import Answered
from scheduler_service.domain.quotas import PollerChooser, pinned_poller
from scheduler_service.domain.schedules import Definition
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.randomness import Randomness
from scheduler_service.usecases.admission import AdmitCreates
from scheduler_service.usecases.schedule_request import (
    CallbackPolicy,
    Draft,
    ScheduleRequest,
    draft,
    redraft,
    unjudged_due,
)
from scheduler_service.usecases.schedule_writer import ScheduleWriter

PIECE = 100
"""Items of a batch that are judged before other tasks get a turn of the event loop."""

Created: TypeAlias = Definition | MinutehandError
"""The result of one item of a batch: its row, or why there is none."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The id that a request is to make, as judged `at` (Unix milliseconds): a repeat finds it."""

    schedule_id: ScheduleId
    at: int


class CreateSchedules:
    """Creates schedules of clients that the caller has looked up."""

    def __init__(
        self,
        *,
        writer: ScheduleWriter,
        pollers: PollerChooser,
        policy: CallbackPolicy,
        admit: AdmitCreates,
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        self.admit = admit
        """Call it before a body is read."""
        self._writer = writer
        self._pollers = pollers
        self._check_url = policy.check_url
        self._bounds = policy.bounds
        self._seal_headers = policy.encryption.seal_headers
        self._clock = clock
        self._randomness = randomness

    async def one(self, client: Client, request: ScheduleRequest, *, once: OnceIds | None = None) -> Definition:
        """The row, durable. Raises what `admit` does, Invalid, ContentTooLarge, StoreUnavailable."""
        self.admit(client)
        now = self._clock.wall_ms() if once is None else once.asked_at
        definition = self._define(client, request, now=now, once=once)
        await self._writer(definition, consistency=client.settings.write_consistency)
        return definition

    def begin(
        self,
        client: Client,
        request: ScheduleRequest,
        answered: Answered,
        *,
        run: Callable[[Coroutine[Any, Any, None]], object],
        once: OnceIds | None = None,
    ) -> tuple[Definition, Callable[[], None]]:
        """`one` for an admitted client and a caller without a task that waits: the row, and a function that gives it
        up. `answered` and `run` as in `ScheduleWriter.begin`. Raises Invalid, and what `ScheduleWriter.begin` does."""
        now = self._clock.wall_ms() if once is None else once.asked_at
        definition = self._define(client, request, now=now, once=once)
        return definition, self._writer.begin(
            definition, answered, run=run, consistency=client.settings.write_consistency
        )

    async def many(
        self, client: Client, requests: Sequence[ScheduleRequest | Invalid], *, once: OnceIds | None = None
    ) -> list[Created]:
        """One answer for each item, in order; an item that could not be decoded is passed through.

        Raises what `admit` does, for all items; StoreUnavailable where storage kept every item from being created.
        """
        self.admit(client)
        now = self._clock.wall_ms() if once is None else once.asked_at
        return await self.placed(client, await self.defined(client, requests, now=now, once=once))

    async def defined(
        self,
        client: Client,
        requests: Sequence[ScheduleRequest | Invalid],
        *,
        now: int,
        once: OnceIds | None = None,
    ) -> list[Created]:
        """The rows of requests made at `now`, and the errors of the others. Nothing is created."""
        created: list[Created] = []
        for start in range(0, len(requests), PIECE):
            if start:
                await self._clock.sleep(0)
            created += [
                self._defined(client, request, now=now, once=once, position=position)
                for position, request in enumerate(requests[start : start + PIECE], start)
            ]
        return created

    async def placed(self, client: Client, created: list[Created]) -> list[Created]:
        """The same, with those rows durable, or errors where they are not. Raises StoreUnavailable as `many` does."""
        valid = [position for position, item in enumerate(created) if isinstance(item, Definition)]
        rows = [item for item in created if isinstance(item, Definition)]
        placed = await self._writer.many(rows, consistency=client.settings.write_consistency)
        for position, error in zip(valid, placed, strict=True):
            if error is not None:
                created[position] = error
        lost = next((item for item in created if isinstance(item, StoreUnavailable)), None)
        if lost is not None and not any(isinstance(item, Definition) for item in created):
            raise lost
        return created

    def drawn(self, client: Client, request: ScheduleRequest, *, now: int, latest: UnixMillis | None) -> Definition:
        """The row of a request made at `now`, due at `latest` at the latest. Raises Invalid. Nothing is created."""
        drawn = self._draft(client, request, now=now)
        if latest is not None and drawn.due > latest:
            drawn = drawn._replace(due=UnixMillis(max(latest, now)))
        poller_id, schedule_id = self._chosen(client, drawn)
        return self._definition(client, drawn, poller_id=poller_id, schedule_id=schedule_id, now=now)

    def chosen(self, client: Client, request: ScheduleRequest, once: OnceIds) -> Chosen:
        """The id that a request gets by its token. Raises Invalid."""
        return Chosen(self._define(client, request, now=once.asked_at, once=once).schedule_id, once.asked_at)

    def again(self, client: Client, request: ScheduleRequest, schedule_id: ScheduleId, *, now: int) -> Definition:
        """The row of a request that was valid at `now` and got this id: equal values, even where the client's settings
        have changed since."""
        drawn = redraft(request, due=due_of(schedule_id))
        return self._definition(client, drawn, poller_id=poller_of(schedule_id), schedule_id=schedule_id, now=now)

    def faults(self, client: Client, request: ScheduleRequest) -> list[FieldError]:
        """All faults of a request. Creates nothing."""
        try:
            self._draft(client, request, now=self._clock.wall_ms())
        except Invalid as invalid:
            return invalid.errors
        return []

    def _defined(
        self, client: Client, request: ScheduleRequest | Invalid, *, now: int, once: OnceIds | None, position: int
    ) -> Created:
        if isinstance(request, Invalid):
            return request
        try:
            return self._define(client, request, now=now, once=once, position=position)
        except Invalid as invalid:
            if once is not None and request.ordering_key is None:
                once.pass_over(unjudged_due(request, now=now))
            return invalid

    def _draft(self, client: Client, request: ScheduleRequest, *, now: int) -> Draft:
        return draft(request, settings=client.settings, check_url=self._check_url, now=now, bounds=self._bounds)

    def _define(
        self, client: Client, request: ScheduleRequest, *, now: int, once: OnceIds | None, position: int = 0
    ) -> Definition:
        drawn = self._draft(client, request, now=now)
        if once is not None:
            poller_id, schedule_id = once.at(position, due=drawn.due, ordering_key=drawn.ordering_key)
        else:
            poller_id, schedule_id = self._chosen(client, drawn)
        return self._definition(client, drawn, poller_id=poller_id, schedule_id=schedule_id, now=now)

    def _chosen(self, client: Client, drawn: Draft) -> tuple[PollerId, ScheduleId]:
        client_id, quota = client.client_id, client.poller_quota
        if drawn.ordering_key is None:
            poller_id = self._pollers.choose(client_id, minute_of(drawn.due), quota=quota)
        else:
            poller_id = pinned_poller(client_id, drawn.ordering_key, quota=quota)
        return poller_id, new_schedule_id(due=drawn.due, poller_id=poller_id, randomness=self._randomness)

    def _definition(
        self, client: Client, drawn: Draft, *, poller_id: PollerId, schedule_id: ScheduleId, now: int
    ) -> Definition:
        return Definition(
            client_id=client.client_id,
            poller_id=poller_id,
            due=drawn.due,
            schedule_id=schedule_id,
            method=drawn.method,
            url=drawn.url,
            headers=self._seal_headers(client.client_id, drawn.headers),
            body=drawn.body,
            options=drawn.options,
            label=drawn.label,
            ordering_key=drawn.ordering_key,
            created_at=UnixMillis(now),
        )
