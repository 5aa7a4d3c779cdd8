"""Create: a request becomes a row, in a poller of its client's quota, through `schedule_writer`.

    request -> draft (every rule, every fault) -> poller and id -> place -> acknowledged

A batch is many of these at once: each item succeeds or fails by itself.

Poller and id are chosen here, or derived from the caller's once token (`domain.once`). With a token the request is
judged as of the instant in it, and a repeat writes the same row. A repeat gets the answer of the first request,
whatever has become of the row since.

A due in the past becomes now, and `nominal_due` keeps what was asked for. No row is inserted into a minute that has
passed: its owner may have settled it. Of the past dues in a batch, each later one is due a millisecond later, so they
are called in their order.
"""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

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
    redated,
)
from scheduler_service.domain.once import OnceIds
from scheduler_service.domain.options import original_kind
from scheduler_service.domain.ports.schedules import Answered
from scheduler_service.domain.quotas import PollerChooser, pinned_poller
from scheduler_service.domain.schedules import Definition
from scheduler_service.domain.spread import POINT_BITS, point_of
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.randomness import Randomness
from scheduler_service.usecases.admission import AdmitCreates
from scheduler_service.usecases.create_traces import CreateTraces
from scheduler_service.usecases.schedule_request import (
    CallbackPolicy,
    Draft,
    ScheduleRequest,
    draft,
    no_ack,
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

    def by(self, latest: UnixMillis | None) -> "Chosen":
        """The same, due at `latest` at the latest: every repeat that knows of it gets the same id."""
        if latest is None or due_of(self.schedule_id) <= latest:
            return self
        return Chosen(redated(self.schedule_id, max(latest, self.at)), self.at)


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
        traces: CreateTraces | None = None,
    ) -> None:
        self.admit = admit
        """Call it before a body is read."""
        self._writer = writer
        self._pollers = pollers
        self._policy = policy
        self._check_url = policy.check_url
        self._bounds = policy.bounds
        self._ack_rule = policy.check_ack
        self._destinations = policy.destinations
        self._admit_deadline = policy.admit_deadline
        self._seal_headers = policy.encryption.seal_headers
        self._clock = clock
        self._randomness = randomness
        self._traces = traces

    async def one(self, client: Client, request: ScheduleRequest, *, once: OnceIds | None = None) -> Definition:
        """The row, durable. Raises what `admit` does, Invalid, ContentTooLarge, StoreUnavailable."""
        self.admit(client)
        await self.look_up(client, [request])
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
        up. `answered` and `run` as in `ScheduleWriter.begin`. Raises Invalid, perhaps only because the destination must
        be looked up or a deadline is to be placed first, and what `ScheduleWriter.begin` does."""
        callback = request.callback
        if request.has_deadline or (callback.destination is not None and callback.ack is not None):
            raise Invalid([])
        for name in request.destinations:
            if not self._destinations.holds(client.client_id, name):
                raise Invalid([])
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
        """The rows of requests made at `now`, and the errors of the others. Nothing is created. Raises
        StoreUnavailable."""
        await self.look_up(client, [request for request in requests if isinstance(request, ScheduleRequest)])
        judged: list[Draft | _Refused] = []
        for start in range(0, len(requests), PIECE):
            if start:
                await self._clock.sleep(0)
            judged += [
                self._judged(client, request, now=now, once=once, position=position)
                for position, request in enumerate(requests[start : start + PIECE], start)
            ]
        late = {_asked(one) for one in judged if one.due == now}
        if len(late) > 1:
            turns = {asked: turn for turn, asked in enumerate(sorted(late))}
            for position, one in enumerate(judged):
                if one.due == now:
                    due, request = now + turns[_asked(one)], requests[position]
                    if isinstance(one, Draft) and isinstance(request, ScheduleRequest):
                        judged[position] = _moved(one, due, request, now=now)
                    else:
                        judged[position] = _due_at(one, due)
        created: list[Created] = []
        for start in range(0, len(judged), PIECE):
            if start:
                await self._clock.sleep(0)
            created += [
                self._defined(client, one, now=now, once=once, position=position)
                for position, one in enumerate(judged[start : start + PIECE], start)
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

    async def look_up(self, client: Client, requests: Sequence[ScheduleRequest]) -> None:
        """Find the destinations that these requests name; needed before one is judged without `one`, `many` or
        `defined`. Raises StoreUnavailable; Conflict (older-nodes) for deadlines that nodes do not know."""
        if any(request.has_deadline for request in requests):
            self._admit_deadline()
        named = [name for request in requests for name in request.destinations]
        await self._destinations.look_up(client.client_id, named)
        callbacks = [request.callback for request in requests]
        if acknowledged := {callback.destination for callback in callbacks if callback.ack is not None}:
            await self._destinations.look_at_kinds(client.client_id, acknowledged)

    def drawn(self, client: Client, request: ScheduleRequest, *, now: int, latest: UnixMillis | None) -> Definition:
        """The row of a request made at `now`, due at `latest` at the latest. Raises Invalid. Nothing is created."""
        assert request.key is not None
        drawn = self._draft(client, request, now=now, point=point_of(f"{client.client_id}/{request.key}"))
        if latest is not None and drawn.due > latest:
            drawn = _moved(drawn, max(latest, now), request, now=now)
        return self._definition(client, drawn, self._chosen(client, drawn), now)

    async def chosen(self, client: Client, request: ScheduleRequest, once: OnceIds) -> Chosen:
        """The id that a request gets by its token. Raises Invalid, StoreUnavailable."""
        await self.look_up(client, [request])
        return Chosen(self._define(client, request, now=once.asked_at, once=once).schedule_id, once.asked_at)

    def again(self, client: Client, request: ScheduleRequest, schedule_id: ScheduleId, *, now: int) -> Definition:
        """The row of a request that was valid at `now` and got this id: equal values, even where the client's settings
        have changed since."""
        drawn = redraft(request, due=due_of(schedule_id), now=now)
        return self._definition(client, drawn, (poller_of(schedule_id), schedule_id), now)

    def faults(self, client: Client, request: ScheduleRequest) -> list[FieldError]:
        """All faults of a request. Creates nothing."""
        try:
            self._draft(client, request, now=self._clock.wall_ms(), point=0)
        except Invalid as invalid:
            return invalid.errors
        return []

    def _judged(
        self, client: Client, request: ScheduleRequest | Invalid, *, now: int, once: OnceIds | None, position: int
    ) -> "Draft | _Refused":
        if isinstance(request, Invalid):
            return _Refused(request)
        point = self._point(once, position) if request.window_seconds else 0
        try:
            return self._draft(client, request, now=now, point=point)
        except Invalid as invalid:
            if once is None:
                return _Refused(invalid)
            # A repeat may be judged by other settings, and the others must keep their pollers and dues.
            asked, due = unjudged_due(request, now=now, point=point)
            pinned = request.ordering_key is not None or request.callback.flow_key is not None
            return _Refused(invalid, due, asked if asked < due else None, pinned)

    def _defined(
        self, client: Client, judged: "Draft | _Refused", *, now: int, once: OnceIds | None, position: int
    ) -> Created:
        if isinstance(judged, Draft):
            return self._definition(client, judged, self._chosen(client, judged, once, position), now)
        if once is not None and judged.due is not None and not judged.pinned:
            once.pass_over(judged.due)
        return judged.error

    def _draft(self, client: Client, request: ScheduleRequest, *, now: int, point: int) -> Draft:
        self._policy.admit_ends(request)
        return draft(
            request,
            settings=client.settings,
            check_url=self._check_url,
            now=now,
            point=point,
            bounds=self._bounds,
            check_destination=self._destinations.check(client.client_id),
            check_ack=no_ack if request.callback.ack is None else self._ack_rule(client.client_id),
        )

    def _point(self, once: OnceIds | None, position: int = 0) -> int:
        return self._randomness.bits(POINT_BITS) if once is None else once.point(position)

    def _define(self, client: Client, request: ScheduleRequest, *, now: int, once: OnceIds | None) -> Definition:
        drawn = self._draft(client, request, now=now, point=self._point(once) if request.window_seconds else 0)
        return self._definition(client, drawn, self._chosen(client, drawn, once), now)

    def _chosen(
        self, client: Client, drawn: Draft, once: OnceIds | None = None, position: int = 0
    ) -> tuple[PollerId, ScheduleId]:
        pin = drawn.pin
        if once is not None:
            return once.at(position, due=drawn.due, pin=pin)
        client_id, quota = client.client_id, client.poller_quota
        if pin is None:
            poller_id = self._pollers.choose(client_id, minute_of(drawn.due), quota=quota)
        else:
            poller_id = pinned_poller(client_id, pin, quota=quota)
        return poller_id, new_schedule_id(due=drawn.due, poller_id=poller_id, randomness=self._randomness)

    def _definition(self, client: Client, drawn: Draft, chosen: tuple[PollerId, ScheduleId], now: int) -> Definition:
        poller_id, schedule_id = chosen
        options, traces = drawn.options, self._traces
        if traces is not None:
            options = traces.stamped(client.client_id, schedule_id, options)
        return Definition(
            client_id=client.client_id,
            poller_id=poller_id,
            due=drawn.due,
            schedule_id=schedule_id,
            kind=original_kind(drawn.options),
            method=drawn.method,
            url=drawn.url,
            headers=self._seal_headers(client.client_id, drawn.headers),
            body=drawn.body,
            options=options,
            label=drawn.label,
            ordering_key=drawn.ordering_key,
            nominal_due=drawn.nominal_due,
            created_at=UnixMillis(now),
        )


class _Refused(NamedTuple):
    """The faults of an item. Where it counts, its `due` and `nominal_due` as in a `Draft`; `pinned`: a name decides its
    poller."""

    error: Invalid
    due: UnixMillis | None = None
    nominal_due: UnixMillis | None = None
    pinned: bool = False


_Item = TypeVar("_Item", Draft, "Draft | _Refused")


def _asked(item: Draft | _Refused) -> UnixMillis:
    """The instant that an item with a due has asked for."""
    asked = item.due if item.nominal_due is None else item.nominal_due
    assert asked is not None
    return asked


def _due_at(item: _Item, due: int) -> _Item:
    """The same, due at another instant."""
    asked = _asked(item)
    return item._replace(due=UnixMillis(due), nominal_due=asked if asked < due else None)


def _moved(drawn: Draft, due: int, request: ScheduleRequest, *, now: int) -> Draft:
    """The draft of this request, due at another instant."""
    moved = _due_at(drawn, due)
    if request.succeed_by is None:
        return moved
    # Its deadline is an instant, but is stored as so long after the due.
    return moved._replace(options=redraft(request, due=moved.due, now=now).options)
