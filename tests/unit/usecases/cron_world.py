"""Crons over a store in memory: those who change them and those who expand them, an actor between two requests, and
requests that are refused or whose answers get lost.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from cql.connection import AnswerRows, Consistency, Item, Parameters
from cql.memory.connection import InMemoryConnection
from cql.storage import Storage
from membership.conditional import Answer, Unknown
from membership.errors import StoreUnavailable
from membership.identity import PollerKey
from scheduler_service.domain.clients import Client, ClientSettings, ClientState
from scheduler_service.domain.crons.row import CRON_CLIENT, Cron, CronCallback, CronOptions, CronRun
from scheduler_service.domain.ids import DAY_MS, ClientId, CronId, UnixMillis, key_of, minute_of, partition_of
from scheduler_service.domain.schedules import Definition, Row
from scheduler_service.usecases.authenticate import Catalog
from scheduler_service.usecases.cancel_schedules import CancelSchedules
from scheduler_service.usecases.cron_request import CronDraft
from scheduler_service.usecases.crons import ChangeCrons
from scheduler_service.usecases.expand_crons import ExpandCrons
from scheduler_service.usecases.resolve_schedule import ResolveSchedule
from scheduler_service.usecases.schedule_writer import ScheduleWriter
from scheduler_service.usecases.secret_encryption import NoEncryption
from scheduler_service.usecases.trigger_crons import TriggerCron
from tests.support.api import NOW, ManualClock, RecordedHints, SeededRandomness
from tests.support.crons import tell_nobody

SHOP = ClientId("shop")
TICK = CronId("tick")
CALLBACK = CronCallback(method="POST", url="https://receiver.example/hook", headers="[]", body=b"payload")


class Unreliable(InMemoryConnection):
    """`before` acts once before the next request whose name begins so. `faults`: what happens to the next requests
    whose names begin so, one after another: "" (nothing), "refuse", "lose" (it is applied, the answer is lost), or for
    conditional writes "accepted" and "queued": no answer, and it is applied later. The next conditional write or serial
    read applies accepted ones; `arrive` applies queued ones.
    """

    def __init__(self) -> None:
        super().__init__()
        self.before: dict[str, Callable[[], Awaitable[object]]] = {}
        self.faults: dict[str, list[str]] = {}
        self.asked: list[str] = []
        self._later: dict[str, list[Sequence[Item]]] = {"accepted": [], "queued": []}

    async def arrive(self, kind: str = "queued") -> None:
        late, self._later[kind] = self._later[kind], []
        for items in late:
            await super().conditional(items)

    async def select(
        self, name: str, parameters: Parameters, *, serial: bool = False, consistency: Consistency = "LOCAL_QUORUM"
    ) -> list[tuple[Any, ...]]:
        fault = await self._begin(name)
        if serial:
            await self.arrive("accepted")
        rows = await super().select(name, parameters, serial=serial, consistency=consistency)
        _lose(fault)
        return rows

    async def write(self, name: str, parameters: Parameters, *, consistency: Consistency = "LOCAL_QUORUM") -> None:
        fault = await self._begin(name)
        await super().write(name, parameters, consistency=consistency)
        _lose(fault)

    async def write_batch(self, items: Sequence[Item], *, consistency: Consistency = "LOCAL_QUORUM") -> None:
        fault = await self._begin(items[0][0])
        await super().write_batch(items, consistency=consistency)
        _lose(fault)

    async def conditional(self, items: Sequence[Item]) -> Answer[AnswerRows]:
        try:
            fault = await self._begin(items[0][0])
            await self.arrive("accepted")
            if fault in self._later:
                self._later[fault].append(items)
                return Unknown("it may be applied yet")
            answer = await super().conditional(items)
            _lose(fault)
        except StoreUnavailable as error:
            return Unknown(str(error))
        return answer

    async def _begin(self, name: str) -> str:
        self.asked.append(name)
        for prefix in [prefix for prefix in self.before if name.startswith(prefix)]:
            await self.before.pop(prefix)()
        for prefix, coming in self.faults.items():
            if name.startswith(prefix) and coming:
                fault = coming.pop(0)
                if fault == "refuse":
                    raise StoreUnavailable("refused")
                return fault
        return ""


def _lose(fault: str) -> None:
    if fault == "lose":
        raise StoreUnavailable("the answer was lost")


class CronWorld:
    """The use cases. `remembered` is the expanding process's copy of the clients."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.connection = Unreliable()
        self.storage = Storage.over(self.connection)
        self.remembered: dict[ClientId, Client] = {}
        self.faults: list[str] = []
        self.placed: list[tuple[Definition, UnixMillis, UnixMillis]] = []
        """What was told of placed fires."""
        randomness = SeededRandomness()
        self.writer = ScheduleWriter(
            schedules=self.storage.schedules,
            keys=self.storage.schedule_keys,
            leases=self.storage.leases,
            clock=self.clock,
            randomness=randomness,
            hints=RecordedHints(),
        )
        self.resolve = ResolveSchedule(schedules=self.storage.schedules, writer=self.writer)
        self.cancel = CancelSchedules(
            schedules=self.storage.schedules, writer=self.writer, clock=self.clock, has_feed=lambda client_id: False
        )
        self.change, self.expand = self._process(self.storage)
        self.trigger = TriggerCron(crons=self.storage.crons, writer=self.writer, clock=self.clock)
        self.others = Storage.over(self.connection)
        self.others_change, self.others_expand = self._process(self.others)
        self.others_trigger = TriggerCron(crons=self.others.crons, writer=self.writer, clock=self.clock)

    def _process(self, storage: Storage) -> tuple[ChangeCrons, ExpandCrons]:
        """The background work of one process. Each process has separate queues."""
        change = ChangeCrons(
            crons=storage.crons,
            catalog=Catalog(store=storage.clients, clock=self.clock),
            writer=self.writer,
            encryption=NoEncryption(),
            clock=self.clock,
        )
        expand = ExpandCrons(
            crons=storage.crons,
            clients=storage.clients,
            known=self.remembered.get,
            writer=self.writer,
            resolve=self.resolve,
            cancel=self.cancel,
            clock=self.clock,
            on_fault=lambda what, error: self.faults.append(what),
            missed=tell_nobody,
            placed=lambda fires, began, ended: self.placed.extend((fire, began, ended) for fire in fires),
        )
        return change, expand

    async def close(self) -> None:
        await self.storage.close()
        await self.others.close()

    async def begin(self) -> Client:
        await self.add_client(CRON_CLIENT, quota=4)
        return await self.add_client(SHOP, quota=2)

    async def add_client(self, client_id: ClientId, *, quota: int) -> Client:
        client = Client(
            client_id=client_id,
            poller_quota=quota,
            poller_ceiling=quota,
            state=ClientState.ACTIVE,
            settings=ClientSettings(),
            revision=1,
            created_at=UnixMillis(NOW),
        )
        pollers = [PollerKey(client_id, poller) for poller in range(quota)]
        await self.storage.leases.create_pollers(pollers, watermark=minute_of(NOW))
        await self.storage.clients.create_client(client)
        return client

    async def changed(self, client: Client, **changes: Any) -> Client:
        changed = msgspec.structs.replace(client, revision=client.revision + 1, **changes)
        await self.storage.clients.update_client(expected_revision=client.revision, client=changed)
        return changed

    async def cron(self, cron_id: str = TICK) -> Cron:
        return (await self.storage.crons.read(SHOP, [CronId(cron_id)], serial=True))[CronId(cron_id)]

    async def runs(self, cron_id: str = TICK) -> list[CronRun]:
        return list(
            await self.storage.crons.read_runs(
                SHOP,
                CronId(cron_id),
                first=UnixMillis(self.clock.now - 30 * DAY_MS),
                last=UnixMillis(self.clock.now + 30 * DAY_MS),
                limit=10_000,
            )
        )

    async def rows(self, cron_id: str = TICK) -> dict[int, Row]:
        """Rows of its runs, by nominal instant."""
        return {run.nominal_due: row for run in await self.runs(cron_id) if (row := await self.row(run)) is not None}

    async def row(self, run: CronRun) -> Row | None:
        key = key_of(run.schedule_id)
        rows = await self.storage.schedules.find_rows(partition_of(SHOP, run.schedule_id), [key])
        return rows.get(key)

    def wake_ups(self, cron_id: str = TICK) -> list[int]:
        """Instants at which the cron is going to be examined."""
        label = f"{SHOP}/{cron_id}"
        rows = self.connection.rows("schedules")
        return sorted(row["due"] for row in rows if row["client_id"] == CRON_CLIENT and row["label"] == label)


def draft(expression: str = "* * * * *", **options: Any) -> CronDraft:
    return CronDraft(expression, "Etc/UTC", CALLBACK, CronOptions(**options))
