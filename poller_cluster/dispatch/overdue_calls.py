"""The overdue rate of each client, and of all clients together, on one node (`domain.overdue_rates`).

A rate holds over all nodes: this node has the part of it that it has of the client's pollers, or of all clients'
pollers. Pollers have one owner each, so the parts add up to the rate at most, and to all of it while every node has
overdue rows.

    claim   room() > 0 and reserve(), else the row waits unclaimed (`minute.overdue_admission`): refuse()
    start   enter() at the claim's end, then started()
    end     leave(): a row that was claimed but not called, such as one that is given back, has used nothing

A token is taken by a claim and not by a start, so rows that have to wait take no place of a client or receiver. Rows
that are claimed and not started are bounded too, so that they never start all at once: in any stretch of time no more
calls start than the rate allows, and those of one second. A node begins without tokens: restarts and takeovers make
calls later, never more of them.

Minutes with refused rows wait in a queue: about `LOOKS_A_SECOND` times a second the oldest minutes of the next clients
are woken that can use what there is. Where no rate is set nothing of this is done.
"""

from collections.abc import Callable
from typing import Protocol

from membership.ports import Timer
from poller_cluster.clients import ServedClient
from poller_cluster.dispatch.job import Job
from poller_cluster.dispatch.lateness import Stretches
from scheduler_service.domain.ids import ClientId, Minute
from scheduler_service.runtime.clock import Clock

HALF_BURST_SECONDS = 0.5
"""Tokens are saved up for as long, and as many rows may be claimed and not started."""
LEAST_BURST = 1.5
"""Tokens saved up at least, so that a rate of a few calls a second does not suffer from the time that a claim takes."""
LOOKS_A_SECOND = 10
SOONEST_LOOK_SECONDS = 0.01
NO_PART_SECONDS = 1.0
"""From one look to the next while this node has no part of a rate: its last poller was taken, its minutes end soon."""
APART_MS = 5_000
"""Refusals further apart than this are two stretches of time in which rows were held back."""
_ROUNDING = 1e-6
_UNLIMITED = 1 << 30


class HoldingMinute(Protocol):
    """A running minute with refused rows."""

    @property
    def minute(self) -> Minute: ...

    @property
    def held(self) -> int:
        """How many rows it holds back, about."""

    def wake(self) -> None:
        """Judge the rows again: there may be room."""


class _Bucket:
    """The tokens of one rate. `unstarted`: rows that are claimed, or whose claim is under way, and have not started."""

    __slots__ = ("_at", "_tokens", "unstarted")

    def __init__(self, now: float) -> None:
        self._at = now
        self._tokens = 0.0
        self.unstarted = 0

    def room(self, rate: float | None, now: float) -> int:
        if rate is None:
            return _UNLIMITED
        self._fill(rate, now)
        return min(int(self._tokens + _ROUNDING), max(int(rate * HALF_BURST_SECONDS), 1) - self.unstarted)

    def ready_in(self, rate: float | None, now: float, rows: int) -> float:
        """Seconds until a look is worth it for so many rows."""
        if rate is None:
            return 0.0
        if self.room(rate, now) <= 0 and self._tokens >= 1:
            return 1.0 / LOOKS_A_SECOND
        if rate <= 0:
            return NO_PART_SECONDS
        worth = max(min(rows, int(rate / LOOKS_A_SECOND)), 1)
        return max((worth - self._tokens - _ROUNDING) / rate, 0.0)

    def take(self, rows: int) -> None:
        """For rows that are being claimed; a negative number gives back."""
        self._tokens -= rows
        self.unstarted += rows

    def _fill(self, rate: float, now: float) -> None:
        self._tokens = min(self._tokens + (now - self._at) * rate, max(rate * HALF_BURST_SECONDS, LEAST_BURST))
        self._at = now


class _Client:
    __slots__ = ("bucket", "minutes", "rate", "refused_ms")

    def __init__(self, now: float) -> None:
        self.bucket = _Bucket(now)
        self.rate: float | None = None
        """This node's part, as of the last look at the client."""
        self.minutes: dict[HoldingMinute, None] = {}
        self.refused_ms = 0


