"""The store of what minutes hold."""

from collections.abc import Sequence
from typing import Protocol

from scheduler_service.domain.ids import ClientId, Minute
from scheduler_service.domain.minute_loads import HourLoad, LoadCounts, Unwritten


class MinuteLoadStore(Protocol):
    """The table `minute_loads`: each row has one writer, which replaces it as a whole. Nothing here is conditional."""

    @property
    def counts(self) -> LoadCounts:
        """What the other stores of this process have placed, and ended before its call."""

    async def write(self, rows: Sequence[Unwritten], *, now: int) -> None:
        """Store these rows, each as a whole; repeatable. They expire LOADS_KEPT_MS after their hours, as seen at `now`
        (Unix milliseconds). Raises StoreUnavailable; some may then have been stored."""

    async def read(self, client_id: ClientId, *, first: Minute, last: Minute) -> Sequence[HourLoad]:
        """The rows of all writers of the hours that these minutes touch, both ends included: one request for each
        day in UTC."""
