"""The ports of delivery: what the dispatcher sees, and what a kind of target implements."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

from poller_cluster.delivery.request import CallbackRequest
from poller_cluster.delivery.result import AttemptResult
from poller_cluster.delivery.targets.ends import TargetEnd
from scheduler_service.domain.targets import TargetRules
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.lifecycle import Service

MayStart: TypeAlias = Callable[[], bool]
OnDone: TypeAlias = Callable[[AttemptResult], None]
OnEnd: TypeAlias = Callable[[TargetEnd], None]


class Engine(Protocol):
    """What makes attempts: the HTTP engine, and `Deliveries` over it and the targets."""

    @property
    def capacity(self) -> int:
        """How many attempts may be under way at a time."""

    @property
    def in_flight(self) -> int:
        """How many attempts are under way."""

    def start_attempt(self, request: CallbackRequest, on_done: OnDone, *, may_start: MayStart) -> None:
        """Start an attempt; `on_done` is called exactly once, later, on the loop. `may_start` is asked again right
        before anything is sent. Raises RuntimeError if `capacity` attempts are under way."""


class EngineService(Engine, Service, Protocol):
    """The engine that a node starts and stops."""

    async def stop(self, grace_seconds: float | None = None) -> None:
        """Wait up to `grace_seconds` (None: its setting) for attempts under way, then end the rest as `stopped`."""


class Target(Protocol):
    """One kind's way to send calls, open in one process. All its methods are called on the event loop, and none
    blocks it."""

    async def start(self) -> None:
        """Return when calls may be sent, whether or not the other side answers. Raises if it never will."""

    async def stop(self) -> None:
        """End all calls and leave nothing running. Idempotent; safe before `start`."""

    def send(self, request: CallbackRequest, on_end: OnEnd, *, may_start: MayStart) -> None:
        """Send one call; `on_end` gets its end, once, on the loop, also when the target is stopped.

        The `means` of the request is what the kind made of the destination's target; headers and body are complete and
        signed, and are sent as they are. `may_start` was asked just now. It is to be asked again for a call that was
        kept back, right before it is sent, and False ends the call as WITHDRAWN. After the `timeout_seconds` of the
        request its caller has given the call up, and the target must soon: no call is sent for the first time then.
        """


class TargetKind(TargetRules, Protocol):
    """One kind, with the operator's settings for it: what an entry point of the group minutehand.targets makes.

    The entry point is named as the kind, and loads a callable that takes the settings, the table of that name in the
    operator's file as a mapping, and answers a TargetKind. It raises ValueError for settings that it does not admit,
    with a sentence; whatever a file holds that they name is checked then, too.
    """

    def open(self, *, clock: Clock, capacity: int) -> Target:
        """The target of one process. `capacity`: how many calls it must hold at a time. Called once."""


OpenKinds: TypeAlias = Mapping[str, TargetKind]
KindFactory: TypeAlias = Callable[[Mapping[str, Any]], TargetKind]
