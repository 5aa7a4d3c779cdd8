"""The shell of one incarnation: beats, renews its trust, observes the other members, and ends.

```
 start ─▶ wait until older incarnations ─▶ begin the incarnation ─▶ beat ─▶ first renewal ─▶ running
          of the node are left or dead                                                         │
                                                                                               │
   over: superseded (writes left, after stopping), dead, taken, failed, stopped (writes left) ◀┘
```
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, assert_never

from membership.clocks import CLOCKS_APART_MS
from membership.conditional import Answer, Applied, Rejected, Unknown
from membership.errors import IncarnationOver, StoreUnavailable
from membership.identity import NodeId, NodeIncarnation, next_incarnation
from membership.observer import Observer
from membership.ports import Heartbeat, IncarnationRecord, MachineClock, MemberStore, NodeState, Spawn, WallClock
from membership.server_clocks import ServerClocks
from membership.settings import MembershipSettings
from membership.signal import Notifier, Signal
from membership.trust_renewal import TrustRenewal
from membership.view import MembersView
from membership.work import Work

_LOG = logging.getLogger(__name__)

SUPERSEDED: Final = "superseded"
DEAD: Final = "dead"
TAKEN: Final = "taken"
FAILED: Final = "failed"
STOPPED: Final = "stopped"
_REASONS = {
    SUPERSEDED: "a newer process runs under this node id: give every node a different id",
    DEAD: "the other nodes declared this process dead while it was silent: restart it",
    TAKEN: "another process began the same incarnation: restart this one",
    FAILED: "an unhandled exception: see the log, and restart it",
    STOPPED: "it was stopped",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeProfile:
    """What an incarnation says of itself in every heartbeat and never changes; see `Heartbeat`."""

    address: str
    version: str
    weight: float = 1.0
    capacity_per_minute: int = 0
    knows: int = 0


async def new_incarnation(
    *, node_id: NodeId, store: MemberStore, clock: WallClock, settings: MembershipSettings
) -> NodeIncarnation:
    """An incarnation for a process that starts now, newer than every known one of its node. Repeats the read until the
    store answers."""
    while True:
        try:
            known = [heartbeat.incarnation for heartbeat in await store.read_heartbeats()]
        except StoreUnavailable:
            await clock.sleep(settings.retry_seconds)
            continue
        return NodeIncarnation(node_id, next_incarnation(node_id, known=known, wall_ms=clock.wall_ms()))


class MembershipAgent:
    """A service. `on_over(reason)` is called once if the incarnation ends other than by `stop`: the process must stop
    acting and exit.

    `low_watermark()` gives the low watermark for the heartbeat about to be sent; the value counts as sent.
    `on_trusted()` is called when trust begins, at first and after every lapse, before anybody can act under it.
    """

    def __init__(
        self,
        *,
        incarnation: NodeIncarnation,
        profile: NodeProfile,
        store: MemberStore,
        clock: MachineClock,
        settings: MembershipSettings,
        spawn: Spawn,
        on_over: Callable[[str], None],
        low_watermark: Callable[[], int | None],
        on_trusted: Callable[[], None] = lambda: None,
    ) -> None:
        self.incarnation = incarnation
        self.over: str | None = None
        self._profile = profile
        self._store = store
        self._clock = clock
        self._settings = settings
        self._on_over = on_over
        self._low_watermark = low_watermark
        self._on_trusted = on_trusted
        self._work = Work(clock=clock, spawn=spawn, name="membership")
        self._parting = Work(clock=clock, spawn=spawn, name="membership.parting")
        self._wake = Signal(clock)
        self._changed = Notifier()
        self._renewal = TrustRenewal(
            incarnation=incarnation,
            store=store,
            clock=clock,
            settings=settings,
            work=self._work,
            regained=self._regained,
            died=lambda: self._end(DEAD),
        )
        self.servers = ServerClocks(store=store, clock=clock, settings=settings)
        self._observer = Observer(
            me=incarnation,
            store=store,
            servers=self.servers,
            clock=clock,
            settings=settings,
            work=self._work,
            changed=self._observed,
        )
        self._state = NodeState.LIVE
        self._clock_is_off = self._clock_is_apart = False
        self._beat = 0
        self._beats_in_flight = 0
        self._begun = False
        self._running = False
        self._stop: asyncio.Future[None] | None = None

    @property
    def clock_is_off(self) -> bool:
        """Whether the wall clock is off by so much that its pollers are released."""
        return self._clock_is_off

    @property
    def view(self) -> MembersView:
        """What the last read showed. Listeners are called at every new view."""
        return self._observer.view

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` at once when the view changed, trust came back, or the incarnation ended."""
        self._changed.listen(listener)

    def trusted(self) -> bool:
        """Whether an attempt may start now. Ask again when the socket is open: trust may end meanwhile."""
        return self._renewal.trusted()

    def set_state(self, state: NodeState) -> None:
        """The state that the node announces, from a beat sent at once. `left` is written by `stop` only."""
        if state is NodeState.LEFT:
            raise ValueError("an incarnation leaves by being stopped")
        self._state = state
        self._wake.set()

    def watch(self, incarnation: NodeIncarnation) -> None:
        """Judge an incarnation that a lease names though the view has no heartbeat of it."""
        self._observer.watch(incarnation)

    async def start(self) -> None:
        """Return when the incarnation is trusted for the first time. Raises `IncarnationOver` when it never will be.

        Waits for as long as the store is away, and for as long as an older incarnation of the node is alive.
        """
        self._work.begin(self._guarded(self.servers.run), "servers")
        self._work.begin(self._guarded(self._observer.run), "observer")
        self._work.begin(self._guarded(self._live), "incarnation")
        while not self._running and self.over is None:
            await self._changed.wait()
        if self.over is not None:
            raise IncarnationOver(f"{self.incarnation} cannot run: {_REASONS[self.over]}")

    async def stop(self) -> None:
        """End trust, then try to write `left` for about `leave_seconds`. The lease balancer must have stopped
        before."""
        if self._stop is not None:
            await asyncio.shield(self._stop)
            return
        self._stop = asyncio.get_running_loop().create_future()
        self._end(STOPPED)
        await self._work.close()
        await self._parting.finish(self._settings.leave_seconds + self._settings.send_margin_seconds)
        self._stop.set_result(None)

    async def _guarded(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except Exception:
            self._end(FAILED)
            raise

    async def _live(self) -> None:
        await self._older_incarnations_to_end()
        await self._begin_incarnation()
        period, due = self._settings.beat_seconds, self._clock.monotonic()
        while self.over is None:
            self._send_beat()
            now = self._clock.monotonic()
            on_time = due <= now < due + period
            # After a pause or an early wake-up the rhythm starts again, instead of a burst of late beats.
            due = due + period if on_time else now + period
            await self._wake.wait(due - now)

    async def _older_incarnations_to_end(self) -> None:
        told = False
        while self.over is None:
            if self.view.read_at > float("-inf"):
                older = [
                    incarnation
                    for incarnation in self._observer.open_incarnations()
                    if incarnation.node_id == self.incarnation.node_id
                ]
                if not older:
                    return
                if not told:
                    _LOG.warning(
                        "%s waits until older processes of this node have ended: %s",
                        *(self.incarnation, ", ".join(map(str, older))),
                        extra={"action": "incarnation-waits", "incarnation": str(self.incarnation)},
                    )
                    told = True
            await self._changed.wait()

    async def _begin_incarnation(self) -> None:
        unanswered = False
        while self.over is None:
            answer: Answer[IncarnationRecord]
            try:
                answer = await self._store.begin_incarnation(self.incarnation)
            except StoreUnavailable as error:
                answer = Unknown(str(error))
            match answer:
                case Applied():
                    break
                # Our own insert, whose answer was lost.
                case Rejected(current) if unanswered and current.alive and current.renewals == 0:
                    break
                case Rejected():
                    self._end(TAKEN)
                case Unknown():
                    unanswered = True
                    await self._wake.wait(self._settings.retry_seconds)
                case _:
                    assert_never(answer)
        self._begun = self.over is None

    def _send_beat(self) -> None:
        if self._beats_in_flight < self._settings.max_beats_in_flight:
            begun = self._clock.monotonic()
            self._beats_in_flight += 1
            self._work.begin(self._write_beat(self._heartbeat(self._announced), begun), "beat")

    @property
    def _announced(self) -> NodeState:
        return NodeState.DRAINING if self._clock_is_off else self._state

    def _heartbeat(self, state: NodeState) -> Heartbeat:
        self._beat += 1
        return Heartbeat(
            incarnation=self.incarnation,
            beat=self._beat,
            state=state,
            address=self._profile.address,
            wall_ms=self._clock.wall_ms(),
            version=self._profile.version,
            low_watermark=self._low_watermark(),
            weight=self._profile.weight,
            capacity_per_minute=self._profile.capacity_per_minute,
            system_ms=self._clock.system_ms(),
            knows=self._profile.knows,
        )

    async def _write_beat(self, heartbeat: Heartbeat, begun: float) -> None:
        try:
            await self._store.write_heartbeat(heartbeat)
        except StoreUnavailable as error:
            _LOG.debug(
                "beat unanswered: %s", error, extra={"action": "beat-unanswered", "incarnation": str(self.incarnation)}
            )
            return
        finally:
            self._beats_in_flight -= 1
        self._renewal.beat_confirmed(begun=begun)

    def _regained(self) -> None:
        self._on_trusted()
        action = "trust-regained" if self._running else "incarnation-begun"
        self._running = True
        _LOG.info("%s is trusted", self.incarnation, extra={"action": action, "incarnation": str(self.incarnation)})
        self._changed.notify()

    def _observed(self) -> None:
        node_id, number = self.incarnation
        if any(incarnation.node_id == node_id and incarnation.number > number for incarnation in self.view.heartbeats):
            self._end(SUPERSEDED)
        elif self._beat == 0 and self.incarnation in self.view.heartbeats:
            self._end(TAKEN)
        self._judge_clock()
        self._changed.notify()

    def _judge_clock(self) -> None:
        offset, limit = self.view.offset_ms, self._settings.clock_limit_ms
        if not self.view.offset_known and not self._clock_is_apart:
            return
        self._clock_is_apart = abs(offset) >= CLOCKS_APART_MS / 2
        off = abs(offset) >= (limit / 2 if self._clock_is_off else limit)
        if off != self._clock_is_off:
            self._clock_is_off = off
            self._wake.set()
            _LOG.warning(
                "the wall clock differs by %d ms from the other nodes' or Cassandra's: %s",
                *(offset, "its pollers are released" if off else "it takes pollers again"),
                extra={
                    "action": "clock-off" if off else "clock-agrees",
                    "incarnation": str(self.incarnation),
                    "offset_ms": offset,
                },
            )

    def _end(self, reason: str) -> None:
        if self.over is not None:
            return
        self.over = reason
        self._renewal.end()
        self._wake.set()
        _LOG.log(
            logging.INFO if reason == STOPPED else logging.ERROR,
            "%s is over: %s",
            *(self.incarnation, _REASONS[reason]),
            extra={"action": "incarnation-over", "incarnation": str(self.incarnation)},
        )
        self._changed.notify()
        if reason != STOPPED:
            self._on_over(reason)
        if self._begun and reason != DEAD:
            self._parting.begin(self._leave(at_once=reason == STOPPED), "leave")

    async def _leave(self, *, at_once: bool) -> None:
        """Write `left`, which frees this incarnation's leases: so only after nothing can reach the wire under them."""
        if not at_once:
            await self._clock.sleep(self._settings.send_margin_seconds)
        heartbeat = self._heartbeat(NodeState.LEFT)
        while True:
            try:
                await self._store.write_heartbeat(heartbeat)
            except StoreUnavailable:
                await self._clock.sleep(self._settings.retry_seconds)
                continue
            _LOG.info(
                "%s left", self.incarnation, extra={"action": "incarnation-left", "incarnation": str(self.incarnation)}
            )
            return
