"""How a run of a bulk load begins and ends: whose schedules they are, and what was fixed at the load's first run."""

import asyncio
from argparse import Namespace
from contextlib import suppress
from dataclasses import dataclass

from cql.settings import StorageSettings
from cql.storage import open_storage
from membership.conditional import Applied, Rejected, Unknown
from membership.errors import MinutehandError
from scheduler_service.domain.bulk_loads import MAX_NAME, BulkLoad, BulkState
from scheduler_service.domain.clients import Client, ClientState
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.domain.instants import format_instant
from spark.jobs.job import JobRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line says of the load."""

    client_id: ClientId
    load_id: str
    key: str
    lanes: int | None

    @classmethod
    def of(cls, arguments: Namespace) -> "Asked":
        name: str = arguments.input if arguments.load is None else arguments.load
        if not name or not name.isprintable() or len(name) > MAX_NAME:
            raise JobRefused(f"the load's name must have 1 to {MAX_NAME} printable characters; give one with --load")
        return cls(client_id=ClientId(arguments.client), load_id=name, key=arguments.key, lanes=arguments.lanes)


@dataclass(frozen=True, slots=True)
class Start:
    """What a run goes by. `load`: as its first run fixed it, and how far the last one came. `again`: this is not the
    first."""

    client: Client
    load: BulkLoad
    again: bool


async def begin(storage: StorageSettings, asked: Asked, *, now: int, write: bool) -> Start:
    """Without `write` nothing is. Raises JobRefused."""
    try:
        stores = await open_storage(storage)
    except MinutehandError as error:
        raise JobRefused(str(error)) from error
    try:
        client = await stores.clients.read_client(asked.client_id)
        if client is None or client.state is ClientState.DELETED:
            raise JobRefused(f"there is no client {asked.client_id!r}")
        if client.built_in:
            raise JobRefused(f"{asked.client_id!r} is Minutehand's own: it takes no schedules of yours")
        if client.state is ClientState.SUSPENDED:
            raise JobRefused(f"client {asked.client_id!r} is suspended: an administrator must resume it first")
        lanes = client.poller_quota if asked.lanes is None else asked.lanes
        at = UnixMillis(now)
        load = BulkLoad(
            client_id=asked.client_id,
            load_id=asked.load_id,
            key_column=asked.key,
            lanes=lanes,
            started_at=at,
            state_at=at,
        )
        known = await stores.bulk_loads.read(asked.client_id, asked.load_id)
        if known is None and lanes > client.poller_quota:
            raise JobRefused(f"--lanes {lanes} is more than the {client.poller_quota} pollers of {asked.client_id!r}")
        if known is None and write:
            match await stores.bulk_loads.begin(load):
                case Applied():
                    pass
                case Rejected(current=current):
                    known = current
                case Unknown():
                    raise JobRefused("Cassandra gave no answer to the load's begin; nothing was loaded, try again")
        if known is None:
            return Start(client, load, again=False)
        _check_same(asked, known)
        if write:
            await stores.bulk_loads.note(asked.client_id, asked.load_id, state=BulkState.RUNNING, at=at)
        return Start(client, known, again=True)
    except MinutehandError as error:
        raise JobRefused(str(error)) from error
    finally:
        await stores.close()


def _check_same(asked: Asked, known: BulkLoad) -> None:
    begun = f"load {known.load_id!r} was begun at {format_instant(known.started_at)} with"
    if asked.key != known.key_column:
        raise JobRefused(f"{begun} --key {known.key_column}; other keys would be other schedules: take another --load")
    if asked.lanes is not None and asked.lanes != known.lanes:
        raise JobRefused(f"{begun} {known.lanes} lanes, which its ids name; leave out --lanes, or take another --load")


async def noted(storage: StorageSettings, load: BulkLoad, state: BulkState, at: int) -> None:
    """Say how far a run came. Raises MinutehandError."""
    stores = await open_storage(storage)
    try:
        await stores.bulk_loads.note(load.client_id, load.load_id, state=state, at=UnixMillis(at))
    finally:
        await stores.close()


def try_to_note(storage: StorageSettings, load: BulkLoad, state: BulkState, at: int) -> None:
    """As far as storage lets us: a load that says `running` is taken for cut short, too."""
    with suppress(MinutehandError):
        asyncio.run(noted(storage, load, state, at))


def how_it_begins(start: Start, *, write: bool) -> str:
    """For who waits."""
    load = start.load
    lanes = f"{load.lanes} lanes"
    if not start.again:
        return f"load {load.load_id!r} begins, over {lanes}" if write else f"nothing is written, {lanes}"
    begun = f"load {load.load_id!r} was begun at {format_instant(load.started_at)}, over {lanes}, and"
    ended = "was whole" if load.state is BulkState.WHOLE else "did not come to its end"
    return f"{begun} {ended}: what is there stays as it is, what is missing is {'added' if write else 'judged'}"
