"""The leases of one life: carries out their moves, and tells the host what came of them.

`_enter` is the one place where a lease changes: there the host hears of it and the floor learns what counts. What is to
be done about a lane, and when, is the keeper's to say.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from membership.conditional import APPLIED, Answer, Applied, Rejected, Unknown
from membership.errors import StoreUnavailable
from membership.floors import Floors
from membership.identity import Lane, Life
from membership.lease import Lease, Phase, start_of
from membership.ports import LaneHost, LeaseChange, LeaseRow, LeaseStore, NodeState, WallClock
from membership.settings import MembershipSettings
from membership.view import MembersView
from membership.work import Grouped, Narrow, Work

_LOG = logging.getLogger(__name__)

Begin = Callable[[], Lane | None]
"""Begins a write of a lease just before it is sent; None when there is nothing to write any more."""


class Members(Protocol):
    """What the keeper of the leases needs of a `Heartbeater`."""

    over: str | None

    @property
    def clock_is_off(self) -> bool: ...

    @property
    def view(self) -> MembersView: ...

    def trusted(self) -> bool: ...

    def listen(self, listener: Callable[[], None]) -> None: ...

    def watch(self, life: Life) -> None: ...

    def set_state(self, state: NodeState) -> None: ...


class Custody:
    """`wanted(lane)`: whether this life should hold it. `gone(lane)` is called when it is not, or no longer, ours."""

    def __init__(
        self,
        *,
        life: Life,
        members: Members,
        store: LeaseStore,
        host: LaneHost,
        clock: WallClock,
        settings: MembershipSettings,
        work: Work,
        wanted: Callable[[Lane], bool],
        gone: Callable[[Lane], None],
    ) -> None:
        self._life = life
        self._members = members
        self._store = store
        self._host = host
        self._clock = clock
        self._settings = settings
        self._work = work
        self._wanted = wanted
        self._gone = gone
        self.takeovers = 0
        """Lanes taken from lives that had not handed them over."""
        self._leases: dict[Lane, Lease] = {}
        self._queued: dict[Lane, None] = {}
        self._doubtful: dict[Lane, None] = {}
        self._settling: dict[Lane, None] = {}
        self._lagging: dict[Lane, None] = {}
        self._draining: dict[Lane, tuple[float, asyncio.Task[None]]] = {}
        self._floors = Floors()
        self._closed = False
        size = settings.lanes_per_lease_write
        self._writes: Grouped[Begin] = Grouped(
            width=settings.max_concurrent_lease_writes, size=size, perform=self._write_together, work=work, what="lease"
        )
        self._marks: Grouped[Begin] = Grouped(
            width=settings.max_concurrent_mark_writes, size=size, perform=self._write_together, work=work, what="mark"
        )
        self._settles = Narrow(width=settings.max_concurrent_lease_writes, work=work, what="settle")
        self._drains = Narrow(width=settings.max_concurrent_drains, work=work, what="drain")

    def __len__(self) -> int:
        return len(self._leases)

    def __contains__(self, lane: object) -> bool:
        """Whether the lane is, may be, or is about to become ours."""
        return lane in self._leases or lane in self._queued

    def granted(self) -> Iterator[Lease]:
        """The leases that the host was given and not yet asked to forget."""
        return (lease for lease in self._leases.values() if lease.granted)

    @property
    def busy(self) -> bool:
        """Whether leases are being written."""
        return not (self._writes.idle and self._marks.idle and self._settles.idle)

    def floor(self) -> int | None:
        """The floor for a heartbeat about to be sent."""
        floor = self._floors.send(self._position)
        return None if floor is None else self._host.credible_floor(floor)

    def offer(self, row: LeaseRow) -> bool:
        """A wanted lane's row: take it if its owner has released it or is gone. True if something is done about it."""
        if row.owner == self._life:
            self._enter(Lease.found(row, life=self._life))
        elif self._takeable(row):
            self._queued[row.lane] = None
            self._writes.put(row.lane.client_id, partial(self._take, row))
        else:
            if row.owner is not None and row.owner not in self._members.view.heartbeats:
                self._members.watch(row.owner)
            return False
        return True

    def let_go(self) -> None:
        """Start to release every held lane that is not wanted any more."""
        for lease in [x for x in self._leases.values() if x.phase is Phase.HELD and not self._wanted(x.row.lane)]:
            self._enter(lease.drain())

    def suspect(self, lane: Lane, *, epoch: int) -> None:
        """The host's writes under `epoch` are being refused. Passed over when the lane is held under another one."""
        lease = self._leases.get(lane)
        if lease is not None and lease.granted and lease.row.epoch == epoch and not lease.in_doubt:
            _LOG.debug("%s may be lost", lane, extra={"action": "lease-suspect", "lane": str(lane), "epoch": epoch})
            self._enter(lease.suspect())

    def cut_off(self) -> None:
        """End the drains that take too long."""
        now = self._clock.monotonic()
        for deadline, task in self._draining.values():
            if deadline <= now:
                task.cancel()

    def settle(self) -> None:
        """Read every doubtful lane, and get it out of doubt."""
        for lane in self._doubtful:
            if lane not in self._settling:
                self._settling[lane] = None
                self._settles.put(partial(self._settle, lane))

    def mark(self, reference: int) -> None:
        """Write the flags and watermarks that are due. `reference` is where most lanes are."""
        for lane in self._floors.below(reference - self._settings.lag_marks, self._position):
            self._marks.put(lane.client_id, partial(self._set_lagging, lane))
        for lane in self._lagging:
            position = self._position(lane)
            moved = position - self._leases[lane].row.watermark
            if position >= reference - 1 and self._floors.may_count(position):
                self._marks.put(lane.client_id, partial(self._clear_lagging, lane))
            elif moved >= self._settings.watermark_marks:
                self._marks.put(lane.client_id, partial(self._set_lagging, lane))

    def forget(self) -> bool:
        """The life is over, or stops: every lane is revoked. True when the host was acting for one. Final."""
        self._closed = True
        for queue in (self._writes, self._marks, self._settles, self._drains):
            queue.clear()
        granted = [lease.row.lane for lease in self.granted()]
        for lane in self._leases:
            self._floors.discount(lane)
        for table in (self._leases, self._queued, self._doubtful, self._settling, self._lagging):
            table.clear()
        for lane in granted:
            self._host.revoked(lane)
        return bool(granted)

    def _position(self, lane: Lane) -> int:
        lease = self._leases[lane]
        return self._host.position(lane) if lease.granted else lease.mark

    def _takeable(self, row: LeaseRow) -> bool:
        return row.owner is None or row.owner in self._members.view.free

    def _start(self, row: LeaseRow) -> int:
        floor = None if row.owner is None else self._members.view.floor_of(row.owner)
        start = start_of(row, owners_floor=floor)
        return min(start, self._host.credible(row.lane, start))

    def _at_most(self, lease: Lease, position: int) -> int:
        """The latest mark that may be recorded for a lane that has come to `position`."""
        return self._host.credible(lease.row.lane, max(position, lease.row.watermark))

    def _enter(self, lease: Lease) -> None:
        lane, phase = lease.row.lane, lease.phase
        before = self._leases.get(lane)
        was_granted = before is not None and before.granted
        if lease.counted and lane not in self._floors:
            self._floors.count(lane, position=self._position(lane))
        if phase is Phase.GONE:
            self._leases.pop(lane, None)
        else:
            self._leases[lane] = lease
        if not lease.counted:
            self._floors.discount(lane)
        _keep(self._doubtful, lane, phase is Phase.DOUBTFUL)
        _keep(self._lagging, lane, phase is Phase.HELD and lease.row.lagging)
        if lease.granted and not was_granted:
            self._host.granted(lane, epoch=lease.row.epoch, start=lease.row.watermark)
        elif was_granted and not lease.granted:
            self._host.revoked(lane)
        _LOG.debug("%s: %s", lane, phase.value, extra={"action": f"lease-{phase.value}", "lane": str(lane)})
        match phase:
            case Phase.GONE:
                self._host.gone(lane)
                self._gone(lane)
            case Phase.HELD if not self._wanted(lane):
                self._enter(lease.drain())
            case Phase.DRAINING if before is None or before.phase is not Phase.DRAINING:
                self._drains.put(partial(self._drain, lane))
            case _:
                pass

    def _take(self, row: LeaseRow) -> Lane | None:
        self._queued.pop(row.lane, None)
        if self._wanted(row.lane) and self._members.trusted() and self._takeable(row):
            self.takeovers += row.owner is not None
            return self._begun(Lease.take(row, life=self._life, start=self._start(row)))
        self._gone(row.lane)
        return None

    def _begun(self, lease: Lease) -> Lane:
        self._enter(lease)
        return lease.row.lane

    async def _write_together(self, items: list[Begin]) -> None:
        """One conditional write for lanes of one client. Should one of them stand in the way, each goes by itself."""
        lanes = [lane for begin in items if (lane := begin()) is not None]
        if len(lanes) > 1:
            answer = await self._send_together(lanes)
            if self._closed or not isinstance(answer, Rejected):
                return
        for lane in lanes:
            await self._send(lane)
            if self._closed:
                return

    async def _send_together(self, lanes: list[Lane]) -> Answer[None]:
        leases = [self._leases[lane] for lane in lanes]
        changes = [LeaseChange(expected=lease.row, new=lease.under_way) for lease in leases]
        try:
            answer = await self._store.write_leases(changes)
        except StoreUnavailable as error:
            answer = Unknown(str(error))
        match answer:
            case Applied():
                for lane in () if self._closed else lanes:
                    self._enter(self._leases[lane].answered(APPLIED))
            case Unknown():
                for lane in () if self._closed else lanes:
                    self._answered(lane, answer)
            case Rejected():
                pass
        return answer

    async def _write(self, lease: Lease) -> None:
        self._enter(lease)
        await self._send(lease.row.lane)

    async def _send(self, lane: Lane) -> None:
        """Write what the lease has under way, and take in the answer."""
        lease = self._leases[lane]
        answer: Answer[LeaseRow | None]
        try:
            answer = await self._store.write_lease(expected=lease.row, new=lease.under_way)
        except StoreUnavailable as error:
            answer = Unknown(str(error))
        if not self._closed:
            self._answered(lane, answer)

    def _answered(self, lane: Lane, answer: Answer[LeaseRow | None]) -> None:
        # As the lease is now: it may have been suspected while the write was under way.
        lease = self._leases[lane]
        if isinstance(answer, Unknown):
            _LOG.debug(
                "%s in doubt while %s: %s",
                *(lane, lease.phase.value, answer.reason),
                extra={"action": "lease-unknown", "lane": str(lane), "epoch": lease.under_way.epoch},
            )
        self._enter(lease.answered(answer))

    async def _settle(self, lane: Lane) -> None:
        try:
            row = await self._store.read_lease(lane)
        except StoreUnavailable:
            return
        finally:
            self._settling.pop(lane, None)
        if self._closed:
            return
        lease = self._leases[lane].read(row)
        if lease.phase is not Phase.DOUBTFUL:
            self._enter(lease)
        elif not self._wanted(lane):
            at_most = self._at_most(lease, lease.mark)
            await self._write(lease.release(at_most=at_most)) if lease.ours else self._enter(lease)
        elif self._members.trusted() and (lease.ours or self._takeable(lease.row)):
            start = lease.row.watermark if lease.ours else self._start(lease.row)
            await self._write(lease.take_again(start=start, at_most=self._at_most(lease, max(start, lease.mark))))
        else:
            self._enter(lease)

    async def _drain(self, lane: Lane) -> None:
        task = self._work.begin(self._host.drain(lane), "drain")
        self._draining[lane] = self._clock.monotonic() + self._settings.drain_seconds, task
        await asyncio.wait([task])
        self._draining.pop(lane, None)
        if self._closed:
            return
        if task.cancelled():
            _LOG.warning("%s was cut off", lane, extra={"action": "lane-cut-off", "lane": str(lane)})
        elif (error := task.exception()) is not None:
            action = {"action": "lane-undrained", "lane": str(lane)}
            _LOG.error("%s could not be drained", lane, exc_info=error, extra=action)
        lease, position = self._leases[lane], self._position(lane)
        lease = lease.drained(position=position, at_most=self._at_most(lease, position))
        self._enter(lease)
        if lease.phase is Phase.RELEASING:
            self._writes.put(lane.client_id, lambda: lane)

    def _set_lagging(self, lane: Lane) -> Lane | None:
        lease = self._markable(lane)
        if lease is None:
            return None
        position = self._position(lane)
        return self._begun(lease.set_lagging(position=position, at_most=self._at_most(lease, position)))

    def _clear_lagging(self, lane: Lane) -> Lane | None:
        lease = self._markable(lane)
        if lease is not None and lease.row.lagging and self._floors.may_count(self._position(lane)):
            return self._begun(lease.clear_lagging())
        return None

    def _markable(self, lane: Lane) -> Lease | None:
        lease = self._leases.get(lane)
        return lease if lease is not None and lease.phase is Phase.HELD and self._members.trusted() else None


def _keep(lanes: dict[Lane, None], lane: Lane, kept: bool) -> None:
    if kept:
        lanes[lane] = None
    else:
        lanes.pop(lane, None)
