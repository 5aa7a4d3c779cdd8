"""In-memory stores for membership, and one process's port to them with faults.

`MembershipStore` holds the data and answers at once. `StorePort` is one process's access: every request takes a little
virtual time, and a hook may make it fail.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from membership.conditional import APPLIED, Answer, Rejected, Unknown
from membership.errors import StoreUnavailable
from membership.identity import NodeIncarnation, PollerKey
from membership.ports import Heartbeat, IncarnationRecord, LeaseChange, LeaseRow, MachineClock, ServerTime
from tests.support.virtual_clock import EPOCH_MS

T = TypeVar("T")


class Fault(Enum):
    """What can happen to a request."""

    REFUSED = "refused"
    """It has no effect; the caller gets no answer."""
    ANSWER_LOST = "answer lost"
    """It takes effect; the caller gets no answer."""
    LATE = "late"
    """The caller gets no answer; it takes effect `LATE_SECONDS` later."""
    HANGS = "hangs"
    """It has no effect; there is no answer for `HANG_SECONDS`."""


LATE_SECONDS = 1.5
HANG_SECONDS = 3.0

FaultHook = Callable[[str, object], Fault | None]


class MembershipStore:
    """`MemberStore` and `LeaseStore` in memory. Linearizable: every call ends before the next begins."""

    def __init__(self) -> None:
        self.heartbeats: dict[NodeIncarnation, Heartbeat] = {}
        self.incarnations: dict[NodeIncarnation, IncarnationRecord] = {}
        self.leases: dict[PollerKey, LeaseRow] = {}
        self.pollers: dict[str, list[PollerKey]] = {}
        self.requests: dict[str, int] = {}
        self.server_skews_ms = [0]
        """The error of each server's clock."""

    def server_time(self) -> ServerTime:
        server = self.requests["read_server_clock"] % len(self.server_skews_ms)
        now = asyncio.get_running_loop().time()
        return ServerTime(f"s{server}", int(EPOCH_MS + now * 1000.0) + self.server_skews_ms[server])

    def write_heartbeat(self, heartbeat: Heartbeat) -> None:
        old = self.heartbeats.get(heartbeat.incarnation)
        if old is None or heartbeat.beat >= old.beat:
            self.heartbeats[heartbeat.incarnation] = heartbeat

    def begin_incarnation(self, incarnation: NodeIncarnation) -> Answer[IncarnationRecord]:
        if incarnation in self.incarnations:
            return Rejected(self.incarnations[incarnation])
        self.incarnations[incarnation] = IncarnationRecord(incarnation, alive=True, renewals=0)
        return APPLIED

    def change_incarnation(
        self, incarnation: NodeIncarnation, renewals: int, new: IncarnationRecord
    ) -> Answer[IncarnationRecord | None]:
        record = self.incarnations.get(incarnation)
        if record != IncarnationRecord(incarnation, alive=True, renewals=renewals):
            return Rejected(record)
        self.incarnations[incarnation] = new
        return APPLIED

    def create_pollers(self, pollers: Sequence[PollerKey], *, watermark: int) -> None:
        for poller in pollers:
            if poller not in self.leases:
                self.leases[poller] = LeaseRow(poller=poller, owner=None, epoch=0, watermark=watermark, lagging=True)
                self.pollers[poller.client_id] = sorted([*self.pollers.get(poller.client_id, ()), poller])

    def write_lease(self, expected: LeaseRow, new: LeaseRow) -> Answer[LeaseRow | None]:
        if (row := self.leases.get(expected.poller)) != expected:
            return Rejected(row)
        self.leases[new.poller] = new
        return APPLIED

    def write_leases(self, changes: Sequence[LeaseChange]) -> Answer[None]:
        if any(self.leases.get(expected.poller) != expected for expected, _ in changes):
            return Rejected(None)
        for _, new in changes:
            self.leases[new.poller] = new
        return APPLIED


