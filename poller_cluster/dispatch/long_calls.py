"""Limits on long calls: those whose time-out is above `long_call_seconds`, sixty unless the operator says otherwise.

A call that may take ten minutes holds its places for that long, and nobody can tell whether it will. So long calls have
a share of the places (`long_call_share`), and all other calls never wait for more than that share:

    of a client    that share of its `max_in_flight` on this node, at least one
    of a node      that share of the engine; one client may have `ENGINE_PART` times as many as are still free, so
                   it leaves a third of them to the others (`ready_rows.engine_part`)

Their time-out decides, and not how long they take: what has begun can't be taken back. Where no time-out may be above
`long_call_seconds`, as by default, this costs one comparison a row.

    claim   headroom(part) > 0 else the row waits unclaimed, or is deferred (`minute.long_admission`)
    start   started()          then ended()
    end     leave()            also of rows that are given back

Only claims are limited: a claimed row keeps its place until it has ended, whatever its destination says meanwhile.
Notices are no long calls: their time-out is at most `longest_other_seconds` (`notices.calls`).

Pure apart from `on_free`. Every `now` is monotonic seconds.
"""

from collections.abc import Callable

from poller_cluster.clients import ServedClient
from poller_cluster.delivery.result import AttemptResult
from poller_cluster.dispatch.job import Job
from poller_cluster.dispatch.ready_rows import ENGINE_PART
from poller_cluster.dispatch.receivers import DUE, ROUNDING
from poller_cluster.settings import ReceiverSettings
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.options import timeout_of
from scheduler_service.domain.schedules import Row

MOST_WORTH_TELLING = 8


class _Client:
    """The long calls of one client. `refused_under`: the limit under which rows were refused, 0 if none were."""

    __slots__ = ("deferred_until", "last_seconds", "outstanding", "refused_under", "reserved")

    def __init__(self) -> None:
        self.outstanding = 0
        """Claimed rows."""
        self.reserved = 0
        """Rows whose claim is under way."""
        self.refused_under = 0
        self.deferred_until = 0.0
        """When the last of its deferred rows comes back."""
        self.last_seconds: float | None = None

    @property
    def taken(self) -> int:
        return self.outstanding + self.reserved


class LongCalls:
    """The long calls of one node. `capacity()`: how many attempts the engine may have under way. `on_free(client_id)`:
    unclaimed rows of that client may have room. A `limit` is this node's share of the client's `max_in_flight`."""

    def __init__(
        self, settings: ReceiverSettings, *, capacity: Callable[[], int], on_free: Callable[[ClientId], None]
    ) -> None:
        self._settings = settings
        self._capacity = capacity
        self._on_free = on_free
        self._clients: dict[ClientId, _Client] = {}
        self._taken = 0

    @property
    def taken(self) -> int:
        """Long calls that are claimed, or whose claim is under way."""
        return self._taken

    @property
    def longest_other_seconds(self) -> float:
        """The longest time-out of a call that is no long one."""
        return self._settings.long_call_seconds

    def possible(self, client: ServedClient) -> bool:
        """Whether any call of this client may be long."""
        return client.longest_attempt_seconds > self._settings.long_call_seconds

    def includes(self, row: Row, client: ServedClient) -> bool:
        """Whether the call of this row is a long one."""
        if not self.possible(client):
            return False
        seconds = client.attempt_seconds(timeout_of(row.options), client.settings_for(row.url))
        return seconds > self._settings.long_call_seconds

    # Claims.

    def places(self, limit: int) -> int:
        """How many long calls a client may have under way on this node."""
        return max(int(limit * self._settings.long_call_share + ROUNDING), 1)

    def headroom(self, client_id: ClientId, limit: int, part: float = DUE) -> int:
        """How many more may be claimed up to this part of the client's places."""
        mine = self._of(client_id).taken
        free = self._all() - self._taken
        return min(int(self.places(limit) * part) - mine, free, ENGINE_PART * free - mine)

    def refuse(self, client_id: ClientId, limit: int) -> None:
        """A due row was not claimed for lack of room: call `on_free` when there is some."""
        self._of(client_id).refused_under = limit

    def reserve(self, client_id: ClientId, rows: int) -> None:
        """The claim of so many rows begins; a negative number: it is over."""
        self._of(client_id).reserved += rows
        self._taken += rows
        if rows < 0:
            self._tell()

    def enter(self, job: Job, client: ServedClient) -> None:
        """A row is claimed: it has a place if its call is a long one. The other events mean nothing for other rows."""
        if self.includes(job.claim.row, client):
            job.long = True
            self._of(client.client_id).outstanding += 1
            self._taken += 1

    def leave(self, job: Job) -> None:
        """Its row has ended, or was given back."""
        if job.long:
            job.long = False
            self._of(job.owner.client_id).outstanding -= 1
            self._taken -= 1
            self._tell()

    # Attempts.

    def started(self, job: Job) -> None:
        if job.long:
            job.owner.long_call(job.claim.row.key, under_way=True)

    def ended(self, job: Job, result: AttemptResult) -> None:
        """It leaves afterwards, unless nothing was sent and it waits again."""
        if not job.long:
            return
        job.owner.long_call(job.claim.row.key, under_way=False)
        if not result.nothing_sent:
            self._of(job.owner.client_id).last_seconds = result.duration_seconds

    # Rows without room.

    def defer(self, client_id: ClientId, limit: int, *, now: float, least: float, most: float) -> float:
        """In how many seconds a row that is deferred is to come back: after those deferred before it, as far apart as
        calls end."""
        client = self._of(client_id)
        at = min(max(client.deferred_until, now + least), now + most)
        took = self._settings.long_call_seconds if client.last_seconds is None else client.last_seconds
        client.deferred_until = at + took / self.places(limit)
        return at - now

    def forget(self, client_id: ClientId) -> None:
        """This node serves the client no more. It has no claimed rows."""
        client = self._clients.get(client_id)
        if client is not None and not client.taken:
            del self._clients[client_id]

    def _of(self, client_id: ClientId) -> _Client:
        client = self._clients.get(client_id)
        if client is None:
            client = self._clients[client_id] = _Client()
        return client

    def _all(self) -> int:
        return max(int(self._capacity() * self._settings.long_call_share), 1)

    def _tell(self) -> None:
        """A look at a client's unclaimed rows has a cost, so room for one call is told only where there are few."""
        everywhere = self._all()
        for client_id, client in list(self._clients.items()):
            if limit := client.refused_under:
                worth = max(min(self.places(limit), everywhere) // MOST_WORTH_TELLING, 1)
                if self.headroom(client_id, limit) >= min(worth, MOST_WORTH_TELLING):
                    client.refused_under = 0
                    self._on_free(client_id)
