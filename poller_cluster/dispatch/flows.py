"""Limits on calls for each flow key of a client: how many at a time, and how many a second. Pure.

All rows of a key are in one poller (`domain.quotas.pinned_poller`), so its owner knows all calls of the key, and its
limits hold over all nodes without shares and coordination, parallelism of one and rates below one a second included.

    claim   headroom(part) > 0 else the row waits unclaimed, or is deferred (`minute.flow_admission`)
    start   delay() == 0       else the job waits in `waiting`, behind jobs of its key only
    end     ended(), released()

A claimed row has its place in the parallelism, so only the rate is tested again when it starts. A rate is a token
bucket that saves up one call, or a tenth of a second's worth if that is more. Rows are claimed at most
`CLAIMED_BEFORE_SECONDS` before the rate lets them start.

A new owner does not know when its predecessor started a call last. A key without state is treated as if a call had
started when the poller was granted: after a take-over the first call of a key waits for one interval of its rate at
most.

A key has state while rows of it are claimed, while its next call must wait for its rate, and until its deferred rows
have come back. For each client at most `flows_per_client` keys have state; rows of further keys wait until others have
none any more. So no call is made without its limits, however many keys there are.

`tick` releases waiting jobs, and tells of room for rows that were refused, for many keys at a time: a look at a
client's unclaimed rows costs more than a key.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from poller_cluster.dispatch.receivers import DUE, SAVED_SECONDS
from scheduler_service.domain.clients import ClientSettings
from scheduler_service.domain.flows import Flow
from scheduler_service.domain.ids import ClientId

CLAIMED_BEFORE_SECONDS = 0.5
"""Rows are claimed at most this long before the rate lets them start; until then they can be cancelled."""
TOLD_APART_SECONDS = 0.02
"""Room is reported for all keys at once, this far apart."""
LOOKED_AT_SECONDS = 5.0
"""After this time, refused rows of a key without room are judged again all the same: they may have to be deferred."""
SWEPT_APART_SECONDS = 0.1
"""The least time between two searches for keys without state, where there are too many."""
_SWEEP_FROM = 64

J = TypeVar("J")


class Deferral(StrEnum):
    """Why a due row with a flow key was deferred: its key's limits, or its client has too many keys with state."""

    LIMITS = "limits"
    KEYS = "keys"


class FlowState(Generic[J]):
    """One flow key of one client. Every `now` is monotonic seconds. `waiting` holds jobs that are due."""

    __slots__ = (
        "_client",
        "_last_seconds",
        "_moved_at",
        "_next_at",
        "_tick_at",
        "deferred_until",
        "in_flight",
        "key",
        "look_at",
        "outstanding",
        "refused",
        "reserved",
        "waiting",
    )

    def __init__(self, key: str, client: "_Client[J]", *, next_at: float) -> None:
        self.key = key
        self.waiting: deque[J] = deque()
        self.in_flight = 0
        self.outstanding = 0
        """Claimed rows: those in flight and those that wait to be."""
        self.reserved = 0
        """Rows whose claim is under way."""
        self.deferred_until = -math.inf
        """When the last of its deferred rows comes back."""
        self.refused = False
        self.look_at = math.inf
        """When refused rows are to be judged again."""
        self._client = client
        self._next_at = next_at
        self._moved_at = -math.inf
        """When a call started or ended last."""
        self._last_seconds = 0.0
        self._tick_at = math.inf

    @property
    def taken(self) -> int:
        return self.outstanding + self.reserved

    def idle(self, now: float) -> bool:
        """Whether forgetting it loses nothing."""
        return not (self.taken or self.in_flight or self.refused) and max(self._next_at, self.deferred_until) <= now

    def tick_at(self, at: float) -> None:
        """Have `tick` called at this instant, unless it is called before."""
        if at < self._tick_at:
            self._tick_at = at
            self._client.flows.put_tick(at, self)

    def tick(self, now: float) -> J | None:
        """The waiting job that may start now. Refused rows are told of room, or are to be judged again."""
        self._tick_at = math.inf
        if self.refused and self.look_at <= now:
            self.refused = False
            self._client.wanted = True
        elif self.refused:
            self.tick_at(self.look_at)
        if not self.waiting:
            return None
        if self._next_at > now:
            self.tick_at(self._next_at)
            return None
        return self.waiting.popleft()


