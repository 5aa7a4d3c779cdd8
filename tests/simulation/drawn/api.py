"""One simulated API process: the services that routes use, with a clock and a connection of its own."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from itertools import cycle
from typing import Any, Protocol, TypeVar

from cql.connection import Connection
from cql.storage import Storage
from membership.errors import StoreUnavailable
from membership.identity import NodeIncarnation
from membership.settings import MembershipSettings
from poller_cluster.hand_over import LastNode, NotSeen
from scheduler_service.api.services import ApiServices, build_services
from scheduler_service.api.settings import ApiSettings
from scheduler_service.domain.call_figures import CallFigures
from scheduler_service.domain.destination_figures import NodeFigures
from scheduler_service.domain.errors import ClockInDoubt, Conflict, NodeUnreachable, Overloaded, SecretLocked
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.ports import HintSender
from scheduler_service.domain.trial_calls import Exchange, Preview, TrialCall
from scheduler_service.runtime.lifecycle import Tasks
from scheduler_service.runtime.timekeeper import Timekeeper
from scheduler_service.usecases.members import WatchMembers
from scheduler_service.usecases.secret_encryption import NoEncryption
from tests.simulation.faults import FaultyConnection
from tests.simulation.sim_clock import SimClock
from tests.simulation.sim_node import SeededRandomness

T = TypeVar("T")
SETTINGS = ApiSettings(admin_key="simulated-administrator")


RETRYABLE = (StoreUnavailable, ClockInDoubt, NodeUnreachable, SecretLocked)
"""The same call may succeed later."""


class Unanswered(Exception):
    """No answer arrived, and the request may have taken effect: the process died, took too long, or said 503."""


class Told(Protocol):
    """Tells a node of exactly this incarnation; False if no such node runs."""

    async def drain(self, incarnation: NodeIncarnation, *, force: bool) -> bool: ...

    async def undrain(self, incarnation: NodeIncarnation) -> bool: ...


class _Ports:
    """Ports to other processes. Trial calls are not simulated; a node drains if exactly this incarnation runs."""

    def __init__(self, told: Told) -> None:
        self._told = told

    async def drain(self, incarnation: NodeIncarnation, *, address: str, force: bool) -> None:
        try:
            heard = await self._told.drain(incarnation, force=force)
        except LastNode as error:
            raise Conflict("last-node", str(error)) from error
        except (NotSeen, StoreUnavailable) as error:
            raise NodeUnreachable(str(error)) from error
        if not heard:
            raise NodeUnreachable(f"{incarnation} does not answer")

    async def destination_figures(
        self, incarnation: NodeIncarnation, client_id: ClientId, name: str, *, address: str
    ) -> NodeFigures:
        raise NodeUnreachable(f"{incarnation} does not answer")

    async def call_figures(self, incarnation: NodeIncarnation, *, address: str) -> CallFigures:
        raise NodeUnreachable(f"{incarnation} does not answer")

    async def held_back(
        self, incarnation: NodeIncarnation, client_ids: Sequence[ClientId], *, address: str
    ) -> Sequence[ClientId]:
        raise NodeUnreachable(f"{incarnation} does not answer")

    async def undrain(self, incarnation: NodeIncarnation, *, address: str) -> None:
        if not await self._told.undrain(incarnation):
            raise NodeUnreachable(f"{incarnation} does not answer")

    async def call(self, trial_call: TrialCall) -> Exchange:
        raise Overloaded("trial calls are not simulated")

    def preview(self, trial_call: TrialCall) -> Preview | None:
        raise Overloaded("previews are not simulated")


class ApiProcess:
    """One run of an API process, from `start` to `kill`."""

    def __init__(
        self,
        *,
        name: str,
        clock: SimClock,
        rng: random.Random,
        store: Connection,
        hints: HintSender,
        told: Told,
        on_crash: Callable[[str, BaseException], None],
    ) -> None:
        self.name = name
        self.clock = clock
        self.connection = FaultyConnection(store, clock=clock, rng=rng)
        randomness = SeededRandomness(rng)
        self.storage = Storage.over(
            self.connection, clock=clock, randomness=randomness, packs=cycle((True, False)).__next__
        )
        self.up = False
        self._tasks = Tasks(on_crash)
        self._requests: dict[asyncio.Task[Any], None] = {}
        membership = MembershipSettings()
        self.members = WatchMembers(store=self.storage.members, clock=clock, settings=membership, on_crash=on_crash)
        self._timekeeper = Timekeeper(
            clock=clock,
            witnesses=lambda: self.members.witnesses,
            alone=lambda: self.members.alone,
            servers=self.members.servers.ahead_ms,
        )
        ports = _Ports(told)
        self.services: ApiServices = build_services(
            storage=self.storage,
            clock=clock,
            randomness=randomness,
            hints=hints,
            members=self.members,
            nodes=ports,
            trial_calls=ports,
            encryption=NoEncryption(),
            settings=SETTINGS,
            clock_limit_ms=membership.clock_limit_ms,
        )

    def start(self) -> None:
        """Start the process: it listens when it has read the members once, or that read got no answer."""
        self._tasks.spawn(self._timekeeper.run(), name=f"{self.name}.timekeeper")
        self._tasks.spawn(self._begin(), name=f"{self.name}.start")

    async def _begin(self) -> None:
        await self.members.start()
        self.up = True

    async def ask(self, verb: Callable[[ApiServices], Coroutine[Any, Any, T]]) -> T:
        """Make one request; returns what the verb returns. Raises Unanswered."""
        if not self.up:
            await self.clock.sleep(0.05)
            raise Unanswered("nobody listens")
        task = asyncio.get_running_loop().create_task(verb(self.services), name=f"{self.name}.request")
        self._requests[task] = None

        def expire() -> None:
            task.cancel()

        timer = self.clock.call_later(SETTINGS.request_timeout_seconds, expire)
        try:
            await asyncio.wait([task])
        finally:
            timer.cancel()
            self._requests.pop(task, None)
        if task.cancelled():
            raise Unanswered("no answer")
        error = task.exception()
        if isinstance(error, RETRYABLE):
            raise Unanswered(str(error))
        return task.result()

    async def kill(self) -> None:
        """SIGKILL: the process does nothing more."""
        self.up = False
        self.clock.resume()
        requests = list(self._requests)
        for task in requests:
            task.cancel()
        await self.members.stop()
        await self._tasks.close()
        if requests:
            await asyncio.wait(requests)
        await self.storage.close()
