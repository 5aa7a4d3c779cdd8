"""The leases of one incarnation: carries out their moves, and tells the host the results.

`_enter` is the one place where a lease changes: it tells the host, and the low watermark which pollers count. The lease
balancer decides what is to be done about a poller, and when."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from membership.conditional import APPLIED, Answer, Applied, Rejected, Unknown
from membership.errors import StoreUnavailable
from membership.identity import NodeIncarnation, PollerKey
from membership.lease import Lease, Phase, start_of
from membership.low_watermarks import LowWatermarks
from membership.ports import Credibility, LeaseChange, LeaseRow, LeaseStore, NodeState, PollerHost, WallClock
from membership.settings import MembershipSettings
from membership.view import MembersView
from membership.work import BoundedQueue, GroupedQueue, Work

_LOG = logging.getLogger(__name__)

Begin = Callable[[], PollerKey | None]
"""Begins a write of a lease just before it is sent; None when nothing is left to write."""


class Members(Protocol):
    """What the lease balancer needs of a `MembershipAgent`."""

    over: str | None

    @property
    def clock_is_off(self) -> bool: ...

    @property
    def view(self) -> MembersView: ...

    def trusted(self) -> bool: ...

    def listen(self, listener: Callable[[], None]) -> None: ...

    def watch(self, incarnation: NodeIncarnation) -> None: ...

    def set_state(self, state: NodeState) -> None: ...


class LeaseTable:
    """`wanted(poller)`: whether this incarnation should hold it. `gone(poller)` is called when a lease could not be
    taken or has ended."""

    def __init__(
        self,
        *,
        incarnation: NodeIncarnation,
        members: Members,
        store: LeaseStore,
        host: PollerHost,
        credibility: Credibility,
        clock: WallClock,
        settings: MembershipSettings,
        work: Work,
        wanted: Callable[[PollerKey], bool],
        gone: Callable[[PollerKey], None],
    ) -> None:
        self._incarnation = incarnation
        self._members = members
        self._store = store
        self._host = host
        self._credibility = credibility
        self._clock = clock
        self._settings = settings
        self._work = work
        self._wanted = wanted
        self._gone = gone
        self.takeovers = 0
        """Pollers taken from incarnations that had not handed them over."""
        self._leases: dict[PollerKey, Lease] = {}
        self._queued: dict[PollerKey, None] = {}
        self._doubtful: dict[PollerKey, None] = {}
        self._settling: dict[PollerKey, None] = {}
        self._lagging: dict[PollerKey, None] = {}
        self._draining: dict[PollerKey, tuple[float, asyncio.Task[None]]] = {}
        self._low_watermarks = LowWatermarks()
        self._closed = False
        size = settings.pollers_per_lease_write
        self._writes: GroupedQueue[Begin] = GroupedQueue(
            width=settings.max_concurrent_lease_writes, size=size, perform=self._write_together, work=work, what="lease"
        )
        self._marks: GroupedQueue[Begin] = GroupedQueue(
            width=settings.max_concurrent_mark_writes, size=size, perform=self._write_together, work=work, what="mark"
        )
        self._settles = BoundedQueue(width=settings.max_concurrent_lease_writes, work=work, what="settle")
        self._drains = BoundedQueue(width=settings.max_concurrent_drains, work=work, what="drain")

    def __len__(self) -> int:
        return len(self._leases)

    def __contains__(self, poller: object) -> bool:
        """Whether the poller is, may be, or is about to become ours."""
        return poller in self._leases or poller in self._queued

    def granted(self) -> Iterator[Lease]:
        """The leases that the host was given and not yet asked to forget."""
        return (lease for lease in self._leases.values() if lease.granted)

    @property
    def busy(self) -> bool:
        """Whether leases are being written."""
        return not (self._writes.idle and self._marks.idle and self._settles.idle)

    def low_watermark(self) -> int | None:
        """The low watermark for a heartbeat about to be sent."""
        low_watermark = self._low_watermarks.send(self._position)
        return None if low_watermark is None else self._credibility.credible_low_watermark(low_watermark)

    def offer(self, row: LeaseRow) -> bool:
        """Take a wanted poller, given its row, if its owner has released it or is gone. False: it can't be taken
        now."""
        if row.owner == self._incarnation:
            self._enter(Lease.found(row, incarnation=self._incarnation))
        elif self._takeable(row):
            self._queued[row.poller] = None
            self._writes.put(row.poller.client_id, partial(self._take, row))
        else:
            if row.owner is not None and row.owner not in self._members.view.heartbeats:
                self._members.watch(row.owner)
            return False
        return True

    def release_unwanted(self) -> None:
        """Start to release every held poller that is not wanted any more."""
        for lease in [x for x in self._leases.values() if x.phase is Phase.HELD and not self._wanted(x.row.poller)]:
            self._enter(lease.drain())

    def suspect(self, poller: PollerKey, *, epoch: int) -> None:
        """The host's writes under `epoch` are rejected. Ignored when the poller is held under another epoch."""
        lease = self._leases.get(poller)
        if lease is not None and lease.granted and lease.row.epoch == epoch and not lease.in_doubt:
            _LOG.debug(
                "%s may be lost", poller, extra={"action": "lease-suspect", "poller": str(poller), "epoch": epoch}
            )
            self._enter(lease.suspect())

    def cut_off(self) -> None:
        """Cancel the drains that are past their deadline."""
        now = self._clock.monotonic()
        for deadline, task in self._draining.values():
            if deadline <= now:
                task.cancel()

    def settle(self) -> None:
        """Read the row of every doubtful poller, then take it again, release it, or forget it."""
        for poller in self._doubtful:
            if poller not in self._settling:
                self._settling[poller] = None
                self._settles.put(partial(self._settle, poller))

    def mark(self, reference: int) -> None:
        """Write the flags and watermarks that are due. `reference` is the median position of the pollers."""
        for poller in self._low_watermarks.below(reference - self._settings.lag_marks, self._position):
            self._marks.put(poller.client_id, partial(self._set_lagging, poller))
        for poller in self._lagging:
            position = self._position(poller)
            moved = position - self._leases[poller].row.watermark
            if position >= reference - 1 and self._low_watermarks.may_count(position):
                self._marks.put(poller.client_id, partial(self._clear_lagging, poller))
            elif moved >= self._settings.watermark_marks:
                self._marks.put(poller.client_id, partial(self._set_lagging, poller))

    def forget(self) -> bool:
        """Revoke every poller: the incarnation is over or stops. Final. True when the host was acting for one."""
        self._closed = True
        for queue in (self._writes, self._marks, self._settles, self._drains):
            queue.clear()
        granted = [lease.row.poller for lease in self.granted()]
        for poller in self._leases:
            self._low_watermarks.discount(poller)
        for table in (self._leases, self._queued, self._doubtful, self._settling, self._lagging):
            table.clear()
        for poller in granted:
            self._host.revoked(poller)
        return bool(granted)

    def _position(self, poller: PollerKey) -> int:
        lease = self._leases[poller]
        return self._host.position(poller) if lease.granted else lease.mark

    def _takeable(self, row: LeaseRow) -> bool:
        return row.owner is None or row.owner in self._members.view.free

    def _start(self, row: LeaseRow) -> int:
        low_watermark = None if row.owner is None else self._members.view.low_watermark_of(row.owner)
        start = start_of(row, owners_low_watermark=low_watermark)
        return min(start, self._credibility.credible(row.poller, start))

    def _at_most(self, lease: Lease, position: int) -> int:
        """The latest mark that may be recorded for a poller whose host has reached `position`."""
        return self._credibility.credible(lease.row.poller, max(position, lease.row.watermark))

    def _enter(self, lease: Lease) -> None:
        poller, phase = lease.row.poller, lease.phase
        before = self._leases.get(poller)
        was_granted = before is not None and before.granted
        # Count before a clear is sent, discount after it ended: the low watermark may be too low, never too high.
        if lease.counted and poller not in self._low_watermarks:
            self._low_watermarks.count(poller, position=self._position(poller))
        if phase is Phase.GONE:
            self._leases.pop(poller, None)
        else:
            self._leases[poller] = lease
        if not lease.counted:
            self._low_watermarks.discount(poller)
        _keep(self._doubtful, poller, phase is Phase.DOUBTFUL)
        _keep(self._lagging, poller, phase is Phase.HELD and lease.row.lagging)
        if lease.granted and not was_granted:
            self._host.granted(poller, epoch=lease.row.epoch, start=lease.row.watermark)
        elif was_granted and not lease.granted:
            self._host.revoked(poller)
        _LOG.debug("%s: %s", poller, phase.value, extra={"action": f"lease-{phase.value}", "poller": str(poller)})
        match phase:
            case Phase.GONE:
                self._credibility.gone(poller)
                self._gone(poller)
            # The hint moved while the take or mark was being written.
            case Phase.HELD if not self._wanted(poller):
                self._enter(lease.drain())
            case Phase.DRAINING if before is None or before.phase is not Phase.DRAINING:
                self._drains.put(partial(self._drain, poller))
            case _:
                pass

    def _take(self, row: LeaseRow) -> PollerKey | None:
        self._queued.pop(row.poller, None)
        if self._wanted(row.poller) and self._members.trusted() and self._takeable(row):
            self.takeovers += row.owner is not None
            return self._begun(Lease.take(row, incarnation=self._incarnation, start=self._start(row)))
        self._gone(row.poller)
        return None

    def _begun(self, lease: Lease) -> PollerKey:
        self._enter(lease)
        return lease.row.poller

    async def _write_together(self, items: list[Begin]) -> None:
        """One conditional write for several pollers of one client; if rejected, each is written by itself."""
        # Begin late: what was queued may no longer be wanted, trusted or takeable.
        pollers = [poller for begin in items if (poller := begin()) is not None]
        if len(pollers) > 1:
            answer = await self._send_together(pollers)
            if self._closed or not isinstance(answer, Rejected):
                return
        for poller in pollers:
            await self._send(poller)
            if self._closed:
                return

    async def _send_together(self, pollers: list[PollerKey]) -> Answer[None]:
        leases = [self._leases[poller] for poller in pollers]
        changes = [LeaseChange(expected=lease.row, new=lease.under_way) for lease in leases]
        try:
            answer = await self._store.write_leases(changes)
        except StoreUnavailable as error:
            answer = Unknown(str(error))
        match answer:
            case Applied():
                for poller in () if self._closed else pollers:
                    self._enter(self._leases[poller].answered(APPLIED))
            case Unknown():
                for poller in () if self._closed else pollers:
                    self._answered(poller, answer)
            case Rejected():
                pass
        return answer

    async def _write(self, lease: Lease) -> None:
        self._enter(lease)
        await self._send(lease.row.poller)

    async def _send(self, poller: PollerKey) -> None:
        """Write `lease.under_way`, and take in the answer."""
        lease = self._leases[poller]
        answer: Answer[LeaseRow | None]
        try:
            answer = await self._store.write_lease(expected=lease.row, new=lease.under_way)
        except StoreUnavailable as error:
            answer = Unknown(str(error))
        if not self._closed:
            self._answered(poller, answer)

    def _answered(self, poller: PollerKey, answer: Answer[LeaseRow | None]) -> None:
        # Not the lease as it was sent: it may have been suspected while the write was under way.
        lease = self._leases[poller]
        if isinstance(answer, Unknown):
            _LOG.debug(
                "%s in doubt while %s: %s",
                *(poller, lease.phase.value, answer.reason),
                extra={"action": "lease-unknown", "poller": str(poller), "epoch": lease.under_way.epoch},
            )
        self._enter(lease.answered(answer))

    async def _settle(self, poller: PollerKey) -> None:
        try:
            row = await self._store.read_lease(poller)
        except StoreUnavailable:
            return
        finally:
            self._settling.pop(poller, None)
        if self._closed:
            return
        lease = self._leases[poller].read(row)
        if lease.phase is not Phase.DOUBTFUL:
            self._enter(lease)
        elif not self._wanted(poller):
            at_most = self._at_most(lease, lease.mark)
            await self._write(lease.release(at_most=at_most)) if lease.ours else self._enter(lease)
        elif self._members.trusted() and (lease.ours or self._takeable(lease.row)):
            start = lease.row.watermark if lease.ours else self._start(lease.row)
            await self._write(lease.take_again(start=start, at_most=self._at_most(lease, max(start, lease.mark))))
        else:
            self._enter(lease)

    async def _drain(self, poller: PollerKey) -> None:
        task = self._work.begin(self._host.drain(poller), "drain")
        self._draining[poller] = self._clock.monotonic() + self._settings.drain_seconds, task
        await asyncio.wait([task])
        self._draining.pop(poller, None)
        if self._closed:
            return
        if task.cancelled():
            _LOG.warning("%s was cut off", poller, extra={"action": "poller-cut-off", "poller": str(poller)})
        elif (error := task.exception()) is not None:
            action = {"action": "poller-undrained", "poller": str(poller)}
            _LOG.error("%s could not be drained", poller, exc_info=error, extra=action)
        lease, position = self._leases[poller], self._position(poller)
        lease = lease.drained(position=position, at_most=self._at_most(lease, position))
        self._enter(lease)
        if lease.phase is Phase.RELEASING:
            # `drained` has begun the release already, so only its poller is named.
            self._writes.put(poller.client_id, lambda: poller)

    def _set_lagging(self, poller: PollerKey) -> PollerKey | None:
        lease = self._markable(poller)
        if lease is None:
            return None
        position = self._position(poller)
        return self._begun(lease.set_lagging(position=position, at_most=self._at_most(lease, position)))

    def _clear_lagging(self, poller: PollerKey) -> PollerKey | None:
        lease = self._markable(poller)
        if lease is not None and lease.row.lagging and self._low_watermarks.may_count(self._position(poller)):
            return self._begun(lease.clear_lagging())
        return None

    def _markable(self, poller: PollerKey) -> Lease | None:
        lease = self._leases.get(poller)
        return lease if lease is not None and lease.phase is Phase.HELD and self._members.trusted() else None


def _keep(pollers: dict[PollerKey, None], poller: PollerKey, kept: bool) -> None:
    if kept:
        pollers[poller] = None
    else:
        pollers.pop(poller, None)