class FlowPlace(msgspec.Struct, Generic[J], frozen=True, eq=False):
    """A row's place in its flow: the state of the key, and the limits that hold for this row."""

    state: FlowState[J]
    rate: float | None
    parallelism: int | None

    # Claims.

    def headroom(self, now: float, part: float = DUE) -> int:
        """How many more rows like this one may be claimed up to this part of the limits."""
        state = self.state
        room = 1 << 30 if self.parallelism is None else int(self.parallelism * part) - state.taken
        if self.rate is not None:
            interval = 1.0 / self.rate
            first = max(state._next_at, now - _saved(interval))
            coming = math.floor((now + CLAIMED_BEFORE_SECONDS - first) / interval) + 1
            room = min(room, int(coming * part) - (state.taken - state.in_flight))
        return room

    def refuse(self, now: float) -> None:
        """A row was not claimed for lack of room: tell when there may be some. Rows that are not due and would have
        room if they were are judged again at their due anyway."""
        if self.headroom(now) > 0:
            return
        state = self.state
        at = now + LOOKED_AT_SECONDS
        if self.rate is not None and (self.parallelism is None or state.taken < self.parallelism):
            at = min(
                at, max(state._next_at + (state.taken - state.in_flight) / self.rate - CLAIMED_BEFORE_SECONDS, now)
            )
        self._look_at(at, now)

    def _look_at(self, at: float, now: float) -> None:
        state = self.state
        at = math.ceil(max(at, now) / TOLD_APART_SECONDS) * TOLD_APART_SECONDS
        if not state.refused or at < state.look_at:
            state.refused, state.look_at = True, at
            state.tick_at(at)

    def seconds_per_call(self, now: float) -> float:
        """How far apart calls of this key are now, as its limits and its receiver have it."""
        state, apart = self.state, 0.0
        if self.rate is not None:
            apart = 1.0 / self.rate
        if self.parallelism is not None and state.in_flight:
            apart = max(apart, state._last_seconds / self.parallelism, now - state._moved_at)
        return apart

    def room_in(self, now: float, *, before: int) -> float:
        """In about how many seconds there is room for a row, with so many others `before` it unclaimed."""
        state, apart = self.state, self.seconds_per_call(now)
        first = 0.0
        if self.rate is not None:
            first = max(state._next_at - now, 0.0) + (state.taken - state.in_flight) / self.rate
        if self.parallelism is not None and state.taken < self.parallelism:
            return first + before * apart
        return max(first, apart) + before * apart

    def defer(self, now: float, *, before: int, least: float, most: float) -> float:
        """In how many seconds a row that is deferred is to come back: after those deferred before it."""
        state = self.state
        after = max(now + self.room_in(now, before=before), state.deferred_until, now + least)
        state.deferred_until = min(after + self.seconds_per_call(now), now + most)
        return min(after, now + most) - now

    def claiming(self) -> None:
        """The claim of the row is under way."""
        self.state.reserved += 1

    # Attempts.

    def delay(self, now: float) -> float:
        """Seconds until an attempt may start."""
        return 0.0 if self.rate is None else max(self.state._next_at - now, 0.0)

    def park(self, job: J, *, first: bool) -> None:
        """This job must wait for the rate; `first`: before those that wait already."""
        state = self.state
        if first:
            state.waiting.appendleft(job)
        else:
            state.waiting.append(job)
        state.tick_at(state._next_at)

    def started(self, now: float) -> None:
        state = self.state
        state.in_flight += 1
        state._moved_at = now
        if self.rate is not None:
            interval = 1.0 / self.rate
            state._next_at = max(state._next_at, now - _saved(interval)) + interval
        if state.waiting:
            state.tick_at(state._next_at)

    def ended(self, now: float) -> None:
        """An attempt has ended."""
        state = self.state
        state.in_flight -= 1
        state._last_seconds = now - state._moved_at
        state._moved_at = now

    def released(self, now: float) -> None:
        """A claimed row has ended or was given back."""
        state = self.state
        state.outstanding -= 1
        self._freed(now)

    def claimed(self, now: float) -> None:
        """The claim of the row is over: it is claimed, or waits again."""
        self.state.reserved -= 1
        self._freed(now)

    def _freed(self, now: float) -> None:
        state = self.state
        if state.waiting:
            state.tick_at(max(state._next_at, now))
        if state.refused:
            if self.headroom(now) > 0:
                self._look_at(now, now)
        elif state.idle(now):
            state._client.by_key.pop(state.key, None)


def _saved(interval: float) -> float:
    """How many seconds before its instant a call may start because the key was idle before."""
    return max(SAVED_SECONDS - interval, 0.0)


class _Client(Generic[J]):
    """The flow keys of one client that have state."""

    __slots__ = ("by_key", "flows", "sweep_at", "swept_at", "wanted")

    def __init__(self, flows: "Flows[J]") -> None:
        self.flows = flows
        self.by_key: dict[str, FlowState[J]] = {}
        self.wanted = False
        """Rows that were refused are to be judged again."""
        self.sweep_at = min(_SWEEP_FROM, flows.most)
        self.swept_at = -math.inf


