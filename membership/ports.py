"""Ports: what membership needs of a store, of a clock, and of the process it serves.

Every conditional write is answered Applied, Rejected with the current row, or Unknown. Reads marked *serial* see
every write that was applied before they began. A store that cannot answer raises `StoreUnavailable`.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from membership.conditional import Answer
from membership.errors import StoreUnavailable
from membership.identity import NodeIncarnation, PollerKey

__all__ = [
    "Credibility",
    "Heartbeat",
    "IncarnationRecord",
    "LeaseRow",
    "LeaseStore",
    "MachineClock",
    "MemberStore",
    "NodeState",
    "PollerHost",
    "ServerTime",
    "Spawn",
    "StoreUnavailable",
    "Timer",
    "WallClock",
]


class NodeState(StrEnum):
    """The state that a node announces in its heartbeat."""

    LIVE = "live"
    DRAINING = "draining"
    LEFT = "left"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """One row of `nodes`: what an incarnation last wrote about itself. Only that incarnation writes it, so a plain
    write suffices.

    `beat` grows by one with every write. `low_watermark` is the oldest unsettled mark (minute) over the incarnation's
    pollers that count, or None while it has had none. `weight` is the share of pollers it asks for, 1.0 unless
    configured. `system_ms`: the clock of its machine at the write; None from programs older than the column. `knows`:
    the number of the latest storage format that its program can read; 0 from programs older than the column."""

    incarnation: NodeIncarnation
    beat: int
    state: NodeState
    address: str
    wall_ms: int
    version: str
    low_watermark: int | None
    weight: float = 1.0
    capacity_per_minute: int = 0
    system_ms: int | None = None
    knows: int = 0

    @property
    def step_ms(self) -> int:
        """How far its machine's clock is ahead of the wall clock that it uses."""
        return 0 if self.system_ms is None else self.system_ms - self.wall_ms


@dataclass(frozen=True, slots=True)
class IncarnationRecord:
    """One row of `lives`, written by conditional writes only. `renewals` counts how often trust was regained."""

    incarnation: NodeIncarnation
    alive: bool
    renewals: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRow:
    """One row of `pollers`. `owner` is None when the last owner released it, or when it never had one.

    `watermark`: every mark (minute) before it is settled. `lagging`: the owner's low watermark does not cover this
    poller, so a taker starts from `watermark`."""

    poller: PollerKey
    owner: NodeIncarnation | None
    epoch: int
    watermark: int
    lagging: bool


class ServerTime(NamedTuple):
    """The answer of one of the store's servers: its name, and Unix milliseconds by its machine's clock."""

    server: str
    wall_ms: int


class LeaseChange(NamedTuple):
    """One lease's conditional write: `new` replaces the row if it equals `expected`."""

    expected: LeaseRow
    new: LeaseRow


class Timer(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Idempotent, and harmless after the call was made."""


class WallClock(Protocol):
    """Time. Liveness and trust are judged by `monotonic` alone; `wall_ms` is only announced and compared."""

    def monotonic(self) -> float:
        """Seconds that never step and count suspends, from an arbitrary origin."""

    def wall_ms(self) -> int:
        """Unix milliseconds, UTC."""

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds` of `monotonic`; after one turn of the loop when <= 0."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call back on the loop after `seconds` of `monotonic`. Cheaper than a task that sleeps."""
        ...


class MachineClock(WallClock, Protocol):
    """A clock that also reads its machine's clock."""

    def system_ms(self) -> int:
        """Unix milliseconds by the machine's clock, steps included."""


class Spawn(Protocol):
    """Runs work as a task. The task owner behind it reports tasks that end with an exception."""

    def __call__(self, work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]: ...


class MemberStore(Protocol):
    """Heartbeats, incarnations, and the servers' clocks."""

    async def write_heartbeat(self, heartbeat: Heartbeat) -> None:
        """Replace the incarnation's row. Plain write at quorum; repeating it is harmless.

        Of two writes the one with the higher beat wins, in whatever order they arrive.
        """

    async def read_heartbeats(self) -> Sequence[Heartbeat]:
        """Every row of the cluster, ended incarnations included, in no particular order, read at quorum."""

    async def read_server_clock(self) -> ServerTime:
        """The time of one of the servers, steps of its machine's clock included. Calls go to each server in turn."""

    async def begin_incarnation(self, incarnation: NodeIncarnation) -> Answer[IncarnationRecord]:
        """Insert the record (alive, 0 renewals) if it does not exist."""

    async def renew_incarnation(
        self, incarnation: NodeIncarnation, *, renewals: int
    ) -> Answer[IncarnationRecord | None]:
        """Set `renewals + 1` if the incarnation is alive and has exactly `renewals`. Rejected(None): there is no
        record."""

    async def declare_dead(self, incarnation: NodeIncarnation, *, renewals: int) -> Answer[IncarnationRecord | None]:
        """Set dead if the incarnation is alive and has exactly `renewals`."""

    async def read_incarnation(self, incarnation: NodeIncarnation) -> IncarnationRecord | None:
        """Serial read."""


class LeaseStore(Protocol):
    """Leases: the `pollers` table. `create_pollers` aside, every write is conditional and tests the row as read."""

    async def create_pollers(self, pollers: Sequence[PollerKey], *, watermark: int) -> None:
        """Insert (no owner, epoch 0, lagging) where no row exists yet; existing rows are left alone. Idempotent."""

    async def read_leases(self, client_id: str) -> Sequence[LeaseRow]:
        """Every poller of one client at quorum, by poller_id."""

    async def read_lease(self, poller: PollerKey) -> LeaseRow | None:
        """Serial read."""

    async def write_lease(self, *, expected: LeaseRow, new: LeaseRow) -> Answer[LeaseRow | None]:
        """Replace owner, epoch, watermark and lagging if all four are as in `expected`. Take, release, set, clear."""

    async def write_leases(self, changes: Sequence[LeaseChange]) -> Answer[None]:
        """The same for several pollers of one client, atomically: all if all are as expected, else none."""


class PollerHost(Protocol):
    """What the lease balancer asks of the process it serves. Calls come on the event loop's thread.

    The order for a poller is `granted`, perhaps `drain`, then `revoked`, and possibly the same again under a higher
    epoch. Every granted poller gets exactly one `revoked`."""

    def granted(self, poller: PollerKey, *, epoch: int, start: int) -> None:
        """The poller is ours under `epoch`; work begins at mark `start`."""

    def position(self, poller: PollerKey) -> int:
        """The oldest unsettled mark of a granted poller, until it is revoked. Never falls under one epoch."""

    async def drain(self, poller: PollerKey) -> None:
        """Stop claiming, let started work end, record it. Writes nothing for the poller after it returns.

        Cancelled when it takes longer than the lease balancer's bound; `revoked` follows in any case.
        """

    def revoked(self, poller: PollerKey) -> None:
        """Stop acting for the poller: forget it at once, start nothing, write nothing."""


class Credibility(Protocol):
    """Which marks are believed. Marks are passed by a wall clock, so a clock that was ahead recorded some too high."""

    def credible(self, poller: PollerKey, mark: int) -> int:
        """The latest mark at which a poller recorded at `mark` may begin or be released: `mark` itself, or an earlier
        one if a clock that was ahead recorded it."""

    def credible_low_watermark(self, low_watermark: int) -> int:
        """The same for the low watermark that is about to be announced."""

    def gone(self, poller: PollerKey) -> None:
        """The poller is certainly not this incarnation's: its release is confirmed, or another incarnation owns it.
        What was known of it must not be used after a later take."""