@dataclass(slots=True)
class StorePort:
    """One process's access to the store. It waits by that process's clock, so a paused process receives no answer."""

    store: MembershipStore
    clock: MachineClock
    fault: FaultHook = lambda name, subject: None
    away: bool = False
    travel_seconds: float = 0.002

    async def write_heartbeat(self, heartbeat: Heartbeat) -> None:
        await self._request("write_heartbeat", heartbeat, lambda: self.store.write_heartbeat(heartbeat))

    async def read_heartbeats(self) -> Sequence[Heartbeat]:
        return await self._request("read_heartbeats", None, lambda: list(self.store.heartbeats.values()))

    async def read_server_clock(self) -> ServerTime:
        return await self._request("read_server_clock", None, self.store.server_time)

    async def begin_incarnation(self, incarnation: NodeIncarnation) -> Answer[IncarnationRecord]:
        return await self._conditional(
            "begin_incarnation", incarnation, lambda: self.store.begin_incarnation(incarnation)
        )

    async def renew_incarnation(
        self, incarnation: NodeIncarnation, *, renewals: int
    ) -> Answer[IncarnationRecord | None]:
        new = IncarnationRecord(incarnation, alive=True, renewals=renewals + 1)
        return await self._conditional(
            "renew_incarnation", incarnation, lambda: self.store.change_incarnation(incarnation, renewals, new)
        )

    async def declare_dead(self, incarnation: NodeIncarnation, *, renewals: int) -> Answer[IncarnationRecord | None]:
        new = IncarnationRecord(incarnation, alive=False, renewals=renewals)
        return await self._conditional(
            "declare_dead", incarnation, lambda: self.store.change_incarnation(incarnation, renewals, new)
        )

    async def read_incarnation(self, incarnation: NodeIncarnation) -> IncarnationRecord | None:
        return await self._request("read_incarnation", incarnation, lambda: self.store.incarnations.get(incarnation))

    async def create_pollers(self, pollers: Sequence[PollerKey], *, watermark: int) -> None:
        await self._request("create_pollers", pollers, lambda: self.store.create_pollers(pollers, watermark=watermark))

    async def read_leases(self, client_id: str) -> Sequence[LeaseRow]:
        def read() -> Sequence[LeaseRow]:
            return [self.store.leases[poller] for poller in self.store.pollers.get(client_id, ())]

        return await self._request("read_leases", client_id, read)

    async def read_lease(self, poller: PollerKey) -> LeaseRow | None:
        return await self._request("read_lease", poller, lambda: self.store.leases.get(poller))

    async def write_lease(self, *, expected: LeaseRow, new: LeaseRow) -> Answer[LeaseRow | None]:
        return await self._conditional("write_lease", new, lambda: self.store.write_lease(expected, new))

    async def write_leases(self, changes: Sequence[LeaseChange]) -> Answer[None]:
        """Faults are drawn for each poller, as for single writes; the first one decides."""
        faults = (self.fault("write_lease", change.new) for change in changes)
        fault = next((one for one in faults if one is not None), None)
        return await self._conditional("write_leases", changes, lambda: self.store.write_leases(changes), fault)

    async def _conditional(
        self, name: str, subject: object, apply: Callable[[], Answer[T]], fault: Fault | None = None
    ) -> Answer[T]:
        try:
            return await self._request(name, subject, apply, fault)
        except StoreUnavailable as error:
            return Unknown(str(error))

    async def _request(self, name: str, subject: object, apply: Callable[[], T], fault: Fault | None = None) -> T:
        self.store.requests[name] = self.store.requests.get(name, 0) + 1
        fault = Fault.REFUSED if self.away else fault or self.fault(name, subject)
        await self.clock.sleep(self.travel_seconds)
        if fault is Fault.HANGS:
            await self.clock.sleep(HANG_SECONDS)
        if fault is Fault.LATE:
            asyncio.get_running_loop().call_later(LATE_SECONDS, apply)
        if fault not in (None, Fault.ANSWER_LOST):
            raise StoreUnavailable(f"{name}: {fault.value}")
        result = apply()
        await self.clock.sleep(self.travel_seconds)
        if fault is Fault.ANSWER_LOST or self.away:
            raise StoreUnavailable(f"{name}: answer lost")
        return result
