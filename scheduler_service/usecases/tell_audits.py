"""Tells clients of audits of their books: `books.unbalanced`, a row of `$events` for each client with findings and a
feed, whose "call" appends the event to the feed, as of all events that are no end (`domain.notices`).

Nodes that know events append types that they do not know, so it needs no later nodes than the feed does.
"""

from collections.abc import Sequence
from typing import Final

from scheduler_service.domain.audits import Audit, unbalanced_event
from scheduler_service.domain.clients import Client, ClientState
from scheduler_service.domain.events import Event
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.notices import EVENTS_CLIENT, occurrence_row
from scheduler_service.domain.ports import ClientStore
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.schedule_writer import ScheduleWriter

AT_ONCE: Final = 16


async def tell_unbalanced(audits: Sequence[Audit], *, clients: ClientStore, writer: ScheduleWriter) -> list[ClientId]:
    """Place the rows; answers which clients are told. Returns when the rows are certain to be read. May be repeated:
    the same audit makes the same row, and another audit of the window an event of the same id. Raises
    StoreUnavailable: some may not be told."""
    found = [(audit.client_id, event) for audit in audits if (event := unbalanced_event(audit)) is not None]
    if not found or (events := await clients.read_client(EVENTS_CLIENT)) is None:
        # Without the built-in client no node has known events yet, so no client has a feed.
        return []

    async def tell(one: tuple[ClientId, Event]) -> ClientId | None:
        client_id, event = one
        if not _has_feed(await clients.read_client(client_id)):
            return None
        await writer(occurrence_row(client_id, event, quota=events.poller_quota))
        return client_id

    return [client_id for client_id in await concurrently(tell, found, width=AT_ONCE) if client_id is not None]


def _has_feed(client: Client | None) -> bool:
    return client is not None and client.state is not ClientState.DELETED and client.settings.event_feed
