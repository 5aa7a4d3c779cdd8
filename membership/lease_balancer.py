"""Decides which leases this node takes and which it releases: those hinted to it, and all others.

Nothing is written for a poller while its owner does not change, and nothing is read for a poller that is held. A
client's leases are read while pollers hinted here are not held yet: once a round, less often if nothing can be taken.
"""

import logging
from collections.abc import Mapping
from functools import partial
from itertools import islice
from statistics import median_low

from membership.errors import StoreUnavailable
from membership.identity import NodeId, NodeIncarnation, PollerKey
from membership.lease_table import LeaseTable, Members
from membership.ports import Credibility, LeaseStore, NodeState, PollerHost, Spawn, WallClock
from membership.rendezvous import HintTable
from membership.settings import MembershipSettings
from membership.signal import Notifier, Signal
from membership.work import BoundedQueue, Work

_LOG = logging.getLogger(__name__)
_SAMPLE = 1_000


class LeaseBalancer:
    """A service. Stop it before its `MembershipAgent`; a planned stop calls `release_all` first, which hands the
    pollers over."""

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
        spawn: Spawn,
    ) -> None:
        self._incarnation = incarnation
        self._members = members
        self._store = store
        self._host = host
        self._clock = clock
        self._settings = settings
        self._work = Work(clock=clock, spawn=spawn, name="balancer")
        self._wake = Signal(clock)
        self._changed = Notifier()
        self._hints = HintTable()
        self._counts: dict[str, int] = {}
        self._missing: dict[str, dict[PollerKey, None]] = {}
        self._read_after: dict[str, float] = {}
        self._in_vain: dict[str, int] = {}
        self._reading: dict[str, None] = {}
        self._without_row: dict[PollerKey, None] = {}
        self._reads = BoundedQueue(width=settings.max_concurrent_lease_reads, work=self._work, what="leases")
        self._lease_table = LeaseTable(
            incarnation=incarnation,
            members=members,
            store=store,
            host=host,
            credibility=credibility,
            clock=clock,
            settings=settings,
            work=self._work,
            wanted=self._wanted,
            gone=self._not_ours,
        )
        self._free: frozenset[NodeIncarnation] = frozenset()
        self._rehinted = False
        self._leaving = False
        self._marked_at = clock.monotonic()
        self._stopped = False
        members.listen(self._heard)

    def set_pollers(self, pollers_by_client: Mapping[str, int]) -> None:
        """Replace the number of pollers (poller_ceiling) of every client; a client that is missing has none."""
        for client_id in sorted(self._counts.keys() | pollers_by_client.keys()):
            old, new = self._counts.get(client_id, 0), pollers_by_client.get(client_id, 0)
            if new != old:
                self._hints.add(PollerKey(client_id, number) for number in range(old, new))
                self._hints.remove(PollerKey(client_id, number) for number in range(new, old))
                self._rehinted = True
        self._counts = dict(pollers_by_client)
        if self._rehinted:
            self._wake.set()

    def leases(self) -> Mapping[PollerKey, int]:
        """The epoch of every poller that the host was granted and that was not revoked."""
        return {lease.row.poller: lease.row.epoch for lease in self._lease_table.granted()}

    @property
    def known(self) -> int:
        """How many pollers there are, with or without an owner."""
        return sum(self._counts.values())

    @property
    def takeovers(self) -> int:
        """Pollers taken so far from incarnations that had not handed them over."""
        return self._lease_table.takeovers

    def hint_of(self, poller: PollerKey) -> NodeId | None:
        """The node that should hold the poller, as far as this one knows. A hint gives no right."""
        return self._hints.hint_of(poller)

    def suspect(self, poller: PollerKey, *, epoch: int) -> None:
        """A write of the host under `epoch` was rejected by a higher epoch: stop acting for the poller until its owner
        is known.

        Ignored when the poller is no longer held under `epoch`.
        """
        self._lease_table.suspect(poller, epoch=epoch)

    def low_watermark(self) -> int | None:
        """The low watermark for the heartbeat about to be sent. The value counts as sent from now on."""
        return self._lease_table.low_watermark()

    async def start(self) -> None:
        """Begin the rounds. Pollers are taken as soon as the members are known."""
        self._work.begin(self._run(), "rounds")

    async def release_all(self) -> None:
        """Drain and release everything and take nothing more. Returns when all pollers are released, after
        `drain_seconds + leave_seconds`, or at `take_again`."""
        self._leaving = True
        self._rehinted = True
        self._members.set_state(NodeState.DRAINING)
        self._round()
        bound = self._settings.drain_seconds + self._settings.leave_seconds
        if not await self._work.within(bound, self._emptied(), "emptied"):
            _LOG.warning(
                "%d pollers were not released in time", len(self._lease_table), extra={"action": "release-cut-off"}
            )

    def take_again(self) -> None:
        """Undo `release_all`, also while it runs. Releases under way complete; then those pollers are taken again."""
        self._leaving = False
        self._rehinted = True
        self._members.set_state(NodeState.LIVE)
        self._changed.notify()
        self._wake.set()

    async def stop(self) -> None:
        """Revoke what is still held. Returns when nothing started under those leases can reach the wire any more."""
        if not self._stopped:
            self._stopped = True
            if self._lease_table.forget():
                await self._clock.sleep(self._settings.send_margin_seconds)
        await self._work.close()

    async def _emptied(self) -> None:
        while self._leaving and self._members.over is None and len(self._lease_table):
            await self._changed.wait()

    async def _run(self) -> None:
        while not self._stopped and self._members.over is None:
            self._round()
            await self._wake.wait(self._settings.beat_seconds)

    def _heard(self) -> None:
        if self._members.over is not None:
            if not self._stopped:
                self._stopped = True
                self._lease_table.forget()
                self._changed.notify()
            self._wake.set()
            return
        view = self._members.view
        # A draining state alone gives up no poller, since the drain may still be refused: only `release_all` does, and
        # a clock that is off.
        stays = not self._leaving and not self._members.clock_is_off
        if self._hints.set_nodes(view.hint_weights(staying=self._incarnation if stays else None)):
            self._rehinted = True
        if view.free != self._free:
            self._free = view.free
            self._read_after.clear()
            self._wake.set()
        if self._rehinted:
            self._wake.set()

    def _wanted(self, poller: PollerKey) -> bool:
        return not self._leaving and self._hints.hint_of(poller) == self._incarnation.node_id

    def _not_ours(self, poller: PollerKey) -> None:
        if self._wanted(poller):
            self._missing.setdefault(poller.client_id, {})[poller] = None
        self._changed.notify()

    def _round(self) -> None:
        if self._rehinted:
            self._rehinted = False
            self._read_after.clear()
            self._in_vain.clear()
            self._find_missing()
            self._lease_table.release_unwanted()
        self._lease_table.cut_off()
        self._lease_table.settle()
        if self._members.trusted():
            self._look()
            self._mark()

    def _find_missing(self) -> None:
        self._missing = {}
        for poller in () if self._leaving else self._hints.pollers_of(self._incarnation.node_id):
            if poller not in self._lease_table:
                self._missing.setdefault(poller.client_id, {})[poller] = None

    def _look(self) -> None:
        """Read the leases of clients with missing pollers, those that have waited longest first."""
        now = self._clock.monotonic()
        waiting = [
            (after, client_id)
            for client_id in self._missing
            if client_id not in self._reading and (after := self._read_after.get(client_id, 0.0)) <= now
        ]
        for _, client_id in sorted(waiting)[: self._settings.lease_reads_per_round]:
            self._reading[client_id] = None
            self._reads.put(partial(self._read, client_id))

    async def _read(self, client_id: str) -> None:
        try:
            rows = {row.poller: row for row in await self._store.read_leases(client_id)}
        except StoreUnavailable as error:
            _LOG.debug("could not read leases: %s", error, extra={"action": "leases-unread", "client_id": client_id})
            return
        finally:
            self._reading.pop(client_id, None)
        if self._stopped or not self._members.trusted():
            return
        missing = self._missing.pop(client_id, {})
        left: dict[PollerKey, None] = {}
        for poller in missing:
            row = rows.get(poller)
            if not self._wanted(poller) or poller in self._lease_table:
                continue
            if row is None:
                self._tell_missing_row(poller)
            if row is None or not self._lease_table.offer(row):
                left[poller] = None
        if left:
            self._missing.setdefault(client_id, {}).update(left)
        fruitless = len(left) == len(missing)
        self._in_vain[client_id] = self._in_vain.get(client_id, 0) + 1 if fruitless else 0
        patient = self._in_vain[client_id] <= self._settings.patience_rounds
        self._read_after[client_id] = self._clock.monotonic() + (0.0 if patient else self._settings.fruitless_seconds)

    def _tell_missing_row(self, poller: PollerKey) -> None:
        if poller not in self._without_row:
            self._without_row[poller] = None
            _LOG.error(
                "%s has no lease row, so its low watermark is unknown and it is not served. Register its client again.",
                poller,
                extra={"action": "lease-row-missing", "poller": str(poller)},
            )

    def _mark(self) -> None:
        """Once no lease is being written: flag the pollers that lag behind the median, unflag those that caught up."""
        now = self._clock.monotonic()
        if self._lease_table.busy or now - self._marked_at < self._settings.mark_round_seconds:
            return
        self._marked_at = now
        step = max(len(self._lease_table) // _SAMPLE, 1)
        sample = [self._host.position(lease.row.poller) for lease in islice(self._lease_table.granted(), 0, None, step)]
        if sample:
            self._lease_table.mark(median_low(sample))
