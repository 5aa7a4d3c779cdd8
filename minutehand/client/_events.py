"""Events of a client's feed, and how they are asked for."""

from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec

from minutehand.client._calls import Operation, client_path, given, instant
from minutehand.client._errors import MinutehandClientError, MinutehandUnreachable, TooManyRequests, Unavailable

FEED_WAIT_SECONDS: Final = 30
"""How long one request waits for events."""
FEED_ANSWER_SECONDS: Final = 30.0
"""How much longer its answer may take."""
FEED_PAUSE_SECONDS: Final = 1.0
"""Between requests that are refused for a while, beyond the pauses of each request's own repeats."""
EARLIEST: Final = "earliest"


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """What became of something. `id` is the same if the event comes again. `data` depends on the type; see the page
    "Follow events" of the documentation."""

    id: UUID
    type: str
    at: datetime
    schedule_id: UUID | None = None
    data: dict[str, Any] = {}


class FeedPage(msgspec.Struct, frozen=True, kw_only=True):
    events: tuple[Event, ...]
    cursor: str
    more: bool


def read_events(
    client_id: str,
    *,
    after: str | None,
    since: datetime | str | None,
    pollers: str | None,
    limit: int | None,
    wait_seconds: int,
) -> Operation[FeedPage]:
    query = given(
        {
            "after": after,
            "since": instant(since),
            "pollers": pollers,
            "limit": limit,
            "wait_seconds": wait_seconds or None,
        }
    )
    return Operation(
        method="GET",
        path=f"{client_path(client_id)}/events",
        answer=FeedPage,
        query=query,
        timeout_seconds=wait_seconds + FEED_ANSWER_SECONDS,
    )


def is_passing(error: MinutehandClientError) -> bool:
    """Whether the feed can be read on later."""
    if isinstance(error, MinutehandUnreachable):
        return error.passing
    return isinstance(error, TooManyRequests | Unavailable)
