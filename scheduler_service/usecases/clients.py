"""Clients: registered, shown, changed, suspended, resumed, paused and deleted; and Minutehand's own.

    active --suspend--> suspended --delete--> deleted
    active <--resume--- suspended

Suspended: creates are refused, reads and cancels work, due calls are held; resuming is recovery under the client's late
policy. Deleted: keys are revoked, pending schedules are never called, and the id stays reserved. Each verb may be
repeated.

Paused: due calls are held and crons are not expanded, as of a suspended client, but creates are accepted. A client
pauses itself. That is independent of its state, so a client that is suspended and paused stays stopped until both are
lifted.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from membership.conditional import Applied, Rejected, Unknown
from membership.errors import StoreUnavailable
from membership.identity import PollerKey
from membership.ports import LeaseStore
from scheduler_service.domain.clients import Client, ClientSettings, ClientState, OwnSettings, RetrySettings
from scheduler_service.domain.crons.row import CRON_CLIENT
from scheduler_service.domain.errors import Conflict, FieldError, Invalid, NotFound
from scheduler_service.domain.ids import ClientId, UnixMillis, minute_of
from scheduler_service.domain.notices import EVENTS_CLIENT, EVENTS_POLLERS, EVENTS_SETTINGS
from scheduler_service.domain.ports import ClientStore, SubscriptionStore
from scheduler_service.domain.preconditions import NO_PRECONDITION, Precondition
from scheduler_service.runtime.clock import Clock
from scheduler_service.usecases.authenticate import Catalog
from scheduler_service.usecases.keys import Keys
from scheduler_service.usecases.revised_rows import Written, change_row
from scheduler_service.usecases.signing_secrets import NewSecret, SigningSecrets

WATERMARK_MARGIN_MINUTES = 1
"""A new poller's watermark is one minute before now, so that an API whose clock is behind ours creates no row in a
minute that already counts as settled."""

Step: TypeAlias = Callable[[Client], Awaitable[Client]]
"""Answers the client as it should be. Raises to refuse."""

CRON_POLLERS = 16
"""Each is guaranteed 1,000 wake-ups a minute. An administrator may change the quota."""
CRONS_AT_ONCE = 1_600
"""Wake-ups in flight over all nodes. They take no connection, and the more of them are under way, the more share each
conditional write, of the crons and of their own rows."""
CRON_SETTINGS = ClientSettings(
    retry=RetrySettings(max_attempts=100, deadline_seconds=604_800.0),
    max_in_flight=CRONS_AT_ONCE,
    retention_days=1,
)
"""A wake-up is retried for as long as settings allow, and need not be kept once it has ended."""


async def with_feed(current: Client) -> Client:
    """A step: the client has a feed."""
    refuse_built_in(current)
    return msgspec.structs.replace(current, settings=msgspec.structs.replace(current.settings, event_feed=True))


class ChangeClient:
    """Change: the one way to change a client's row, for every verb.

    A change is a function from the present client to the changed one. It is written as `revised_rows` says; after a
    StoreUnavailable it may have taken effect, and every change here may be repeated.

    Applies steps to clients that are not deleted.
    """

    def __init__(
        self,
        *,
        store: ClientStore,
        catalog: Catalog,
        subscriptions: SubscriptionStore,
        admit_feed: Callable[[], None],
        admit_rate: Callable[[], None],
    ) -> None:
        """`admit_feed()` raises Conflict (older-nodes) while nodes run that append no events, `admit_rate()` while some
        keep to no overdue rate."""
        self._store = store
        self._subscriptions = subscriptions
        self._catalog = catalog
        self._admit_feed = admit_feed
        self._admit_rate = admit_rate

    def check_known(self, before: ClientSettings, wanted: ClientSettings) -> None:
        """Raises Conflict where a feed would begin that older nodes leave gaps in, or an overdue rate that they would
        not keep to."""
        if wanted.overdue_per_second is not None and before.overdue_per_second is None:
            self._admit_rate()
        if wanted.event_feed and not before.event_feed:
            self._admit_feed()

    async def _check_feed_is_unused(self, before: Client, wanted: ClientSettings) -> None:
        """Raises Conflict where a feed would end that subscriptions send from; StoreUnavailable."""
        if wanted.event_feed or not before.settings.event_feed:
            return
        names = [one.name for one in await self._subscriptions.list_subscriptions(before.client_id)]
        if names:
            what = f"{len(names)} subscription{'s' if len(names) > 1 else ''} ({', '.join(names)})"
            raise Conflict("feed-in-use", f"{what} would send nothing without event_feed: delete them first")

    async def __call__(
        self, client_id: ClientId, step: Step, *, precondition: Precondition = NO_PRECONDITION
    ) -> Client:
        """Raises NotFound, PreconditionFailed unless the client already is as requested, StoreUnavailable, and what the
        step raises."""

        async def write(current: Client | None) -> Written[Client]:
            if current is None or current.state is ClientState.DELETED:
                raise NotFound(f"there is no client {client_id!r}")
            changed = await step(current)
            self.check_known(current.settings, changed.settings)
            await self._check_feed_is_unused(current, changed.settings)
            if changed != current:
                # The answer to an equal request may have been lost, so a repeat is not refused.
                precondition.check(str(current.revision))
            wanted = msgspec.structs.replace(changed, revision=current.revision + 1)
            answer = await self._store.update_client(expected_revision=current.revision, client=wanted)
            self._catalog.forget()
            return wanted, answer

        before, changed = await change_row(await self._store.read_client(client_id), write, what="client")
        if before is not None:
            await self._keep_used_feed(before, changed)
        return changed

    async def _keep_used_feed(self, before: Client, changed: Client) -> None:
        """Give the feed back if a subscription was made while it was switched off: this looks after its write, and who
        makes one looks at the feed after theirs, so one of both sees the other. Raises Conflict then."""
        try:
            await self._check_feed_is_unused(before, changed.settings)
        except Conflict:
            await self(before.client_id, with_feed)
            raise


def refuse_built_in(client: Client) -> None:
    """Raises Conflict for clients that are Minutehand's own."""
    if client.built_in:
        raise Conflict("built-in-client", f"{client.client_id!r} is a built-in client: only its quota may be changed")


