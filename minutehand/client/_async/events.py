"""A client's feed as an iterator that goes on by itself."""

from collections.abc import AsyncIterator
from datetime import datetime

from minutehand.client._async.parts import AsyncPerform
from minutehand.client._errors import MinutehandClientError
from minutehand.client._events import FEED_PAUSE_SECONDS, FEED_WAIT_SECONDS, Event, is_passing, read_events
from minutehand.client._runtime import Runtime, SystemRuntime


class AsyncFeed:
    """Events one after another. `cursor`: from where to go on, with `client.events(after=cursor)`, after another
    program was started: behind all events before the one that the iteration is at, or a few earlier. None: nothing was
    read yet."""

    def __init__(
        self,
        perform: AsyncPerform,
        client_id: str,
        *,
        after: str | None,
        since: datetime | str | None,
        pollers: str | None,
        page_size: int | None,
        follow: bool,
        runtime: Runtime | None = None,
    ) -> None:
        self.cursor = after
        self._perform = perform
        self._client_id = client_id
        self._since = since
        self._pollers = pollers
        self._page_size = page_size
        self._follow = follow
        self._runtime = runtime or SystemRuntime()

    async def __aiter__(self) -> AsyncIterator[Event]:
        while True:
            operation = read_events(
                self._client_id,
                after=self.cursor,
                since=self._since if self.cursor is None else None,
                pollers=self._pollers,
                limit=self._page_size,
                wait_seconds=FEED_WAIT_SECONDS if self._follow else 0,
            )
            try:
                page = await self._perform(operation)
            except MinutehandClientError as error:
                if not self._follow or not is_passing(error):
                    raise
                await self._runtime.sleep_async(FEED_PAUSE_SECONDS)
                continue
            for event in page.events:
                yield event
            self.cursor = page.cursor
            if not (self._follow or page.more):
                return
