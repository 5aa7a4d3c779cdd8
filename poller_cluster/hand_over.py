"""A node hands over every poller, because an operator asks for it or because it stops, and takes pollers again when an
operator asks for that.

    taking --asked, another node takes pollers, or forced--> handing over --told to take pollers again--> taking
       `--stops---------------------------------------------^  `--stops: for good

The last node that takes pollers does not hand over unless forced: its pollers would have no owner, and no call would be
made. Of several nodes asked at the same time at least one stays: each announces that it drains, and hands nothing over
until a read begun after its announcement was seen in storage shows another node that takes pollers. Until then it keeps
its pollers (`LeaseBalancer`), so a refusal moves none."""

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
"""How long a node's announcement may take to be seen in storage; after that the request is refused as NotSeen."""
ANNOUNCEMENT_LOOK_SECONDS = 0.05
_log = get_logger("minutehand.node")


class LastNode(MinutehandError):
    """No other node takes pollers."""


class NotSeen(MinutehandError):
    """Storage did not show this node's announcement in time, or the node was told to take pollers again meanwhile:
    nothing was begun; ask again."""


class Announcing(Protocol):
    """The part of `MembershipAgent` that a hand-over needs."""

    @property
    def view(self) -> MembersView: ...

    def set_state(self, state: NodeState) -> None: ...


class HandOver:
    """The hand-over of one node. `silent_after`: seconds without a heartbeat after which another node does not count as
    one that takes pollers."""

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
        """Whether pollers are being handed over, or have been."""

    async def ask(self, *, force: bool = False) -> None:
        """Begin on an operator's request. Idempotent. Raises LastNode, NotSeen, StoreUnavailable."""
        asked_after = self._taken_back
        if not force:
            async with self._judging:
                if not self.begun:
                    await self._judged(asked_after)
        self.begin()

    def begin(self) -> None:
        """Hand over every poller and take no other; stay a member, as draining, until stopped. Idempotent."""
        if not self.begun:
            self._begin()
            self._spawn(self._release(), name="hand-over")

    def take_back(self) -> bool:
        """Take pollers again. Idempotent. False while the node is being stopped."""
        if self._stopping:
            return False
        self._taken_back += 1
        if self.begun:
            self.begun = False
            self._balancer.take_again()
            _log.info("drain-taken-back", incarnation=str(self._incarnation), pollers=len(self._balancer.leases()))
        return True

    async def finish(self) -> None:
        """Hand over for good. Returns when every poller is handed over, or that has taken too long."""
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
        """Look for another node twice: the first time to refuse before this node announces anything, the second time,
        after the announcement was seen, to decide."""
        await self._require_another()
        self._require_still_asked(asked_after)
        self._members.set_state(NodeState.DRAINING)
        deadline = self._clock.monotonic() + SEEN_WITHIN_SECONDS
        while not any(
            row.incarnation == self._incarnation and row.state is NodeState.DRAINING for row in await self._rows()
        ):
            self._require_still_asked(asked_after)
            if self._clock.monotonic() >= deadline:
                raise NotSeen("storage does not yet show that this node drains; repeat the request")
            await self._clock.sleep(ANNOUNCEMENT_LOOK_SECONDS)
        await self._require_another()
        self._require_still_asked(asked_after)

    def _require_still_asked(self, asked_after: int) -> None:
        if self._taken_back != asked_after:
            raise NotSeen("meanwhile this node was told to take pollers again")

    async def _require_another(self) -> None:
        view, rows = self._members.view, {row.incarnation: row for row in await self._rows()}
        for member in view.members:
            row = rows.get(member.incarnation, member)
            beats = view.silence.get(member.incarnation, 0.0) < self._silent_after
            if member.incarnation != self._incarnation and row.state is NodeState.LIVE and beats:
                return
        raise LastNode("no other node takes pollers, so no calls would be made")

    async def _rows(self) -> list[Heartbeat]:
        return list(await self._store.read_heartbeats())
