"""Send a trial call: one call of a client, made now to look at its receiver. It is judged like a schedule's and never
stored. A preview shows the request of a stored schedule's call, and sends nothing."""

from typing import Annotated

import msgspec
from msgspec import Meta

from scheduler_service.domain.clients import Client
from scheduler_service.domain.destinations import Destination, read_named_url
from scheduler_service.domain.errors import Conflict, FieldError, Invalid
from scheduler_service.domain.ids import PollerId, UnixMillis, new_schedule_id, partition_of
from scheduler_service.domain.options import Headers, ScheduleOptions, encode_headers, encode_options
from scheduler_service.domain.ports import ClientStore, DestinationStore, TrialCaller
from scheduler_service.domain.retry_rows import definition_of
from scheduler_service.domain.schedules import Definition, Row
from scheduler_service.domain.trial_calls import Exchange, Preview, TrialCall
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.randomness import Randomness
from scheduler_service.usecases.admission import AdmitCreates
from scheduler_service.usecases.destinations import open_destination
from scheduler_service.usecases.schedule_request import (
    CallbackPolicy,
    CallbackRequest,
    asks_for_empty_body,
    draft_callback,
    refuse_acks,
)
from scheduler_service.usecases.signing_secrets import active_secrets

_NO_ACK = refuse_acks("is not for trial calls: nobody awaits a word about them")
_POLLER = PollerId(0)
"""The poller in a trial call's id; the id is never looked up."""


class TrialCallRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A callback to send once, now. `timeout_seconds`: the client's setting unless given."""

    callback: CallbackRequest
    timeout_seconds: Annotated[float, Meta(ge=0.1, le=60)] | None = None


class SendTrialCall:
    """Sends trial calls for clients that the caller has looked up."""

    def __init__(
        self,
        *,
        clients: ClientStore,
        destinations: DestinationStore,
        caller: TrialCaller,
        policy: CallbackPolicy,
        admit: AdmitCreates,
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        self.admit = admit
        """Call it before a body is read."""
        self._clients = clients
        self._stored = destinations
        self._destinations = policy.destinations
        self._caller = caller
        self._check_url = policy.check_url
        self._encryption = policy.encryption
        self._clock = clock
        self._randomness = randomness

    def faults(self, client: Client, request: TrialCallRequest) -> list[FieldError]:
        """All faults of a request."""
        found: list[FieldError] = []
        self._draft(client, request.callback, found)
        return found

    async def draw(self, client: Client, request: TrialCallRequest) -> TrialCall:
        """The call to send, with the secrets that are active now. Raises what `admit` does, Invalid, SecretLocked,
        StoreUnavailable."""
        self.admit(client)
        callback, faults = request.callback, list[FieldError]()
        await self._destinations.look_up(client.client_id, [callback.destination])
        headers, body = self._draft(client, callback, faults)
        if faults:
            raise Invalid(faults)
        now = UnixMillis(self._clock.wall_ms())
        method, url = callback.stored_call
        options = ScheduleOptions(timeout_seconds=request.timeout_seconds, empty_body=asks_for_empty_body(callback))
        definition = Definition(
            client_id=client.client_id,
            poller_id=_POLLER,
            due=now,
            schedule_id=new_schedule_id(due=now, poller_id=_POLLER, randomness=self._randomness),
            method=method,
            url=url,
            headers=encode_headers(headers),
            body=body,
            options=encode_options(options),
            created_at=now,
        )
        return await self._signed(client, definition, now=now)

    def _draft(self, client: Client, callback: CallbackRequest, faults: list[FieldError]) -> tuple[Headers, bytes]:
        return draft_callback(
            callback,
            settings=client.settings,
            check_url=self._check_url,
            faults=faults,
            check_destination=self._destinations.check(client.client_id),
            check_ack=_NO_ACK,
        )

    async def preview(self, client: Client, row: Row) -> Preview | None:
        """The request that a call of this stored schedule would make now; nothing is sent. None: the row can't be
        decoded. Raises SecretLocked, StoreUnavailable."""
        definition = definition_of(partition_of(client.client_id, row.schedule_id), row)
        headers = self._encryption.open_headers(client.client_id, definition.headers)
        now = UnixMillis(self._clock.wall_ms())
        call = await self._signed(client, msgspec.structs.replace(definition, headers=headers), now=now)
        return self._caller.preview(call)

    async def _signed(self, client: Client, definition: Definition, *, now: UnixMillis) -> TrialCall:
        stored = await self._clients.list_secrets(client.client_id)
        active = active_secrets(stored, encryption=self._encryption, now=now)
        return TrialCall(
            client=client,
            definition=definition,
            secrets=active.secrets,
            private_keys=active.private_keys,
            destination=await self._destination(client, definition),
        )

    async def _destination(self, client: Client, definition: Definition) -> Destination | None:
        """The one that the callback names, as it is stored now, even while it is paused."""
        named = read_named_url(definition.url)
        if named is None:
            return None
        stored = await self._stored.read_destination(client.client_id, named.name)
        if stored is None:
            raise Conflict("destination-deleted", f"the destination {named.name!r} was deleted: the call would fail")
        return open_destination(stored, self._encryption)

    async def send(self, trial_call: TrialCall) -> Exchange:
        """Send it and wait for its answer. Raises TooManyTrialCalls, Overloaded."""
        return await self._caller.call(trial_call)
