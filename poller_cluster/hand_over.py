"""A node gives every poller away, because it is told to or because it stops, and takes pollers again when it is told
to.

    taking --asked, another node takes pollers, or forced--> handing over --told to take pollers again--> taking
       `--stops---------------------------------------------^  `--stops: for good

The last node that takes pollers does not hand over unless it is forced to: nobody would own them, and nobody would be
called. Of several that are asked at the same time one stays at least: each says that it drains, and hands nothing over
before a read that began after that was seen in storage showed another one that takes pollers. Until then it keeps what
it holds (`LeaseBalancer`), so a refusal moves nothing."""

import asyncio
from typing import Protocol

from membership.errors import MinutehandError
from membership.identity import NodeIncarnation
from membership.lease_balancer import LeaseBalancer
from membership.ports import Heartbeat, MemberStore, NodeState, Spawn
from membership.view import MembersView
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.logging import get_logger

SEEN_WITHIN_SECONDS = 2.0
"""How long what a node says of itself may take to be seen in storage; then it is asked to come again."""
LOOK_SECONDS = 0.05
_log = get_logger("minutehand.node")


class LastNode(MinutehandError):
    """No other node takes pollers."""


class NotSeen(MinutehandError):
    """Storage did not show in time what this node says of itself, or it was told to take pollers again meanwhile:
    nothing was begun; ask again."""


class Announcing(Protocol):
    """What is needed of a `MembershipAgent`."""

    @property
    def view(self) -> MembersView: ...

    def set_state(self, state: NodeState) -> None: ...


class HandOver:
    """Of one node. `silent_after`: seconds without a beat after which a node is not counted on."""

    def __init__(
        self,
        *,
        incarnation: NodeIncarnation,
        members: Announcing,
        store: MemberStore,
        balancer: LeaseBalancer,
        clock: Clock,
        silent_after: float,
        spawn: Spawn,
    ) -> None:
        self._incarnation = incarnation
        self._members = members
        self._store = store
        self._balancer = balancer
        self._clock = clock
        self._silent_after = silent_after
        self._spawn = spawn
        self._judging = asyncio.Lock()
        self._taken_back = 0
        self._stopping = False
        self.begun = False
        """Whether pollers are being handed over, or are."""

    async def ask(self, *, force: bool = False) -> None:
        """Begin, as an operator asks for it. Repeatable. Raises LastNode, NotSeen, StoreUnavailable."""
        asked_after = self._taken_back
        if not force:
            async with self._judging:
                if not self.begun:
                    await self._judged(asked_after)
        self.begin()

    def begin(self) -> None:
        """Hand every poller over and take no other; stay a member, as draining, until stopped. Repeatable."""
        if not self.begun:
            self._begin()
            self._spawn(self._release(), name="hand-over")

    def take_back(self) -> bool:
        """Take pollers again. Repeatable. False while the node is being stopped."""
        if self._stopping:
            return False
        self._taken_back += 1
        if self.begun:
            self.begun = False
            self._balancer.take_again()
            _log.info("drain-taken-back", incarnation=str(self._incarnation), pollers=len(self._balancer.leases()))
        return True

    async def finish(self) -> None:
        """For good. Returns when every poller is handed over, or that has taken too long."""
        self._stopping = True
        if self.begun:
            await self._balancer.release_all()
        else:
            self._begin()
            await self._release()

    def _begin(self) -> None:
        self.begun = True
        _log.info("drain-begun", incarnation=str(self._incarnation), pollers=len(self._balancer.leases()))

    async def _release(self) -> None:
        if not self.begun:
            return
        began = self._clock.monotonic()
        await self._balancer.release_all()
        if self.begun:
            took = round(self._clock.monotonic() - began, 3)
            _log.info(
                "drain-ended", incarnation=str(self._incarnation), seconds=took, left=len(self._balancer.leases())
            )

    async def _judged(self, asked_after: int) -> None:
        try:
            await self._judge(asked_after)
        except BaseException:
            if not self.begun:
                self._members.set_state(NodeState.LIVE)
            raise

    async def _judge(self, asked_after: int) -> None:
        """Twice: the first look refuses without anybody having noticed, the second one counts."""
        await self._require_another()
        self._require_still_asked(asked_after)
        self._members.set_state(NodeState.DRAINING)
        deadline = self._clock.monotonic() + SEEN_WITHIN_SECONDS
        while not any(
            row.incarnation == self._incarnation and row.state is NodeState.DRAINING for row in await self._rows()
        ):
            self._require_still_asked(asked_after)
            if self._clock.monotonic() >= deadline:
                raise NotSeen("storage does not show yet that this node drains; ask again")
            await self._clock.sleep(LOOK_SECONDS)
        await self._require_another()
        self._require_still_asked(asked_after)

    def _require_still_asked(self, asked_after: int) -> None:
        if self._taken_back != asked_after:
            raise NotSeen("this node was told to take pollers again meanwhile")

    async def _require_another(self) -> None:
        view, rows = self._members.view, {row.incarnation: row for row in await self._rows()}
        for member in view.members:
            row = rows.get(member.incarnation, member)
            beats = view.silence.get(member.incarnation, 0.0) < self._silent_after
            if member.incarnation != self._incarnation and row.state is NodeState.LIVE and beats:
                return
        raise LastNode("no other node takes pollers: nobody would be called")

    async def _rows(self) -> list[Heartbeat]:
        return list(await self._store.read_heartbeats())
