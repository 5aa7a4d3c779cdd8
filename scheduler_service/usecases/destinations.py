"""Destinations of a client: put, shown, paused, resumed, deleted.

Changes are made as `revised_rows` says, and announced to nodes. The first revision of a destination is the instant of
its creation, so that one that was deleted and made again repeats no revision.

A client may have `MAX_DESTINATIONS`, with `MAX_DESTINATIONS_BYTES` together. Concurrent requests may all find room;
each counts again after its write, and takes it back if that is too much: it deletes what it made, and puts the document
that was there before.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from membership.conditional import Answer, Rejected, Unknown
from scheduler_service.domain.clients import Client
from scheduler_service.domain.destinations import (
    MAX_DESTINATIONS,
    MAX_DESTINATIONS_BYTES,
    Destination,
    StoredDestination,
    decode_destination,
    encode_destination,
)
from scheduler_service.domain.errors import Conflict, NotFound, SecretLocked
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.domain.options import Undecodable
from scheduler_service.domain.ports import DestinationStore, SecretEncryption
from scheduler_service.domain.preconditions import NO_PRECONDITION, Precondition
from scheduler_service.runtime.clock import Clock
from scheduler_service.usecases.destination_request import DestinationRequest, draft_destination
from scheduler_service.usecases.destination_users import MAX_NAMED, FindDestinationUsers, Users
from scheduler_service.usecases.reading_steps import HasRead, uncounted
from scheduler_service.usecases.revised_rows import MAX_REVISION_TURNS, Written, change_row, delete_row
from scheduler_service.usecases.schedule_request import CallbackPolicy

SETTLED_MS = 60_000
"""What was written this long ago is not taken back any more: longer than a request takes, and clocks differ."""
Step: TypeAlias = Callable[[StoredDestination | None, UnixMillis], StoredDestination]
"""Answers the destination as it should be, but for its revision. Raises to refuse."""


class ShownDestination(NamedTuple):
    """A destination as it is stored, and its document in the clear."""

    stored: StoredDestination
    document: Destination


class PutDestination(NamedTuple):
    shown: ShownDestination
    created: bool


def open_destination(stored: StoredDestination, encryption: SecretEncryption) -> Destination:
    """Raises SecretLocked, also for a document that is damaged: its calls must wait, and not be sent otherwise."""
    text = encryption.open_destination(stored.client_id, stored.name, stored.document)
    try:
        return decode_destination(text)
    except Undecodable:
        detail = f"destination {stored.name!r} of client {stored.client_id!r} is damaged in storage"
        raise SecretLocked(detail, key_id="") from None


class Destinations:
    """Destinations of clients that the caller has looked up. Every method may be repeated. `admit_new()`
    raises Conflict (older-nodes) while nodes run that would end the calls of rows that name a destination."""

    def __init__(
        self,
        *,
        store: DestinationStore,
        users: FindDestinationUsers,
        policy: CallbackPolicy,
        clock: Clock,
        admit_new: Callable[[], None],
    ) -> None:
        self._store = store
        self._users = users
        self._policy = policy
        self._named = policy.destinations
        self._encryption = policy.encryption
        self._clock = clock
        self._admit_new = admit_new

    async def one(self, client_id: ClientId, name: str) -> ShownDestination:
        """Raises NotFound, SecretLocked, StoreUnavailable."""
        return self._shown(_existing(await self._store.read_destination(client_id, name), name))

    async def all(self, client_id: ClientId) -> list[ShownDestination]:
        """By name. Raises SecretLocked, StoreUnavailable."""
        return [self._shown(stored) for stored in await self._store.list_destinations(client_id)]

    def draft(self, client: Client, request: DestinationRequest) -> Destination:
        """What would be stored. Raises Invalid with every fault."""
        return draft_destination(
            request,
            client_id=client.client_id,
            settings=client.settings,
            policy=self._policy,
            now=self._clock.wall_ms(),
        )

    async def put(
        self,
        client: Client,
        name: str,
        document: Destination,
        *,
        precondition: Precondition = NO_PRECONDITION,
        has_read: HasRead = uncounted,
    ) -> PutDestination:
        """Create or replace; a paused destination stays paused. `document` was drafted; `has_read` hears of what was
        read to find room for it. Raises Conflict (too-many-destinations, destinations-too-large, older-nodes),
        PreconditionFailed, StoreUnavailable."""
        client_id = client.client_id
        sealed = self._encryption.seal_destination(client_id, name, encode_destination(document))
        before = await self._store.read_destination(client_id, name)
        if before is None:
            precondition.check(None)
            self._admit_new()
        await self._check_room(client_id, name, sealed, before, has_read)

        def step(known: StoredDestination | None, now: UnixMillis) -> StoredDestination:
            if known is None:
                precondition.check(None)
                return StoredDestination(
                    client_id=client_id, name=name, document=sealed, revision=now, created_at=now, changed_at=now
                )
            if not self._is(known, document):
                # The answer to an equal request may have been lost, so a repeat is not refused.
                precondition.check(str(known.revision))
            return replace(known, document=sealed, changed_at=now)

        known, stored = await self._change(client_id, name, before, step)
        try:
            await self._check_room(client_id, name, sealed, known, has_read)
        except Conflict:
            await self._take_back(known, stored)
            raise
        return PutDestination(ShownDestination(stored, document), created=known is None)

    async def pause(
        self, client_id: ClientId, name: str, *, precondition: Precondition = NO_PRECONDITION
    ) -> ShownDestination:
        """Its calls wait from now on. Raises NotFound, PreconditionFailed, SecretLocked, StoreUnavailable."""

        def step(known: StoredDestination, now: UnixMillis) -> StoredDestination:
            return known if known.paused_at is not None else replace(known, paused_at=now, changed_at=now)

        return await self._set(client_id, name, step, precondition)

    async def resume(
        self, client_id: ClientId, name: str, *, precondition: Precondition = NO_PRECONDITION
    ) -> ShownDestination:
        """Raises NotFound, PreconditionFailed, SecretLocked, StoreUnavailable."""

        def step(known: StoredDestination, now: UnixMillis) -> StoredDestination:
            return known if known.paused_at is None else replace(known, paused_at=None, changed_at=now)

        return await self._set(client_id, name, step, precondition)

    async def delete(
        self,
        client: Client,
        name: str,
        *,
        force: bool,
        precondition: Precondition = NO_PRECONDITION,
        has_read: HasRead = uncounted,
    ) -> None:
        """`force`: also where crons, subscriptions or waiting schedules name it. `has_read` hears of what the search
        for them read. Raises NotFound, even where an earlier call deleted it, but announces the deletion once more
        before that; Conflict (destination-in-use), PreconditionFailed, StoreUnavailable."""
        client_id = client.client_id
        searched = force

        async def check(known: StoredDestination | None) -> None:
            nonlocal searched
            precondition.check(None if known is None else str(known.revision))
            if known is None:
                raise _not_found(name)
            if not searched:
                _refuse_used(name, await self._users(client, name, has_read=has_read))
                searched = True

        async def remove(revision: int) -> Answer[StoredDestination | None]:
            return await self._delete(client_id, name, revision)

        current = await self._store.read_destination(client_id, name)
        await delete_row(current, check, remove, what="destination")

    async def _set(
        self,
        client_id: ClientId,
        name: str,
        step: Callable[[StoredDestination, UnixMillis], StoredDestination],
        precondition: Precondition,
    ) -> ShownDestination:
        before = await self._store.read_destination(client_id, name)
        # A document that can't be shown is found before anything changes.
        self._shown(_existing(before, name))

        def checked(known: StoredDestination | None, now: UnixMillis) -> StoredDestination:
            known = _existing(known, name)
            wanted = step(known, now)
            if wanted is not known:
                # As for a put: the answer to an equal request may have been lost.
                precondition.check(str(known.revision))
            return wanted

        _, stored = await self._change(client_id, name, before, checked)
        return self._shown(stored)

    async def _change(
        self, client_id: ClientId, name: str, known: StoredDestination | None, step: Step
    ) -> tuple[StoredDestination | None, StoredDestination]:
        """What was stored before, and what is now."""

        async def write(known: StoredDestination | None) -> Written[StoredDestination]:
            wanted = step(known, UnixMillis(self._clock.wall_ms()))
            if known is None:
                return wanted, await self._put(wanted, None)
            wanted = replace(wanted, revision=known.revision + 1)
            return wanted, await self._put(wanted, known.revision)

        return await change_row(known, write, what="destination")

    async def _put(self, wanted: StoredDestination, revision: int | None) -> Answer[StoredDestination | None]:
        answer = await self._store.put_destination(wanted, expected_revision=revision)
        self._named.forget(wanted.client_id)
        return answer

    async def _delete(self, client_id: ClientId, name: str, revision: int) -> Answer[StoredDestination | None]:
        answer = await self._store.delete_destination(client_id, name, expected_revision=revision)
        self._named.forget(client_id)
        return answer

    async def _check_room(
        self, client_id: ClientId, name: str, document: str, before: StoredDestination | None, has_read: HasRead
    ) -> None:
        """Whether there is room for this document beside the others. What does not grow needs none, unless what it
        replaces is so young that it may be taken back. Raises Conflict."""
        size = len(document.encode())
        settled_at = self._clock.wall_ms() - SETTLED_MS
        if before is not None and before.changed_at <= settled_at and size <= before.size:
            return
        others = [one for one in await self._store.list_destinations(client_id) if one.name != name]
        held = sum(one.size for one in others)
        has_read(len(others), held)
        if before is None and len(others) >= MAX_DESTINATIONS:
            raise Conflict("too-many-destinations", f"the client has {MAX_DESTINATIONS} destinations: delete one first")
        if held + size > MAX_DESTINATIONS_BYTES:
            raise Conflict(
                "destinations-too-large",
                f"the client's other destinations take {held} bytes and this one {size}, as they are stored; "
                f"{MAX_DESTINATIONS_BYTES} are the most: shorten it, or delete or shorten others",
            )

    async def _take_back(self, before: StoredDestination | None, stored: StoredDestination) -> None:
        """Undo a write, unless another document has followed."""
        present = stored
        for _ in range(MAX_REVISION_TURNS):
            if before is None:
                answer = await self._delete(stored.client_id, stored.name, present.revision)
            else:
                wanted = replace(before, revision=present.revision + 1, paused_at=present.paused_at)
                answer = await self._put(wanted, present.revision)
            match answer:
                case Rejected(current=found) if found is not None and _only_paused(present, found):
                    present = found
                case Unknown():
                    continue
                case _:
                    return

    def _is(self, stored: StoredDestination, document: Destination) -> bool:
        try:
            return open_destination(stored, self._encryption) == document
        except SecretLocked:
            return False

    def _shown(self, stored: StoredDestination) -> ShownDestination:
        return ShownDestination(stored, open_destination(stored, self._encryption))


def _existing(known: StoredDestination | None, name: str) -> StoredDestination:
    if known is None:
        raise _not_found(name)
    return known


def _only_paused(present: StoredDestination, found: StoredDestination) -> bool:
    """Whether `found` differs from `present` by a pause, or the end of one."""
    return found.document == present.document and (found.paused_at is None) != (present.paused_at is None)


def _not_found(name: str) -> NotFound:
    return NotFound(f"there is no destination {name!r}")


def _refuse_used(name: str, users: Users) -> None:
    """Raises Conflict."""
    if users.none:
        return
    found = [
        f"{'at least ' if len(some) > MAX_NAMED else ''}{min(len(some), MAX_NAMED)} {what}{'s' * (len(some) > 1)} "
        f"({', '.join(map(str, some[:MAX_NAMED]))})"
        for some, what in (
            (users.crons, "cron"),
            (users.subscriptions, "subscription"),
            (users.schedules, "waiting schedule"),
        )
        if some
    ]
    if found:
        detail = f"destination {name!r} is named by {' and '.join(found)}"
        detail += "" if users.complete else "; there may be others"
    else:
        detail = (
            f"the client has too many crons or waiting schedules to look at all of them, so nobody knows whether one "
            f"names the destination {name!r}"
        )
    raise Conflict("destination-in-use", detail)
