"""Creates, redeliveries, reschedules and triggers under an idempotency key (see `RememberRequest`).

A repeat is answered with the present result of the first request. What the first request was about to make and did not
is made now, as it was requested then: an item that was valid then is not judged again, and one that was refused stays
refused, whatever the clock and the client's settings say by now.

A repeat may overlap the first request: it looks for the key too early, finds nothing, and is then refused because of
what the first request has just done. So it looks for the key once more before it is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

import msgspec

from membership.conditional import Applied, Rejected, Unknown
from membership.errors import MinutehandError, StoreUnavailable
from scheduler_service.domain.clients import Client
from scheduler_service.domain.errors import Conflict, FieldError, Invalid, KeyReused, NotFound
from scheduler_service.domain.idempotency import NOTHING, Kept, Keyed
from scheduler_service.domain.ids import CronId, ScheduleId, UnixMillis, partition_of
from scheduler_service.domain.options import with_trace_of
from scheduler_service.domain.ports import IdempotencyStore
from scheduler_service.domain.preconditions import NO_PRECONDITION, Precondition
from scheduler_service.domain.retry_rows import definition_of, outcome_of
from scheduler_service.domain.schedules import Definition, State
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.create_schedules import Chosen, Created, CreateSchedules
from scheduler_service.usecases.redeliver import RedeliverResult, RedeliverSchedule, may_be_deleted
from scheduler_service.usecases.reschedule_schedule import Change, RescheduleResult, RescheduleSchedule
from scheduler_service.usecases.resolve_schedule import Resolved, ResolveSchedule
from scheduler_service.usecases.schedule_keys import PutResult, ScheduleKeys
from scheduler_service.usecases.schedule_request import ScheduleRequest, asked_latest
from scheduler_service.usecases.schedule_writer import ScheduleWriter
from scheduler_service.usecases.trigger_crons import TriggerCron

Made: TypeAlias = Definition | Resolved | MinutehandError
"""The result of one item: its row as just created, or as found, or why there is none."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """What is kept under the key: make exactly `ids`, as requested at `at`. `replayed`: an earlier request has begun
    them."""

    ids: tuple[UUID, ...]
    at: UnixMillis
    replayed: bool


class RememberRequest:
    """Remember what a request under an idempotency key is about to make, before it is made.

        choose ids -> keep them IF nothing is kept under the key -> make exactly these -> answer
                             |
                             +-- something is kept: same request    -> make what is missing of it, answer with it
                                                    another request -> refused

    So of any number of requests under one key, concurrent or not, one has chosen the ids. If it dies before it has made
    everything, the next request completes it. A request that is refused as a whole keeps nothing; where the refusal
    came after the key was kept (a concurrent caller did the same thing first), a repeat is judged again.

    For every verb that makes something. That verb decides whether its caller may do so.
    """

    def __init__(self, *, keys: IdempotencyStore) -> None:
        self._keys = keys

    async def __call__(self, keyed: Keyed, *, ids: Sequence[UUID], at: int) -> Remembered:
        """Keep these, unless something is kept already. Raises KeyReused; StoreUnavailable when it stays unknown:
        repeat."""
        ours = Kept(fingerprint=keyed.fingerprint, ids=tuple(ids), created_at=UnixMillis(at))
        kept: Kept | None
        match await self._keys.keep(keyed.client_id, keyed.key, ours):
            case Applied():
                kept = ours
            case Rejected(current=current):
                kept = current
            case Unknown():
                kept = await self._keys.read(keyed.client_id, keyed.key)
        if kept is None:
            raise StoreUnavailable("no answer about the idempotency key")
        return _remembered(keyed, kept, replayed=kept != ours)

    async def known(self, keyed: Keyed) -> Remembered | None:
        """What is kept under this key, if anything. Raises as above."""
        kept = await self._keys.read(keyed.client_id, keyed.key)
        return None if kept is None else _remembered(keyed, kept, replayed=True)


def _remembered(keyed: Keyed, kept: Kept, *, replayed: bool) -> Remembered:
    if kept.fingerprint != keyed.fingerprint:
        raise KeyReused("another request used this Idempotency-Key within the last 24 hours")
    return Remembered(kept.ids, kept.created_at, replayed)


@dataclass(frozen=True, slots=True)
class CreatedOnce:
    """The result of every item, in order."""

    items: Sequence[Made]
    replayed: bool


class SeeCreated:
    """A schedule that was begun before, durable and certain to be read by an owner: its creator may have died at any
    point before."""

    def __init__(self, *, resolve: ResolveSchedule, writer: ScheduleWriter, clock: Clock) -> None:
        self.resolve = resolve
        self._writer = writer
        self._clock = clock

    async def __call__(self, client: Client, definition: Definition) -> Resolved:
        """`definition`: as its creator would have written it. Raises StoreUnavailable."""
        return await self.whether(client, await self.resolve(client.client_id, definition.schedule_id), definition)

    async def whether(self, client: Client, known: Resolved | None, definition: Definition) -> Resolved:
        """The same for one that was resolved just now, to `known`."""
        schedule_id = definition.schedule_id
        if known is not None and known.row.ended:
            return known
        outcome = outcome_of(known.row) if known is not None else None
        if known is not None and outcome is not None:
            assert outcome.state is State.RETRYING
            await self._writer.complete(definition_of(definition.partition, known.row), outcome)
            return known
        if known is None and may_be_deleted(client.settings, schedule_id, now=self._clock.wall_ms()):
            raise StoreUnavailable("the minute of this schedule may have been deleted")
        if known is not None:
            # A repeat may bring another trace, and a row is written with the same values always.
            options = with_trace_of(definition.options, known.row.options)
            definition = msgspec.structs.replace(definition, options=options)
        await self._writer(definition, consistency=client.settings.write_consistency)
        found = known or await self.resolve(client.client_id, schedule_id)
        if found is None:
            raise StoreUnavailable("the schedule was deleted while it was being created")
        return found


class CreateIdempotently:
    """Verbs under a key, for clients that the caller has looked up and admitted. Each raises what its verb does, and
    KeyReused."""

    def __init__(
        self,
        *,
        remember: RememberRequest,
        create: CreateSchedules,
        redeliver: RedeliverSchedule,
        reschedule: RescheduleSchedule,
        by_key: ScheduleKeys,
        trigger: TriggerCron,
        see_created: SeeCreated,
        clock: Clock,
    ) -> None:
        self._remember = remember
        self._create = create
        self._redeliver = redeliver
        self._reschedule = reschedule
        self._by_key = by_key
        self._trigger = trigger
        self._see_created = see_created
        self._clock = clock

    async def create(self, client: Client, requests: Sequence[ScheduleRequest | Invalid], keyed: Keyed) -> CreatedOnce:
        """As `CreateSchedules.many`."""
        self._create.admit(client)
        now = self._clock.wall_ms()
        created: Sequence[Created]
        try:
            created = await self._create.defined(client, requests, now=now)
        except Conflict as error:
            # Of nodes that do not know what is asked for: they may run only since it was accepted.
            if (known := await self._remember.known(keyed)) is None:
                raise
            return await self._replayed(client, requests, known, refused=error)
        ids = [item.schedule_id if isinstance(item, Definition) else NOTHING for item in created]
        if any(id_ != NOTHING for id_ in ids):
            remembered = await self._remember(keyed, ids=ids, at=now)
            if not remembered.replayed:
                return CreatedOnce(await self._create.placed(client, created), replayed=False)
        else:
            # They may have been valid when they were requested first.
            known = await self._remember.known(keyed)
            if known is None:
                return CreatedOnce(created, replayed=False)
            remembered = known
        return await self._replayed(client, requests, remembered)

    async def _replayed(
        self,
        client: Client,
        requests: Sequence[ScheduleRequest | Invalid],
        remembered: Remembered,
        *,
        refused: Conflict | None = None,
    ) -> CreatedOnce:
        """`refused`: why nothing can be judged now."""
        items = await self._created_again(client, requests, remembered, refused)
        lost = next((item for item in items if isinstance(item, StoreUnavailable)), None)
        if lost is not None and not any(isinstance(item, Resolved) for item in items):
            raise lost
        return CreatedOnce(items, replayed=True)

    async def redeliver(self, client: Client, schedule_id: ScheduleId, keyed: Keyed) -> tuple[RedeliverResult, bool]:
        """As `RedeliverSchedule`, and whether it was requested before."""
        known = await self._remember.known(keyed)
        if known is None:
            since = await self._redeliver.begin(client, schedule_id)
            # A refusal may be due to a concurrent first request, so the key is looked for once more.
            if isinstance(since, int):
                known = await self._remember(keyed, ids=[schedule_id], at=since)
            elif (known := await self._remember.known(keyed)) is None:
                return since, False
        return await self._redeliver(client, schedule_id, since=known.at), known.replayed

    async def reschedule(
        self,
        client: Client,
        schedule_id: ScheduleId,
        request: Change,
        keyed: Keyed,
        *,
        precondition: Precondition = NO_PRECONDITION,
    ) -> tuple[RescheduleResult, bool]:
        """As `RescheduleSchedule`, and whether it was requested before."""
        known = await self._remember.known(keyed)
        if known is None:
            chosen = await self._reschedule.choose(
                client, schedule_id, request, key=keyed.key, precondition=precondition
            )
            if isinstance(chosen, UUID):
                known = await self._remember(keyed, ids=[chosen], at=self._clock.wall_ms())
            elif (known := await self._remember.known(keyed)) is None:
                return chosen, False
        chosen = ScheduleId(known.ids[0])
        result = await self._reschedule(
            client, schedule_id, request, chosen=chosen, key=keyed.key, precondition=precondition
        )
        return result, known.replayed

    async def put(
        self,
        client: Client,
        request: ScheduleRequest,
        keyed: Keyed,
        *,
        precondition: Precondition = NO_PRECONDITION,
    ) -> tuple[PutResult, bool]:
        """As `ScheduleKeys.put`, and whether it was requested before."""
        known = await self._remember.known(keyed)
        if known is None:
            self._create.admit(client)
            await self._create.look_up(client, [request])
            now = self._clock.wall_ms()
            drawn = self._create.drawn(client, request, now=now, latest=asked_latest(request))
            known = await self._remember(keyed, ids=[drawn.schedule_id], at=now)
        chosen = Chosen(ScheduleId(known.ids[0]), known.at)
        return await self._by_key.put(client, request, precondition=precondition, chosen=chosen), known.replayed

    async def trigger(self, client: Client, cron_id: CronId, keyed: Keyed) -> Definition | Resolved:
        """As `TriggerCron`; Resolved if it was requested before. Raises Conflict (cron-changed) too: the run was not
        stored, and the cron has changed since."""
        try:
            chosen = await self._trigger.choose(client, cron_id)
        except NotFound:
            # The cron may have been deleted after it was triggered.
            known = await self._remember.known(keyed)
            if known is None:
                raise
        else:
            definition = chosen.definition
            known = await self._remember(keyed, ids=[definition.schedule_id], at=definition.due)
            if not known.replayed:
                return await self._trigger.place(client, chosen)
        schedule_id = ScheduleId(known.ids[0])
        present = await self._see_created.resolve(client.client_id, schedule_id)
        if present is not None:
            definition = definition_of(partition_of(client.client_id, schedule_id), present.row)
        else:
            chosen = await self._trigger.again(client, cron_id, schedule_id)
            await self._trigger.list_run(chosen)
            definition = chosen.definition
        return await self._see_created.whether(client, present, definition)

    async def _created_again(
        self,
        client: Client,
        requests: Sequence[ScheduleRequest | Invalid],
        remembered: Remembered,
        refused: Conflict | None,
    ) -> list[Made]:
        async def item(asked: tuple[ScheduleRequest | Invalid, UUID]) -> tuple[Made]:
            # In a tuple, because `concurrently` must not take an error for a result; here errors are results.
            return (await self._item_again(client, *asked, remembered, refused),)

        answers = await concurrently(item, zip(requests, remembered.ids, strict=True))
        return [made for (made,) in answers]

    async def _item_again(
        self,
        client: Client,
        request: ScheduleRequest | Invalid,
        schedule_id: UUID,
        remembered: Remembered,
        refused: Conflict | None,
    ) -> Made:
        if isinstance(request, Invalid):
            return request
        if schedule_id == NOTHING:
            if refused is not None:
                return refused
            return await self._refused_again(client, request, remembered)
        definition = self._create.again(client, request, ScheduleId(schedule_id), now=remembered.at)
        try:
            return await self._see_created(client, definition)
        except MinutehandError as error:
            return error

    async def _refused_again(self, client: Client, request: ScheduleRequest, remembered: Remembered) -> Invalid:
        (judged,) = await self._create.defined(client, [request], now=remembered.at)
        if isinstance(judged, Invalid):
            return judged
        detail = "was refused under this Idempotency-Key by settings that have changed since; use another key"
        return Invalid([FieldError("", detail)])
