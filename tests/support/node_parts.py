"""The surroundings of a node's parts, for tests of one part alone."""

import asyncio
import math
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from poller_cluster.background_budget import BackgroundBudget
from poller_cluster.bookkeeping import Bookkeeper
from poller_cluster.clients import ServedClient, ServedClients
from poller_cluster.dispatch.dispatcher import Dispatcher
from poller_cluster.dispatch.lateness import Stretches
from poller_cluster.dispatch.long_calls import LongCalls
from poller_cluster.dispatch.overdue_calls import OverdueCalls
from poller_cluster.minute.context import MinuteContext
from poller_cluster.minute.limits import MinuteLimits
from poller_cluster.minute.ordering import OrderingKeys
from poller_cluster.node_runtime import NodeRuntime
from poller_cluster.settings import MinuteSettings, ReceiverSettings
from scheduler_service.domain.ids import ClientId, Minute, PollerId
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.randomness import Randomness
from tests.support.api import ManualClock, SeededRandomness
from tests.support.budgets import budget as new_budget


def no_task(work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
    raise AssertionError(f"{name} is not expected to begin")


def no_fault(name: str, error: BaseException) -> None:
    raise AssertionError(f"{name} is not expected to fail") from error


def node_runtime(
    clock: Clock,
    *,
    randomness: Randomness | None = None,
    spawn: Callable[..., asyncio.Task[Any]] = no_task,
    budget: BackgroundBudget | None = None,
    trusted: Callable[[], bool] = lambda: True,
    on_fault: Callable[[str, BaseException], None] = no_fault,
) -> NodeRuntime:
    return NodeRuntime(
        clock=clock,
        randomness=randomness or SeededRandomness(),
        spawn=spawn,
        budget=budget or new_budget(clock),
        trusted=trusted,
        on_fault=on_fault,
    )


class GivenClients(ServedClients):
    """Clients that a test gives. `sure`: a destination that they don't have does not exist."""

    sure = True

    def __init__(self, clients: Callable[[], Collection[ServedClient]]) -> None:
        self._named = clients

    def get(self, client_id: ClientId) -> ServedClient | None:
        return next((client for client in self._named() if client.client_id == client_id), None)

    def all(self) -> list[ServedClient]:
        return list(self._named())

    def surely_without(self, client_id: ClientId, *, since: float) -> bool:
        return self.sure


class GivenPollers:
    """`HeldPollers` of every client. `held`: pollers with their positions; `woken`: the clients that were woken."""

    def __init__(self, held: Mapping[PollerId, Minute] | None = None) -> None:
        self.held: Mapping[PollerId, Minute] = held or {}
        self.woken: list[ClientId] = []

    def positions(self, client_id: ClientId) -> Mapping[PollerId, Minute]:
        return self.held

    def kept(self, client_id: ClientId) -> Collection[PollerId]:
        return self.held

    def share(self, client_id: ClientId) -> float:
        return 1.0

    def share_of_all(self) -> float:
        return 1.0

    def wake(self, client_id: ClientId) -> None:
        self.woken.append(client_id)


class GivenOrder:
    """A poller whose order is `known` for all minutes, or for none."""

    def __init__(self, *, known: bool = True) -> None:
        self.known = known
        self.order = OrderingKeys(on_change=lambda: None, on_wanted=lambda: None)
        self.granted_at = -math.inf

    def knows_order(self, minute: Minute) -> bool:
        return self.known

    def wake_minute(self, minute: Minute) -> None:
        pass

    def awaits_recovery(self, minute: Minute) -> bool:
        return not self.known


def overdue_calls(clock: Clock, *, share: float = 1.0, rate_of_all: float | None = None) -> OverdueCalls:
    return OverdueCalls(
        clock=clock,
        share=lambda client_id: share,
        share_of_all=lambda: share,
        rate_of_all=lambda: rate_of_all,
        held_back=lambda client_id: Stretches(),
        judged_at=clock.wall_ms,
    )


def minute_context(
    settings: MinuteSettings, *, clients: Sequence[ServedClient], dispatcher: Dispatcher | None = None
) -> MinuteContext:
    """A context for code that judges a minute's rows and reads no store."""
    unused: Any = None
    runtime, served = node_runtime(ManualClock()), GivenClients(lambda: clients)
    judging: Any = dispatcher or SimpleNamespace(
        long_calls=LongCalls(ReceiverSettings(), capacity=lambda: 100, on_free=lambda client_id: None),
        overdue_calls=overdue_calls(runtime.clock),
    )
    return MinuteContext(
        runtime=runtime,
        schedules=unused,
        writer=unused,
        clients=served,
        dispatcher=judging,
        notices=unused,
        node_events=unused,
        fire_guard=unused,
        books=Bookkeeper(balances=unused, dead_letters=unused, attempts=unused, clock=runtime.clock, spawn=no_task),
        limits=MinuteLimits(settings),
        breaker_longest_seconds=300.0,
        recount=lambda partition, epoch: None,
        events=None,
        ends=None,
    )
