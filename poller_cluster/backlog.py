"""The rows on a node that are due and have no outcome, counted on request over the rows held in memory. Long calls that
are under way are not overdue, so they don't count.

A count costs 0.14 µs a row held, 27 ms for the 200,000 that a node holds at most under the default bounds, on the loop
that makes the calls; so it is kept for `STANDS_SECONDS`. Of the rows that an outage left only those read so far are in
memory, but their age is known from the minute that recovery has reached.
"""

from collections.abc import Mapping
from typing import Final

from poller_cluster.node_pollers import NodePollers
from scheduler_service.domain.ids import ClientId, minute_start
from scheduler_service.runtime.clock import Clock

STANDS_SECONDS: Final = 1.0


class Backlog:
    """The backlog of one node. Suspended clients have none: their rows are held."""

    def __init__(self, *, pollers: NodePollers, clock: Clock) -> None:
        self._pollers = pollers
        self._clock = clock
        self._seen_at = float("-inf")
        self._rows: dict[ClientId, int] = {}
        self._oldest_due: int | None = None

    def rows(self) -> int:
        """Rows that are due and have no outcome."""
        return sum(self.rows_by_client().values())

    def rows_by_client(self) -> Mapping[ClientId, int]:
        self._look()
        return self._rows

    def oldest_age_seconds(self) -> float:
        """How long ago the oldest of them was due, or the oldest minute still to be recovered began; 0 without any."""
        self._look()
        return 0.0 if self._oldest_due is None else max(self._clock.wall_ms() - self._oldest_due, 0) / 1000.0

    def _look(self) -> None:
        monotonic = self._clock.monotonic()
        if monotonic - self._seen_at < STANDS_SECONDS:
            return
        self._seen_at, now = monotonic, self._clock.wall_ms()
        self._rows, oldest = {}, now
        for pollers in self._pollers.all():
            if pollers.suspended:
                continue
            rows = 0
            for poller in pollers.pollers.values():
                if not poller.recovery.done:
                    oldest = min(oldest, minute_start(poller.recovery.at))
                for run in poller.runs.values():
                    calling = run.machine.long_calls
                    due = [
                        key.due
                        for key, entry in run.machine.rows
                        if entry.outcome is None and key.due <= now and not (calling and key in calling)
                    ]
                    rows += len(due)
                    oldest = min(oldest, *due) if due else oldest
            self._rows[pollers.client_id] = rows
        self._oldest_due = oldest if oldest < now else None
