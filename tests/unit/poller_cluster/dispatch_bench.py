"""A dispatcher over an engine that the test drives, with a record of what it reports."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from membership.view import MembersView
from poller_cluster.clients import ServedClient, ServedClients
from poller_cluster.delivery.request import CallbackRequest
from poller_cluster.delivery.result import AttemptResult
from poller_cluster.dispatch.dispatcher import Dispatcher
from poller_cluster.dispatch.due_clock import DueClock
from poller_cluster.dispatch.job import Job
from poller_cluster.dispatch.preparation import Preparation
from poller_cluster.settings import ReceiverSettings
from scheduler_service.domain.errors import SecretLocked
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.schedules import Outcome
from tests.support.api import NOW, ManualClock
from tests.support.node_parts import GivenPollers, node_runtime
from tests.support.token_fetches import HeldFetches
from tests.unit.poller_cluster.claimed import SENDER, RowOwner, claim, client


class FakeEngine:
    """Records the attempts started; `finish` ends one, by default the oldest."""

    def __init__(self) -> None:
        self.capacity = 100
        self.started: list[CallbackRequest] = []
        self.open: list[tuple[Callable[[AttemptResult], None], Callable[[], bool]]] = []

    @property
    def in_flight(self) -> int:
        return len(self.open)

    def start_attempt(
        self, request: CallbackRequest, on_done: Callable[[AttemptResult], None], *, may_start: Callable[[], bool]
    ) -> None:
        self.started.append(request)
        self.open.append((on_done, may_start))

    def finish(self, came_to: AttemptResult, position: int = 0) -> None:
        self.open.pop(position)[0](came_to)


class KnownClients(ServedClients):
    """Clients that the test gives."""

    def __init__(self) -> None:
        self.known: dict[str, ServedClient] = {}
        self.locked_headers: set[str] = set()

        self.sure = True

    def get(self, client_id: ClientId) -> ServedClient | None:
        return self.known.get(client_id)

    def surely_without(self, client_id: ClientId, *, since: float) -> bool:
        return self.sure

    def open_headers(self, client_id: ClientId, headers: str) -> str:
        if headers in self.locked_headers:
            raise SecretLocked("no key", key_id="gone")
        return headers


class Bench:
    """A running dispatcher, and a record of what it reports."""

    def __init__(self, receivers: ReceiverSettings | None = None) -> None:
        self.pollers = GivenPollers()
        self.free = self.pollers.woken
        self.clock = ManualClock()
        self.engine = FakeEngine()
        self.clients = KnownClients()
        self.clients.known["shop"] = client()
        self.trusted = True
        self.ahead_ms = 0
        self.offset_known = True
        self.done: list[tuple[int, Outcome]] = []
        self.results: list[AttemptResult] = []
        self.again: list[int] = []
        self.faults: list[str] = []
        self.tail = 0
        self.fetcher = HeldFetches()
        runtime = node_runtime(
            self.clock,
            trusted=lambda: self.trusted,
            on_fault=lambda what, error: self.faults.append(what),
        )
        self.dispatcher = Dispatcher(
            engine=self.engine,
            clients=self.clients,
            pollers=self.pollers,
            preparation=Preparation(
                clients=self.clients,
                sender=SENDER,
                fetcher=self.fetcher,
                runtime=runtime,
                on_token=lambda jobs: self.dispatcher.resume(jobs),
                on_fetched=lambda key, failure: None,
            ),
            due_clock=DueClock(clock=self.clock, view=self._view, limit_ms=1_000),
            runtime=runtime,
            on_result=lambda job, came_to, outcome: self.results.append(came_to),
            receivers=receivers,
        )

    def _view(self) -> MembersView:
        return MembersView(ahead_at_most_ms=self.ahead_ms, offset_known=self.offset_known)

    def submit(
        self,
        client_id: str = "shop",
        *,
        after_ms: int = 0,
        owner: RowOwner | None = None,
        nominal_due: int | None = None,
        host: str | None = None,
        destination: str | None = None,
        over_quota: bool = False,
        **row: Any,
    ) -> Job:
        """Submit a row due `after_ms` from NOW; its number is the count of rows so far."""
        owner = owner or self.owner(client_id)
        self.tail += 1
        number = self.tail
        one = claim(
            due=NOW + after_ms,
            tail=number,
            url=f"destination://{destination}/{number}" if destination else f"https://{host or client_id}/{number}",
            nominal_due=nominal_due,
            **row,
        )
        job = Job(owner, one, one.row.due, over_quota)
        self.dispatcher.submit([job])
        return job

    def owner(self, client_id: str = "shop") -> RowOwner:
        """The owner of the next rows. It still owns them if the number of the first one is odd."""
        number = self.tail + 1
        return RowOwner(
            client_id,
            on_end=lambda key, outcome: self.done.append((key.schedule_id.int & 0xFFFF_FFFF, outcome)),
            may_send=lambda: number % 2 == 1,
            on_queued_again=lambda: self.again.append(number),
        )

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await self.settle()

    @property
    def started(self) -> Sequence[int]:
        """The numbers of the rows, in the order of their attempts."""
        return [int(request.url.rsplit("/", 1)[1]) for request in self.engine.started]

    @property
    def turns(self) -> str:
        """The first letters of the clients whose attempts were started."""
        return "".join(request.url.removeprefix("https://")[0] for request in self.engine.started)