class Registered(NamedTuple):
    """`secret`: the first signing secret of a client that is new; None: the client was there."""

    client: Client
    secret: NewSecret | None


class RegisterClient:
    """Register: create a client, or give it another quota or other settings.

    Pollers exist before they are needed:

        new      pollers 0..quota-1 -> a signing secret -> the client's row
        grown    pollers ceiling..quota-1 -> quota and ceiling
        shrunk   quota; the ceiling stays, so that the old pollers stay polled and nothing is moved or lost

    A crash in between leaves pollers that are not used yet, and a secret that nobody was shown; a repeat completes the
    rest, with a secret of its own, and deletes that one. So a client is signed for from its first call.

    A repeat with the same values raises the revision.
    """

    def __init__(
        self,
        *,
        store: ClientStore,
        leases: LeaseStore,
        catalog: Catalog,
        change: ChangeClient,
        secrets: SigningSecrets,
        clock: Clock,
    ) -> None:
        self._store = store
        self._leases = leases
        self._secrets = secrets
        self._catalog = catalog
        self._change = change
        self._clock = clock

    async def __call__(
        self,
        client_id: ClientId,
        *,
        poller_quota: int,
        settings: ClientSettings | None,
        precondition: Precondition = NO_PRECONDITION,
    ) -> Registered:
        """`settings` None: the defaults. Raises Conflict, Invalid, NotFound, PreconditionFailed, StoreUnavailable."""
        wanted = settings if settings is not None else ClientSettings()
        known = await self._store.read_client(client_id)
        if known is None:
            precondition.check(None)
            self._change.check_known(ClientSettings(), wanted)
            if client_id.startswith("$"):
                raise NotFound(f"there is no built-in client {client_id!r}")
            await self._create_pollers(client_id, range(poller_quota))
            secret = await self._secrets.create_first(client_id)
            client = await self._create(client_id, poller_quota, wanted)
            if client is not None:
                await self._secrets.keep_only(client_id, secret)
                return Registered(client, secret)
            await self._store.delete_secret(client_id, secret.secret.secret_id)
        elif known.state is ClientState.DELETED:
            raise Conflict(
                "client-deleted",
                f"a client {client_id!r} was deleted and its id stays reserved; choose another id",
                state=known.state,
            )

        async def step(current: Client) -> Client:
            precondition.check(str(current.revision))
            if current.built_in and settings is not None:
                detail = "the settings of built-in clients can't be changed; leave them out"
                raise Invalid([FieldError("/settings", detail)])
            if poller_quota > current.poller_ceiling:
                await self._create_pollers(client_id, range(current.poller_ceiling, poller_quota))
            return msgspec.structs.replace(
                current,
                poller_quota=poller_quota,
                poller_ceiling=max(current.poller_ceiling, poller_quota),
                settings=current.settings if current.built_in else wanted,
            )

        return Registered(await self._change(client_id, step), None)

    async def built_in(self, client_id: ClientId, *, poller_quota: int, settings: ClientSettings) -> Client:
        """One of Minutehand's own clients, created unless it exists. Every program creates those it needs when it
        starts.

        Raises StoreUnavailable.
        """
        known = await self._store.read_client(client_id)
        if known is not None:
            return known
        await self._create_pollers(client_id, range(poller_quota))
        return await self._create(client_id, poller_quota, settings) or await self._catalog.client(client_id)

    async def _create(self, client_id: ClientId, poller_quota: int, settings: ClientSettings) -> Client | None:
        """The client's row, once its pollers exist. None: it was registered by another caller meanwhile."""
        client = Client(
            client_id=client_id,
            poller_quota=poller_quota,
            poller_ceiling=poller_quota,
            state=ClientState.ACTIVE,
            settings=settings,
            revision=1,
            created_at=UnixMillis(self._clock.wall_ms()),
        )
        answer = await self._store.create_client(client)
        self._catalog.forget()
        match answer:
            case Applied():
                return client
            case Rejected():
                return None
            case Unknown():
                # Its values and the millisecond make it this request's; a repeat would not be shown the secret.
                if await self._store.read_client(client_id) == client:
                    return client
                raise StoreUnavailable("storage did not say whether the client was registered; repeat the request")

    async def _create_pollers(self, client_id: ClientId, poller_ids: Sequence[int]) -> None:
        watermark = minute_of(self._clock.wall_ms()) - WATERMARK_MARGIN_MINUTES
        await self._leases.create_pollers(
            [PollerKey(client_id, poller_id) for poller_id in poller_ids], watermark=watermark
        )


