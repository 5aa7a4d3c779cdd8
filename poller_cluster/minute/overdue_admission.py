"""Which overdue rows of a minute may be claimed now: as many as the overdue rate lets start.

    no rate, not overdue     as any other row: one comparison
    skipped by its policy    claimed without a token, since it is not called
    no token                 held unclaimed, without a write, before its key or receiver is asked: so it takes a place
                             of nobody, and may be cancelled
    a token                  judged further; only a row that is claimed uses it up

A row that is deferred or retried counts by its new due: it comes back as a row on time.
"""

from collections.abc import Callable, Mapping, Sized

from poller_cluster.clients import ServedClient
from poller_cluster.dispatch.dispatcher import Dispatcher
from poller_cluster.dispatch.request import will_be_skipped
from poller_cluster.minute.rows import OVERDUE, Again, Hold, PendingRow, WaitQueue
from scheduler_service.domain.ids import ClientId, Minute
from scheduler_service.domain.overdue_rates import OVERDUE_AFTER_MS, overdue_from

ALL = 1 << 30
"""More than the rows of any minute."""
NEVER = -1
FOR_TOKENS: WaitQueue = (OVERDUE, "")
"""The queue of overdue rows: one for all receivers."""


class OverdueAdmission:
    """The part of `MinuteAdmission` that judges overdue rows; a `HoldingMinute`. `wake_minute(minute)`: let the run
    of this minute step again."""

    def __init__(
        self,
        *,
        client_id: ClientId,
        minute: Minute,
        dispatcher: Dispatcher,
        wall_ms: Callable[[], int],
        wake_minute: Callable[[Minute], None],
    ) -> None:
        self.minute = minute
        self.held = 0
        self.due_by = NEVER
        """Only rows due by then may be overdue; NEVER without a rate."""
        self._client_id = client_id
        self._client: ServedClient | None = None
        self._calls = dispatcher.overdue_calls
        self._wall_ms = wall_ms
        self._wake_minute = wake_minute
        self._claiming = 0

    def wake(self) -> None:
        self._wake_minute(self.minute)

    def begin(self, held: Mapping[WaitQueue, Sized], client: ServedClient | None) -> None:
        limited = self._calls.limited(client)
        self._client = client if limited else None
        self.due_by = self._wall_ms() - OVERDUE_AFTER_MS if limited else NEVER
        self.held = len(held.get(FOR_TOKENS, ()))

    def needs_token(self, entry: PendingRow, now: int) -> bool:
        client = self._client
        if client is None or overdue_from(entry.row.due, entry.found_at) > now:
            return False
        return not will_be_skipped(entry.claim(), client, judged_at=self._calls.judged_at())

    def refused(self, entry: PendingRow) -> Hold | None:
        """The row waits, since there is no token for it; None: there is."""
        if self._client is None or self._calls.room(self._client) > 0:
            return None
        self.held += 1
        self._calls.refuse(self._client, self)
        return Hold(FOR_TOKENS, entry.key)

    def claiming(self, entry: PendingRow) -> None:
        """An overdue row is about to be claimed."""
        entry.overdue = True
        self._claiming += 1
        self._calls.reserve(self._client_id, 1)

    def answered(self) -> None:
        if self._claiming:
            rows, self._claiming = self._claiming, 0
            self._calls.reserve(self._client_id, -rows)

    def closed(self) -> None:
        self._calls.closed(self._client_id, self)

    def again(self, client: ServedClient | None) -> Again:
        """Which of the held rows are to be judged again."""
        if client is None or not self._calls.limited(client):
            return Again(ALL)
        # Even if there is room: the first rows may be held for their keys or receivers, and leave it to those behind.
        self._calls.refuse(client, self)
        return Again(max(self._calls.room(client), 0))
