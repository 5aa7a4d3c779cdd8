"""Which rows with a long time-out may be claimed now: those for which their client and node have room.

A row that is not due, and would take the room of those that are, is held until it is. Of the due rows without room, as
many as the client may have under way are held in memory, up to an eighth of the minute's window; the others are
deferred until about their turn: retry rows with no attempt counted. So they leave the window to other rows, and let
their minutes settle.
"""

from collections.abc import Mapping, Sized

from poller_cluster.clients import ServedClient
from poller_cluster.dispatch.dispatcher import Dispatcher
from poller_cluster.dispatch.outcome import LONG_CALLS_FULL, defer_for
from poller_cluster.dispatch.receivers import DUE, due_within, part_for
from poller_cluster.minute.limits import RowWindow
from poller_cluster.minute.rows import LONG, Again, Hold, PendingRow, Verdict, WaitQueue
from poller_cluster.settings import MinuteSettings
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.schedules import Row

LEAST_APART_SECONDS = 10.0
LONGEST_SECONDS = 600.0
"""A deferred row comes back between half of this time and all of it at the latest: other calls may have ended."""
WINDOW_PART = 8
FOR_ROOM: WaitQueue = (LONG, "")
"""The queue of long calls: one for all receivers."""


class LongAdmission:
    """The part of `MinuteAdmission` that judges long calls."""

    def __init__(
        self, *, client_id: ClientId, dispatcher: Dispatcher, settings: MinuteSettings, row_window: RowWindow
    ) -> None:
        self._client_id = client_id
        self._dispatcher = dispatcher
        self._calls = dispatcher.long_calls
        self._settings = settings
        self._row_window = row_window
        self._claiming = 0
        self._held = 0
        self.possible = False
        """Whether the client has long calls at all, as far as the operator lets it."""

    def includes(self, row: Row, client: ServedClient) -> bool:
        return self._calls.includes(row, client)

    def begin(self, held: Mapping[WaitQueue, Sized], client: ServedClient | None) -> None:
        self.possible = client is not None and self._calls.possible(client)
        self._held = len(held.get(FOR_ROOM, ()))

    def answered(self) -> None:
        if self._claiming:
            rows, self._claiming = self._claiming, 0
            self._calls.reserve(self._client_id, -rows)

    def claiming(self) -> None:
        """A long call is about to be claimed."""
        self._claiming += 1
        self._calls.reserve(self._client_id, 1)

    def judge(self, entry: PendingRow, client: ServedClient, now_ms: int) -> Verdict:
        limit = self._dispatcher.limit_of(client)
        part = part_for(entry.row.due - now_ms, lead_ms=self._settings.claim_lead_ms)
        if self._calls.headroom(self._client_id, limit, part) > 0:
            return None
        if part < DUE:
            return Hold(FOR_ROOM, entry.key)
        if self._held < min(self._calls.places(limit), self._row_window.rows // WINDOW_PART):
            self._held += 1
            self._calls.refuse(self._client_id, limit)
            return Hold(FOR_ROOM, entry.key)
        seconds = self._calls.defer(
            self._client_id,
            limit,
            now=self._dispatcher.flows.monotonic(),
            least=LEAST_APART_SECONDS,
            most=LONGEST_SECONDS * (1 + entry.fraction) / 2,
        )
        return defer_for(entry.claim(), seconds, now=now_ms, reason=LONG_CALLS_FULL)

    def again(self, first: PendingRow, client: ServedClient, now_ms: int) -> Again:
        """Which of the held rows are to be judged again."""
        lead_ms, ahead_ms = self._settings.claim_lead_ms, self._settings.claim_ahead_ms
        limit, part = self._dispatcher.limit_of(client), part_for(first.row.due - now_ms, lead_ms=lead_ms)
        room = self._calls.headroom(self._client_id, limit, part)
        if room <= 0 and part == DUE:
            self._calls.refuse(self._client_id, limit)
        return Again(room, due_by=now_ms + due_within(part, lead_ms=lead_ms, ahead_ms=ahead_ms))
