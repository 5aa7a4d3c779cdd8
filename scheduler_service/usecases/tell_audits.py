"""Tells clients of audits of their books: `books.unbalanced`, a row of `$events` for each client with findings and a
feed, whose "call" appends the event to the feed, as of all events that are no end (`domain.notices`).

    report stored --> anything that no told report has? --> yes: the row is placed --> the report is marked `told`
                                   '--> no -------------------------------------------------^

A run that dies in between leaves a report that is not told, so the next audit that finds the same tells it: under the
same id, in case that the row was placed.

Nodes that know events append types that they do not know, so it needs no later nodes than the feed does.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from scheduler_service.domain.audits import Audit, is_news, unbalanced_event
from scheduler_service.domain.clients import Client, ClientState
from scheduler_service.domain.events import Event
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.notices import EVENTS_CLIENT, event_row
from scheduler_service.domain.ports import AuditStore, ClientStore
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.schedule_writer import ScheduleWriter
from scheduler_service.usecases.storage_probes import REPORTS

AT_ONCE: Final = 16


async def tell_unbalanced(
    audits: Sequence[Audit], *, clients: ClientStore, reports: AuditStore, writer: ScheduleWriter
) -> list[ClientId]:
    """Place the rows for these audits, whose reports are stored; answers which clients are told now, of what none of
    their last reports told them. Returns when the rows are certain to be read. May be repeated: the same findings make
    an event of the same id. Raises StoreUnavailable: some may not be told."""
    found = [(audit, event) for audit in audits if (event := unbalanced_event(audit)) is not None]
    if not found or (events := await clients.read_client(EVENTS_CLIENT)) is None:
        # Without the built-in client no node has known events yet, so no client has a feed.
        return []

    async def tell(one: tuple[Audit, Event]) -> ClientId | None:
        audit, event = one
        if not _has_feed(await clients.read_client(audit.client_id)):
            return None
        news = is_news(audit, await reports.read_page(audit.client_id, limit=REPORTS))
        if news:
            await writer(event_row(audit.client_id, event, quota=events.poller_quota))
        await reports.insert(msgspec.structs.replace(audit, told=True))
        return audit.client_id if news else None

    return [client_id for client_id in await concurrently(tell, found, width=AT_ONCE) if client_id is not None]


def _has_feed(client: Client | None) -> bool:
    return client is not None and client.state is not ClientState.DELETED and client.settings.event_feed
