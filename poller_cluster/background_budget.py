"""One budget for all storage requests that a node makes for the past, so that they never delay those for the present.

Work for the past is: reads of minutes in recovery, carrying the ends of retry rows to their originals, recounts,
requeues, searches of other minutes for ordering keys, the overdue scan of crons, slices of reconciliations,
retention. All of it can wait, and after an outage there is much of it at once, on every node. Each kind of work first
takes a slot and holds it for one request, or for one short sequence of requests:

    async with budget.slot(client_id):
        page = await schedules.read_page(...)

`BackgroundPace` sets the number of slots by the answers to all of the node's requests, those for the present included:
`observe` is told of each. First attempts, records of outcomes, leases and heartbeats take no slot, so capacity that the
past gives up is theirs.

Clients take turns, so one with a long past does not delay another's. A minute in recovery lasts much longer than a
request (until its calls were made), hence such minutes have separate places (`minutes`), of which one client gets at
most half; their reads take slots like all others. A minute that has nothing left to do but to wait for others is *at
rest*, and lets another have its place (`MinutePlace`).

Never ask for a slot while holding one: with one slot left that is a deadlock.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Hashable
from types import TracebackType

from membership.ports import Timer
from poller_cluster.settings import BackgroundSettings
from scheduler_service.domain.ids import ClientId
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.randomness import Randomness

WINDOW_SECONDS = 0.5
"""Answers are collected for this long, then judged together."""
FIRST_SHARE = 0.25
"""Part of the slots at the start: storage may be cold, and all other nodes may have just started too."""
BAD_SHARE = 0.01
FIRST_PAUSE_SECONDS = 0.1
MINUTES_AT_REST = 60
"""Past minutes of a node that may have given their place back before their end; one client gets half of them at most.
More: fewer rows are deferred while a long past is recovered. Fewer: more room in memory for the minutes that run."""


class BackgroundPace:
    """How many slots a node has for the past, judged by how storage answers all of its requests. Pure.

        a window without a sign of overload      the pause is halved; without a pause one slot more
        more than 1 % of its requests were slow  a quarter of the slots less
        ... or were not answered                 half of the slots less; with one slot left, the pause doubles

    More than 1 % slow is the same as a p99 above `slow_ms`. Slowness alone leaves one slot without pauses: then storage
    is busy with the calls of the present, and one request at a time beside them does no harm. Unanswered requests mean
    that storage loses work that is then repeated; then even one at a time may be too much.

    Additive increase and multiplicative decrease let several nodes share storage fairly without coordination.

    One per node. `now` is monotonic seconds, and never goes back.
    """

    __slots__ = ("_asked", "_began", "_settings", "_size", "_slow", "_unanswered", "pause_seconds", "shrunk")

    def __init__(self, settings: BackgroundSettings, *, now: float) -> None:
        self._settings = settings
        self._size = max(settings.requests_at_once * FIRST_SHARE, 1.0)
        self._began = now
        self._asked = self._slow = self._unanswered = 0
        self.pause_seconds = 0.0
        """From the end of one background request to the start of the next, about; above 0 only with one slot left."""
        self.shrunk = 0
        """Number of windows after which slots were taken away, or the pause grew."""

    @property
    def size(self) -> int:
        """Background requests that may be under way at once."""
        return int(self._size)

    def observe(self, seconds: float, *, answered: bool, now: float) -> bool:
        """A request of any kind has ended. True: `size` or `pause_seconds` may have changed."""
        self._asked += 1
        if not answered:
            self._unanswered += 1
        elif seconds * 1000 > self._settings.slow_ms:
            self._slow += 1
        if now - self._began < WINDOW_SECONDS:
            return False
        self._judge()
        self._began = now
        self._asked = self._slow = self._unanswered = 0
        return True

    def _judge(self) -> None:
        bearable = self._asked * BAD_SHARE
        if self._unanswered > bearable:
            self.shrunk += 1
            if self.size == 1:
                longer = max(self.pause_seconds * 2, FIRST_PAUSE_SECONDS)
                self.pause_seconds = min(longer, self._settings.longest_pause_seconds)
            self._size = max(self._size / 2, 1.0)
        elif self._slow + self._unanswered > bearable:
            self.shrunk += 1
            self._size = max(self._size * 0.75, 1.0)
        elif self.pause_seconds > 0:
            halved = self.pause_seconds / 2
            self.pause_seconds = halved if halved >= FIRST_PAUSE_SECONDS else 0.0
        else:
            self._size = min(self._size + 1, float(self._settings.requests_at_once))


class Turns:
    """A bounded number of places that clients get in turn. Used on one event loop.

    A client's requests are served in order. So a client with a long queue gets one place a turn like any other, and
    `per_client` bounds how many places it holds at once, for places that are held for long.

    `places()` returns how many there are now; call `hand_out` when it has grown. While `may_start()` is False all wait,
    until `hand_out` is called again.
    """

    def __init__(
        self,
        *,
        places: Callable[[], int],
        per_client: Callable[[], int] | None = None,
        may_start: Callable[[], bool] = lambda: True,
    ) -> None:
        self._places = places
        self._per_client = per_client or places
        self._may_start = may_start
        self._queues: dict[Hashable, deque[asyncio.Future[None]]] = {}
        self._held: Counter[Hashable] = Counter()
        self.held = 0
        """Places taken."""

    @property
    def waiting(self) -> int:
        return sum(map(len, self._queues.values()))

    async def acquire(self, client: Hashable) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(client, deque()).append(turn)
        self.hand_out()
        try:
            await turn
        except asyncio.CancelledError:
            # The place was given, but the cancellation came before this task ran again.
            if turn.done() and not turn.cancelled():
                self.release(client)
            else:
                self._forget(client, turn)
            raise

    def release(self, client: Hashable) -> None:
        self.held -= 1
        self._held[client] -= 1
        if not self._held[client]:
            del self._held[client]
        self.hand_out()

    def hand_out(self) -> None:
        """Give free places to waiting clients."""
        # Ends when there is no place, or when all waiting clients in a row hold as many as they may.
        passed = 0
        while self.held < self._places() and passed < len(self._queues) and self._may_start():
            client = next(iter(self._queues))
            queue = self._queues.pop(client)
            if self._held[client] < max(self._per_client(), 1):
                turn = queue.popleft()
                passed = 0
                # A waiter that was cancelled may not have run since.
                if not turn.cancelled():
                    turn.set_result(None)
                    self.held += 1
                    self._held[client] += 1
            else:
                passed += 1
            if queue:
                self._queues[client] = queue

    def _forget(self, client: Hashable, turn: "asyncio.Future[None]") -> None:
        queue = self._queues.get(client)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._queues[client]


def minutes_per_client(minutes: int) -> int:
    """How many of a node's places for minutes in recovery one client may hold."""
    return max(minutes // 2, 1)


class BackgroundBudget:
    """The slots and the places for minutes in recovery of one node."""

    def __init__(
        self, *, clock: Clock, randomness: Randomness, settings: BackgroundSettings, minutes_at_once: int = 4
    ) -> None:
        self._clock = clock
        self._randomness = randomness
        self.pace = BackgroundPace(settings, now=clock.monotonic())
        self.slots = Turns(places=lambda: self.pace.size, may_start=self._may_start)
        self.minutes = Turns(places=lambda: minutes_at_once, per_client=lambda: minutes_per_client(minutes_at_once))
        self._at_rest: Counter[ClientId] = Counter()
        self._rests_until = 0.0
        self._timer: Timer | None = None

    async def minute_place(self, client_id: ClientId) -> "MinutePlace":
        """Wait for a place for a minute in recovery."""
        await self.minutes.acquire(client_id)
        return MinutePlace(self, client_id)

    def may_rest(self, client_id: ClientId) -> bool:
        """Whether one more minute of this client may give its place back before its end."""
        most_at_rest = minutes_per_client(MINUTES_AT_REST)
        return self._at_rest.total() < MINUTES_AT_REST and self._at_rest[client_id] < most_at_rest

    def rests(self, client_id: ClientId, by: int) -> None:
        """The number of this client's minutes at rest changed by `by`."""
        self._at_rest[client_id] += by
        if not self._at_rest[client_id]:
            del self._at_rest[client_id]

    def observe(self, seconds: float, answered: bool) -> None:
        """A request to storage of any kind has ended. `answered` is False also for an answer that decides nothing."""
        if self.pace.observe(seconds, answered=answered, now=self._clock.monotonic()):
            self.slots.hand_out()

    def slot(self, client_id: ClientId) -> "Slot":
        """A slot for a request on behalf of a client."""
        return Slot(self, client_id)

    def ended(self, client_id: ClientId) -> None:
        """A slot is given back."""
        if pause := self.pace.pause_seconds:
            self._rests_until = self._clock.monotonic() + pause * (0.5 + self._randomness.fraction())
        self.slots.release(client_id)

    def _may_start(self) -> bool:
        if not self.pace.pause_seconds:
            return True
        rest = self._rests_until - self._clock.monotonic()
        if rest <= 0:
            return True
        if self._timer is None:
            self._timer = self._clock.call_later(rest, self._rested)
        return False

    def _rested(self) -> None:
        self._timer = None
        self.slots.hand_out()


class MinutePlace:
    """The place of one minute in recovery. A minute that is at rest gives it back before its end, and then counts as
    one at rest until it ends, whether it works again or not."""

    __slots__ = ("_at_rest", "_budget", "_client_id", "_over")

    def __init__(self, budget: BackgroundBudget, client_id: ClientId) -> None:
        self._budget = budget
        self._client_id = client_id
        self._at_rest = self._over = False

    @property
    def may_rest(self) -> bool:
        """Whether it was given back already, or may be. A minute that rests nevertheless gives it back all the same:
        no more of them do than there are places."""
        return self._at_rest or self._budget.may_rest(self._client_id)

    def rest(self) -> None:
        """The minute is at rest. Does nothing the second time."""
        if not (self._at_rest or self._over):
            self._at_rest = True
            self._budget.rests(self._client_id, 1)
            self._budget.minutes.release(self._client_id)

    def end(self) -> None:
        """The minute has ended, or was not started. Does nothing the second time."""
        if self._over:
            return
        self._over = True
        if self._at_rest:
            self._budget.rests(self._client_id, -1)
        else:
            self._budget.minutes.release(self._client_id)


class Slot:
    """A slot to be held by one `async with`."""

    __slots__ = ("_budget", "_client_id")

    def __init__(self, budget: BackgroundBudget, client_id: ClientId) -> None:
        self._budget = budget
        self._client_id = client_id

    async def __aenter__(self) -> None:
        await self._budget.slots.acquire(self._client_id)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._budget.ended(self._client_id)