class SuspendClient:
    """Holds a client's calls, or continues them."""

    def __init__(self, *, change: ChangeClient) -> None:
        self._change = change

    async def suspend(self, client_id: ClientId, *, precondition: Precondition = NO_PRECONDITION) -> Client:
        """Raises Conflict for built-in clients, NotFound, PreconditionFailed, StoreUnavailable."""
        return await self._move(client_id, ClientState.SUSPENDED, precondition)

    async def resume(self, client_id: ClientId, *, precondition: Precondition = NO_PRECONDITION) -> Client:
        """Raises Conflict for built-in clients, NotFound, PreconditionFailed, StoreUnavailable."""
        return await self._move(client_id, ClientState.ACTIVE, precondition)

    async def _move(self, client_id: ClientId, state: ClientState, precondition: Precondition) -> Client:
        async def step(current: Client) -> Client:
            refuse_built_in(current)
            return msgspec.structs.replace(current, state=state)

        return await self._change(client_id, step, precondition=precondition)


class PauseClient:
    """Holds a client's calls at its own wish, or continues them."""

    def __init__(self, *, change: ChangeClient) -> None:
        self._change = change

    async def pause(self, client_id: ClientId, *, precondition: Precondition = NO_PRECONDITION) -> Client:
        """Raises Conflict for built-in clients, NotFound, PreconditionFailed, StoreUnavailable."""
        return await self._set(client_id, precondition, paused=True)

    async def unpause(self, client_id: ClientId, *, precondition: Precondition = NO_PRECONDITION) -> Client:
        """Raises Conflict for built-in clients, NotFound, PreconditionFailed, StoreUnavailable."""
        return await self._set(client_id, precondition, paused=False)

    async def _set(self, client_id: ClientId, precondition: Precondition, *, paused: bool) -> Client:
        async def step(current: Client) -> Client:
            refuse_built_in(current)
            return msgspec.structs.replace(current, paused=paused)

        return await self._change(client_id, step, precondition=precondition)