class Flows(Generic[J]):
    """The flow keys of all clients of a node. `on_free(client_id)`: unclaimed rows of that client may have room.
    `on_tick`: `tick` is to be called at an earlier instant than was known."""

    def __init__(
        self,
        *,
        monotonic: Callable[[], float],
        flows_per_client: int,
        on_free: Callable[[ClientId], None],
        on_tick: Callable[[], None],
    ) -> None:
        self.monotonic = monotonic
        self.most = flows_per_client
        self._on_free = on_free
        self._on_tick = on_tick
        self._clients: dict[ClientId, _Client[J]] = {}
        self._ticks: list[tuple[float, int, FlowState[J]]] = []
        self._sequence = 0
        self.deferred: dict[str, int] = {why.value: 0 for why in Deferral}

    def known(self, client_id: ClientId, key: str) -> FlowState[J] | None:
        """The state of a key, if it has any."""
        client = self._clients.get(client_id)
        return None if client is None else client.by_key.get(key)

    def place(
        self, client_id: ClientId, flow: Flow, settings: ClientSettings, *, granted_at: float = -math.inf
    ) -> FlowPlace[J] | None:
        """The place of a row with this flow key; None: it has no limits. `granted_at`: since when this node has held
        the row's poller after another owner. Raises TooManyFlows."""
        limits = flow.limits(settings.flows)
        if limits.rate is None and limits.parallelism is None:
            return None
        client = self._clients.get(client_id)
        if client is None:
            client = self._clients[client_id] = _Client(self)
        state = client.by_key.get(flow.key)
        if state is None:
            now = self.monotonic()
            self._make_room(client, now)
            next_at = -math.inf if limits.rate is None else granted_at + 1.0 / limits.rate
            state = client.by_key[flow.key] = FlowState(flow.key, client, next_at=next_at)
        return FlowPlace(state, limits.rate, limits.parallelism)

    def _make_room(self, client: _Client[J], now: float) -> None:
        """Keys without state are looked for when their number has doubled, so that it costs little for each."""
        known = client.by_key
        if len(known) < client.sweep_at:
            return
        if now >= client.swept_at + SWEPT_APART_SECONDS or len(known) < self.most:
            for key in [key for key, state in known.items() if state.idle(now)]:
                del known[key]
            client.swept_at = now
            client.sweep_at = min(max(2 * len(known), _SWEEP_FROM), self.most)
        if len(known) >= self.most:
            raise TooManyFlows

    def put_tick(self, at: float, state: FlowState[J]) -> None:
        self._sequence += 1
        heapq.heappush(self._ticks, (at, self._sequence, state))
        if self._ticks[0][1] == self._sequence:
            self._on_tick()

    def tick(self, now: float) -> Iterator[J]:
        """The jobs that may start now. Tells clients with refused rows that may have room."""
        while self._ticks and self._ticks[0][0] <= now:
            at, _, state = heapq.heappop(self._ticks)
            # A later instant that was named before an earlier one has nothing to say.
            if at == state._tick_at and (job := state.tick(now)) is not None:
                yield job
        for client_id, client in list(self._clients.items()):
            if client.wanted:
                client.wanted = False
                self._on_free(client_id)

    def next_tick(self) -> float | None:
        """When `tick` is to be called."""
        return self._ticks[0][0] if self._ticks else None

    def withdraw(self, owner: object, owner_of: Callable[[J], object]) -> list[J]:
        """Take back the waiting jobs of `owner`."""
        taken: list[J] = []
        for client in self._clients.values():
            for state in client.by_key.values():
                if state.waiting and (mine := [job for job in state.waiting if owner_of(job) is owner]):
                    taken += mine
                    state.waiting = deque(job for job in state.waiting if owner_of(job) is not owner)
        return taken

    def forget(self, client_id: ClientId, *, now: float) -> bool:
        """Forget the keys of a client. False: not yet, because one has state."""
        client = self._clients.get(client_id)
        if client is None:
            return True
        if not all(state.idle(now) for state in client.by_key.values()):
            return False
        del self._clients[client_id]
        return True

    def held_back(self) -> int:
        """How many keys have rows that wait in memory for room."""
        states = (state for client in self._clients.values() for state in client.by_key.values())
        return sum(bool(state.refused or state.waiting) for state in states)

    def count(self) -> int:
        """How many keys have state, or had until a short time ago."""
        return sum(len(client.by_key) for client in self._clients.values())


class TooManyFlows(Exception):
    """A client has as many flow keys with state as it may have: rows of others have to wait."""
