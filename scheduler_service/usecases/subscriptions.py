"""Subscriptions of a client: put, shown, listed, deleted.

Changes are made as `revised_rows` says, and announced to nodes. As for destinations, the first revision is the instant
of creation, and requests that find room at the same moment count again after their writes; one that made too many
deletes what it made.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from scheduler_service.domain.destinations import DESTINATION_PATTERN
from scheduler_service.domain.errors import Conflict, FieldError, Invalid, NotFound
from scheduler_service.domain.events import EventType
from scheduler_service.domain.ids import ClientId, CronId, UnixMillis
from scheduler_service.domain.options import Undecodable
from scheduler_service.domain.ports import SubscriptionStore
from scheduler_service.domain.preconditions import NO_PRECONDITION, Precondition
from scheduler_service.domain.schedule_filters import read_destination, read_key_prefix
from scheduler_service.domain.subscriptions import (
    MAX_SUBSCRIPTIONS,
    EventFilter,
    StoredSubscription,
    Subscription,
    decode_subscription,
    encode_subscription,
)
from scheduler_service.runtime.clock import Clock
from scheduler_service.usecases.named_destinations import NamedDestinations
from scheduler_service.usecases.revised_rows import Written, change_row, delete_row
from scheduler_service.usecases.schedule_request import MAX_TEXT

_Text = Annotated[str, Meta(max_length=MAX_TEXT)]


class EventFilterRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Only events that match all of these. `label`, `cron_id`, `destination`: those of the schedule. `key_prefix`: how
    the schedule's own key begins. Events of destinations have a `destination`, those of crons a `cron_id`."""

    label: _Text | None = None
    key_prefix: str | None = None
    cron_id: _Text | None = None
    destination: str | None = None


class SubscriptionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which of the client's events are sent where: as notices, requests with up to 100 events each, to the
    `destination` of this name. `events`: only these types; left out: all. With `enabled` false nothing is sent, and
    what happens meanwhile is not sent later."""

    destination: Annotated[str, Meta(pattern=DESTINATION_PATTERN)]
    events: Annotated[tuple[EventType, ...], Meta(max_length=len(EventType))] = ()
    filter: EventFilterRequest | None = None
    enabled: bool = True


class ShownSubscription(NamedTuple):
    stored: StoredSubscription
    document: Subscription


class PutSubscription(NamedTuple):
    shown: ShownSubscription
    created: bool


class Subscriptions:
    """Subscriptions of clients that the caller has looked up. Every method may be repeated. `admit_new()`
    raises Conflict (older-nodes) while nodes run that send no notices; `switch_on` gives a client a feed, without which
    there are no events to send."""

    def __init__(
        self,
        *,
        store: SubscriptionStore,
        named: NamedDestinations,
        clock: Clock,
        switch_on: Callable[[ClientId], Awaitable[None]],
        admit_new: Callable[[], None],
    ) -> None:
        self._switch_on = switch_on
        self._store = store
        self._named = named
        self._clock = clock
        self._admit_new = admit_new

    async def one(self, client_id: ClientId, name: str) -> ShownSubscription:
        """Raises NotFound, StoreUnavailable."""
        stored = await self._store.read_subscription(client_id, name)
        if stored is None:
            raise _not_found(name)
        return _shown(stored)

    async def all(self, client_id: ClientId) -> list[ShownSubscription]:
        """By name. Raises StoreUnavailable."""
        return [_shown(stored) for stored in await self._store.list_subscriptions(client_id)]

    async def put(
        self,
        client_id: ClientId,
        name: str,
        request: SubscriptionRequest,
        *,
        precondition: Precondition = NO_PRECONDITION,
    ) -> PutSubscription:
        """Create or replace. Raises Invalid with every fault, Conflict (too-many-subscriptions, older-nodes),
        PreconditionFailed, StoreUnavailable."""
        document = await self._draft(client_id, request)
        before = await self._store.read_subscription(client_id, name)
        if before is None:
            precondition.check(None)
            self._admit_new()
            await self._check_room(client_id, name)
        if document.enabled:
            await self._switch_on(client_id)
        text = encode_subscription(document)

        async def write(known: StoredSubscription | None) -> Written[StoredSubscription]:
            now = UnixMillis(self._clock.wall_ms())
            if known is None:
                precondition.check(None)
                wanted = StoredSubscription(
                    client_id=client_id, name=name, document=text, revision=now, created_at=now, changed_at=now
                )
                return wanted, await self._store.put_subscription(wanted, expected_revision=None)
            if known.document != text:
                # The answer to an equal request may have been lost, so a repeat is not refused.
                precondition.check(str(known.revision))
            wanted = replace(known, document=text, revision=known.revision + 1, changed_at=now)
            return wanted, await self._store.put_subscription(wanted, expected_revision=known.revision)

        known, stored = await change_row(before, write, what="subscription")
        if known is None:
            await self._take_back_beyond_room(stored)
        if document.enabled:
            # The feed may have been switched off since: who does that looks for subscriptions afterwards.
            await self._switch_on(client_id)
        return PutSubscription(ShownSubscription(stored, document), created=known is None)

    async def delete(self, client_id: ClientId, name: str, *, precondition: Precondition = NO_PRECONDITION) -> None:
        """Raises NotFound, even where an earlier call deleted it, but announces the deletion once more before that;
        PreconditionFailed, StoreUnavailable."""

        async def check(known: StoredSubscription | None) -> None:
            precondition.check(None if known is None else str(known.revision))
            if known is None:
                raise _not_found(name)

        current = await self._store.read_subscription(client_id, name)
        delete = partial(self._store.delete_subscription, client_id, name)
        await delete_row(current, check, lambda revision: delete(expected_revision=revision), what="subscription")

    async def _draft(self, client_id: ClientId, request: SubscriptionRequest) -> Subscription:
        faults: list[FieldError] = []
        await self._named.look_up(client_id, [request.destination])
        if (fault := self._named.check(client_id)(request.destination)) is not None:
            faults.append(FieldError("/destination", fault))
        asked = request.filter or EventFilterRequest()
        for field, value, read in (
            ("key_prefix", asked.key_prefix, read_key_prefix),
            ("destination", asked.destination, read_destination),
        ):
            try:
                if value is not None:
                    read(value)
            except ValueError as error:
                faults.append(FieldError(f"/filter/{field}", str(error)))
        if faults:
            raise Invalid(faults)
        return Subscription(
            destination=request.destination,
            events=tuple(sorted({one.value for one in request.events})),
            filter=EventFilter(
                label=asked.label,
                key_prefix=asked.key_prefix,
                cron_id=None if asked.cron_id is None else CronId(asked.cron_id),
                destination=asked.destination,
            ),
            enabled=request.enabled,
        )

    async def _check_room(self, client_id: ClientId, name: str) -> None:
        others = [one for one in await self._store.list_subscriptions(client_id) if one.name != name]
        if len(others) >= MAX_SUBSCRIPTIONS:
            detail = f"the client has {MAX_SUBSCRIPTIONS} subscriptions: delete one first"
            raise Conflict("too-many-subscriptions", detail)

    async def _take_back_beyond_room(self, made: StoredSubscription) -> None:
        """Raises Conflict if this one was made beside too many others; another request may have changed it since, and
        answers for it then."""
        try:
            await self._check_room(made.client_id, made.name)
        except Conflict:
            await self._store.delete_subscription(made.client_id, made.name, expected_revision=made.revision)
            raise


def _shown(stored: StoredSubscription) -> ShownSubscription:
    try:
        return ShownSubscription(stored, decode_subscription(stored.document))
    except Undecodable:
        # Of a newer program, or damaged: nodes send nothing for it, and it can be put again.
        return ShownSubscription(stored, Subscription(destination="", enabled=False))


def _not_found(name: str) -> NotFound:
    return NotFound(f"there is no subscription {name!r}")