class ChangeOwnSettings:
    """Changes the settings that are a client's own. The caller has judged them."""

    def __init__(self, *, change: ChangeClient) -> None:
        self._change = change

    async def __call__(
        self, client_id: ClientId, wanted: OwnSettings, *, precondition: Precondition = NO_PRECONDITION
    ) -> Client:
        """Raises Conflict for built-in clients, NotFound, PreconditionFailed, StoreUnavailable."""

        async def step(current: Client) -> Client:
            refuse_built_in(current)
            return msgspec.structs.replace(current, settings=wanted.over(current.settings))

        return await self._change(client_id, step, precondition=precondition)


class SwitchFeedOn:
    """Gives a client a feed, unless it has one."""

    def __init__(self, *, change: ChangeClient, store: ClientStore) -> None:
        self._change = change
        self._store = store

    async def __call__(self, client_id: ClientId) -> None:
        """Raises Conflict for built-in clients, NotFound, StoreUnavailable."""
        stored = await self._store.read_client(client_id)
        if stored is not None and stored.settings.event_feed:
            return

        await self._change(client_id, with_feed)


class DeleteClient:
    """Ends a suspended client."""

    def __init__(self, *, store: ClientStore, change: ChangeClient, keys: Keys) -> None:
        self._store = store
        self._change = change
        self._keys = keys

    async def __call__(self, client_id: ClientId, *, precondition: Precondition = NO_PRECONDITION) -> None:
        """The state is written first, because it alone makes every key of the client worthless; then the keys are
        revoked. A deletion that was interrupted in between, or before its announcement, is completed by a repeat.

        Raises Conflict, NotFound, PreconditionFailed, StoreUnavailable.
        """
        known = await self._store.read_client(client_id)
        if known is None:
            raise NotFound(f"there is no client {client_id!r}")

        async def step(current: Client) -> Client:
            refuse_built_in(current)
            if current.state is not ClientState.SUSPENDED:
                raise Conflict("not-suspended", "only a suspended client can be deleted", state=current.state)
            return msgspec.structs.replace(current, state=ClientState.DELETED)

        if known.state is ClientState.DELETED:
            await self._store.announce()
        else:
            await self._change(client_id, step, precondition=precondition)
        await self._keys.revoke_all(client_id)


class ShowClients:
    """Show: clients as they are registered, read from storage. Deleted ones are never shown.

    For administrators and the client itself; requests get clients and keys from `Catalog`.
    """

    def __init__(self, *, store: ClientStore) -> None:
        self._store = store

    async def one(self, client_id: ClientId) -> Client:
        """Raises NotFound, StoreUnavailable."""
        client = await self._store.read_client(client_id)
        if client is None or client.state is ClientState.DELETED:
            raise NotFound(f"there is no client {client_id[:128]!r}")
        return client

    async def all(self) -> list[Client]:
        """Raises StoreUnavailable."""
        return [client for client in await self._store.list_clients() if client.state is not ClientState.DELETED]


async def create_built_in_clients(register: RegisterClient) -> None:
    """Create the clients that are Minutehand's own, where they are missing. Any number of processes may do so at once.
    Raises StoreUnavailable.
    """
    await register.built_in(CRON_CLIENT, poller_quota=CRON_POLLERS, settings=CRON_SETTINGS)
    await register.built_in(EVENTS_CLIENT, poller_quota=EVENTS_POLLERS, settings=EVENTS_SETTINGS)