class OverdueCalls:
    """The overdue calls of one node. `share(client_id)`, `share_of_all()`: its part of the pollers. `rate_of_all()`:
    the cluster's rate. `held_back(client_id)`: when that client's rows were. `judged_at()`: by which lateness is
    judged."""

    def __init__(
        self,
        *,
        clock: Clock,
        share: Callable[[ClientId], float],
        share_of_all: Callable[[], float],
        rate_of_all: Callable[[], float | None],
        held_back: Callable[[ClientId], Stretches],
        judged_at: Callable[[], int],
    ) -> None:
        self.judged_at = judged_at
        self._clock = clock
        self._share = share
        self._share_of_all = share_of_all
        self._rate_of_all = rate_of_all
        self._held_back = held_back
        self._clients: dict[ClientId, _Client] = {}
        self._all = _Bucket(clock.monotonic())
        self._waiting: dict[ClientId, None] = {}
        """Clients with waiting minutes, in the order of their turns."""
        self._timer: tuple[float, Timer] | None = None
        self.started_calls = 0
        """Calls made under a rate. It never falls: what was given back unsent counts again."""

    def limited(self, client: ServedClient | None) -> bool:
        """Whether a rate is set for this client's overdue calls."""
        if client is None or client.record.built_in:
            return False
        return client.settings.overdue_per_second is not None or self._rate_of_all() is not None

    @property
    def held(self) -> int:
        """Rows that are held back, about."""
        return sum(minute.held for client_id in self._waiting for minute in self._clients[client_id].minutes)

    # Claims.

    def room(self, client: ServedClient) -> int:
        """How many more overdue rows of this client may be claimed."""
        now, known = self._clock.monotonic(), self._of(client.client_id)
        rate = client.settings.overdue_per_second
        known.rate = None if rate is None else rate * self._share(client.client_id)
        return min(known.bucket.room(known.rate, now), self._all.room(self._part_of_all(), now))

    def refuse(self, client: ServedClient, minute: HoldingMinute) -> None:
        """Overdue rows of this minute were not claimed for lack of room: wake it when there is some."""
        client_id = client.client_id
        known, now_ms = self._of(client_id), self._clock.wall_ms()
        if minute in known.minutes:
            return
        known.minutes[minute] = None
        self._waiting.setdefault(client_id)
        stretches = self._held_back(client_id)
        if now_ms - known.refused_ms > APART_MS:
            stretches.end(known.refused_ms)
        stretches.begin(now_ms)
        known.refused_ms = now_ms
        self._look_in(self._ready_in(known, self._clock.monotonic()))

    def closed(self, client_id: ClientId, minute: HoldingMinute) -> None:
        """The run of this minute is over."""
        if (known := self._clients.get(client_id)) is not None and minute in known.minutes:
            self._stop_waiting(client_id, known, minute)

    def reserve(self, client_id: ClientId, rows: int) -> None:
        """The claim of so many overdue rows begins; a negative number: it is over."""
        self._all.take(rows)
        self._of(client_id).bucket.take(rows)

    # Claimed rows. These mean nothing for rows that are not overdue.

    def enter(self, job: Job) -> None:
        """A row is claimed."""
        if job.claim.overdue:
            job.overdue = True
            self.reserve(job.owner.client_id, 1)

    def started(self, job: Job) -> None:
        if job.overdue:
            job.overdue = False
            self._unstarted(job, -1)
            self.started_calls += 1

    def not_sent(self, job: Job) -> None:
        """Its attempt ended before anything was sent: the row waits again, with its token."""
        if job.claim.overdue:
            job.overdue = True
            self._unstarted(job, 1)

    def leave(self, job: Job) -> None:
        """Its row has ended, or was given back."""
        if job.overdue:
            job.overdue = False
            self.reserve(job.owner.client_id, -1)

    def _unstarted(self, job: Job, rows: int) -> None:
        self._all.unstarted += rows
        self._of(job.owner.client_id).bucket.unstarted += rows

    def forget(self, client_id: ClientId) -> None:
        """This node serves the client no more. It has no claimed rows."""
        known = self._clients.get(client_id)
        if known is not None and not known.minutes and not known.bucket.unstarted:
            del self._clients[client_id]

    # Minutes that wait.

    def _look(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        left_of_all = self._all.room(self._part_of_all(), now)
        for client_id in list(self._waiting):
            known = self._clients[client_id]
            if left_of_all <= 0 or self._ready_in(known, now) > 0:
                continue
            left = min(known.bucket.room(known.rate, now), left_of_all)
            # Those that follow this one come before it at the next look.
            self._waiting[client_id] = self._waiting.pop(client_id)
            for minute in sorted(known.minutes, key=lambda one: one.minute):
                if left <= 0:
                    break
                rows = max(minute.held, 1)
                left -= rows
                left_of_all -= rows
                self._stop_waiting(client_id, known, minute)
                minute.wake()
        if self._waiting:
            self._look_in(min(self._ready_in(self._clients[client_id], now) for client_id in self._waiting))

    def _ready_in(self, known: _Client, now: float) -> float:
        rows = sum(minute.held for minute in known.minutes)
        return max(known.bucket.ready_in(known.rate, now, rows), self._all.ready_in(self._part_of_all(), now, rows))

    def _look_in(self, seconds: float) -> None:
        seconds = max(seconds, SOONEST_LOOK_SECONDS)
        at = self._clock.monotonic() + seconds
        if self._timer is not None:
            if self._timer[0] <= at:
                return
            self._timer[1].cancel()
        self._timer = at, self._clock.call_later(seconds, self._look)

    def _stop_waiting(self, client_id: ClientId, known: _Client, minute: HoldingMinute) -> None:
        del known.minutes[minute]
        if not known.minutes:
            self._waiting.pop(client_id, None)

    def _part_of_all(self) -> float | None:
        rate = self._rate_of_all()
        return None if rate is None else rate * self._share_of_all()

    def _of(self, client_id: ClientId) -> _Client:
        known = self._clients.get(client_id)
        if known is None:
            known = self._clients[client_id] = _Client(self._clock.monotonic())
        return known
