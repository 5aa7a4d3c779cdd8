"""One budget for all that a node asks of storage for the past, so that it never costs the present its share.

The past is: walks and reads of minutes in recovery, ends of copies on their way to their originals, recounts, rows that
are re-homed, what ordering keys look for in other minutes, the search for forgotten crons, slices of reconciliations,
retention. All of it can wait, and after an outage there is much of it at once, on every node. Each kind of it
asks for a slot first and holds it for one request, or for one short run of requests that follow each other:

    async with budget.slot(client_id):
        page = await schedules.read_page(...)

How many slots there are is judged by `background_pace` from the answers to everything that the node asks, the present's
requests too: `observe` hears of each. First attempts, records of outcomes, leases and heartbeats take no slot, so what
the past gives up is theirs.

Clients take turns, so one with a long past does not hold up another's. Minutes in recovery are held for much longer
than a request (until their calls were made), hence they have places of their own (`minutes`), of which one client gets
at most half; their reads take slots like all others.

Never ask for a slot while holding one: with one slot left that would wait for ever.
"""

from types import TracebackType

from membership.ports import Timer
from poller_cluster.background_pace import BackgroundPace
from poller_cluster.settings import BackgroundSettings
from poller_cluster.turns import Turns
from scheduler_service.domain.ids import ClientId
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.randomness import Randomness


def minutes_per_client(minutes: int) -> int:
    """How many of a node's minutes in recovery may be one client's."""
    return max(minutes // 2, 1)


class BackgroundBudget:
    """One per node."""

    def __init__(
        self, *, clock: Clock, randomness: Randomness, settings: BackgroundSettings, minutes_at_once: int = 4
    ) -> None:
        self._clock = clock
        self._randomness = randomness
        self.pace = BackgroundPace(settings, now=clock.monotonic())
        self.slots = Turns(places=lambda: self.pace.size, may_start=self._may_start)
        self.minutes = Turns(places=lambda: minutes_at_once, per_client=lambda: minutes_per_client(minutes_at_once))
        self._rests_until = 0.0
        self._timer: Timer | None = None

    def observe(self, seconds: float, answered: bool) -> None:
        """A request to storage ended, of whatever kind; without an answer, or with one that decides nothing, too."""
        if self.pace.observe(seconds, answered=answered, now=self._clock.monotonic()):
            self.slots.hand_out()

    def slot(self, client_id: ClientId) -> "Slot":
        """To be held for a request on behalf of a client."""
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


class Slot:
    """`async with`, once."""

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
