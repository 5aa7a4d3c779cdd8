"""Which rows with a flow key may be claimed now: those for whose key there is room.

A row that is not due, and would take the room of those that are, is held until it is. A due row without room is held in
memory while its turn comes within `HOLD_SECONDS`, else deferred until about then: a retry row with no attempt counted.
Rows of a key come back one after the other, as far apart as its calls are. So a key whose receiver hangs, or whose rate
is used up, keeps a bounded number of rows in memory, lets its minutes settle, and costs a write for each of its other
rows, repeated every 5 to 10 minutes (`LONGEST_SECONDS`).

Due rows that are held may fill a third of the minute's window. No key takes more of that than it leaves free, so one
key has at most half of it.
"""

from collections.abc import Mapping, Sized
from typing import TypeAlias

from poller_cluster.clients import ServedClient
from poller_cluster.dispatch.dispatcher import Dispatcher
from poller_cluster.dispatch.flows import Deferral, FlowPlace, TooManyFlows
from poller_cluster.dispatch.job import Job
from poller_cluster.dispatch.outcome import FLOW_FULL, defer_for
from poller_cluster.dispatch.receivers import DUE, part_for
from poller_cluster.minute.limits import RowWindow
from poller_cluster.minute.rows import FLOW, LATER, Again, Hold, PendingRow, WaitQueue
from poller_cluster.settings import MinuteSettings
from scheduler_service.domain.flows import Flow
from scheduler_service.domain.options import flow_of
from scheduler_service.domain.schedules import Outcome

HOLD_SECONDS = 10.0
"""Rows whose turn comes within this time are held in memory."""
LEAST_SECONDS = 1.0
LONGEST_SECONDS = 600.0
"""A deferred row comes back after this time at the latest: the key may have become faster."""
ALL = 1 << 30
"""More than the rows of any minute."""
UNTIL_DUE: WaitQueue = (LATER, "")
"""The queue of rows that are not due: one for all keys."""

FlowVerdict: TypeAlias = FlowPlace[Job] | Hold | Outcome | None
"""A place with room, None for a row without limits, or what becomes of the row instead of being claimed."""


class FlowAdmission:
    """The part of `MinuteAdmission` that judges rows with a flow key. `granted_at` as in `Flows.place`."""

    def __init__(
        self, *, dispatcher: Dispatcher, settings: MinuteSettings, row_window: RowWindow, granted_at: float
    ) -> None:
        self._dispatcher = dispatcher
        self._settings = settings
        self._row_window = row_window
        self._granted_at = granted_at
        self._claiming: list[FlowPlace[Job]] = []
        self._held: dict[str, int] = {}
        self._free = 0
        self._now: float | None = None
        """When the rows of this claim are judged (monotonic seconds), once it was asked for."""

    def begin(self, held: Mapping[WaitQueue, Sized]) -> None:
        self._held = {key: len(rows) for (kind, key), rows in held.items() if kind == FLOW and rows}
        self._free = self._row_window.rows // 3 - sum(self._held.values())
        self._now = None

    def answered(self) -> None:
        if not self._claiming:
            return
        now = self._dispatcher.flows.monotonic()
        for place in self._claiming:
            place.claimed(now)
        self._claiming.clear()

    def claiming(self, place: FlowPlace[Job]) -> None:
        """A row with this place is about to be claimed."""
        place.claiming()
        self._claiming.append(place)

    def judge(self, entry: PendingRow, client: ServedClient, now_ms: int) -> FlowVerdict:
        row, flow = entry.row, flow_of(entry.row.options)
        if self._now is None:
            self._now = self._dispatcher.flows.monotonic()
        now = self._now
        try:
            place = self._place(flow, client)
        except TooManyFlows:
            return self._deferred(entry, now_ms, LEAST_SECONDS * (1 + entry.fraction), Deferral.KEYS)
        if place is None or flow is None:
            return None
        part = part_for(row.due - now_ms, lead_ms=self._settings.claim_lead_ms)
        # No row passes one of its key that was refused before, even if there is room again.
        if not place.state.refused and place.headroom(now, part) > 0:
            return place
        if part < DUE:
            return Hold(UNTIL_DUE, entry.key)
        held = self._held.get(flow.key, 0)
        if held < self._free and place.room_in(now, before=held) <= HOLD_SECONDS:
            place.refuse(now)
            self._held[flow.key] = held + 1
            self._free -= 1
            return Hold((FLOW, flow.key), entry.key)
        most = LONGEST_SECONDS * (1 + entry.fraction) / 2
        seconds = place.defer(now, before=held, least=LEAST_SECONDS, most=most)
        return self._deferred(entry, now_ms, seconds, Deferral.LIMITS)

    def _place(self, flow: Flow | None, client: ServedClient) -> FlowPlace[Job] | None:
        if flow is None:
            return None
        return self._dispatcher.flows.place(client.client_id, flow, client.settings, granted_at=self._granted_at)

    def _deferred(self, entry: PendingRow, now_ms: int, seconds: float, why: Deferral) -> Outcome:
        self._dispatcher.flows.deferred[why] += 1
        return defer_for(entry.claim(), seconds, now=now_ms, reason=FLOW_FULL)

    def again(self, queue: WaitQueue, first: PendingRow, client: ServedClient | None, now_ms: int) -> Again:
        """Which of the rows held for a key are to be judged again, or of those held until they are due."""
        if client is None:
            return Again(0)
        if queue == UNTIL_DUE:
            return Again(ALL, due_by=now_ms)
        state = self._dispatcher.flows.known(client.client_id, queue[1])
        if state is not None and state.refused:
            # Nothing has changed since they were refused.
            return Again(0)
        flow, now = flow_of(first.row.options), self._dispatcher.flows.monotonic()
        try:
            place = self._place(flow, client)
        except TooManyFlows:
            place = None
        if place is None:
            return Again(ALL)
        if (room := place.headroom(now)) > 0:
            return Again(room)
        if place.room_in(now, before=0) > HOLD_SECONDS:
            # All of them are to be deferred.
            return Again(ALL)
        place.refuse(now)
        return Again(0)
