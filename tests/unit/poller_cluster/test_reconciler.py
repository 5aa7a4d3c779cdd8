"""Which reconciliations a node works on, how often it looks for them, and how fast it works."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from cql.memory.connection import InMemoryConnection
from cql.storage import Storage
from membership.errors import StoreUnavailable
from poller_cluster import reconciliation
from poller_cluster.clients import ServedClient
from poller_cluster.reconciliation import CHANGE_SEARCH_SECONDS, FULL_SEARCH_SECONDS, Reconciler
from poller_cluster.settings import ReconciliationSettings
from scheduler_service.domain.clients import Client, ClientSettings, ClientState
from scheduler_service.domain.ids import ClientId, Minute, PollerId, UnixMillis, minute_of
from scheduler_service.domain.reconciliations import (
    Action,
    Progress,
    Reconciliation,
    ReconciliationId,
    Slot,
    advanced,
    new_reconciliation_id,
)
from scheduler_service.domain.schedules import State
from scheduler_service.runtime.lifecycle import Tasks
from scheduler_service.usecases.reconcile import NotOurs, SliceDone
from tests.simulation.sim_clock import EPOCH_MS, SimClock
from tests.support.api import SeededRandomness
from tests.support.node_parts import GivenClients, GivenPollers, node_runtime
from tests.support.virtual_loop import run_virtual, virtual_loop

SHOP = ClientId("shop")


class Slices:
    """Replaces the use case: each slice is a minute of the window."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.done: list[tuple[float, ReconciliationId, float]] = []
        self.acted = 0
        self.lead_ms = 0
        self.errors: list[Exception] = []

    def may_begin(self, found: Reconciliation) -> bool:
        return True

    async def __call__(self, client: Client, found: Reconciliation, *, share: float, ours: Any, turn: Any) -> SliceDone:
        if self.errors:
            raise self.errors.pop(0)
        assert ours()
        now = asyncio.get_running_loop().time()
        self.done.append((now, found.reconciliation_id, share))
        minute = found.progress.minute + 1
        last = minute > minute_of(found.end - 1)
        stands = advanced(
            found,
            following=None if last else (type(found.progress.minute)(minute), None),
            seen={},
            outcomes={},
            lead=int(EPOCH_MS + now * 1000) + self.lead_ms,
            at=int(EPOCH_MS + now * 1000),
        )
        await self.storage.reconciliations.write(stands, expected_version=found.version)
        return SliceDone(stands, looked_at=500, acted=self.acted)


def held(pollers: Iterable[int]) -> dict[PollerId, Minute]:
    return dict.fromkeys(map(PollerId, pollers), Minute(0))


class Bench:
    def __init__(self, *, quota: int = 4) -> None:
        self.memory = InMemoryConnection()
        self.storage = Storage.over(self.memory)
        self.clock, self.randomness = SimClock(), SeededRandomness()
        self.reads: Counter[str] = Counter()
        self.trusted, self.pollers = True, GivenPollers(held(range(quota)))
        self.faults: list[str] = []
        self.tasks = Tasks(lambda name, error: self.faults.append(name))
        self.slices = Slices(self.storage)
        client = Client(
            client_id=SHOP,
            poller_quota=quota,
            poller_ceiling=quota,
            state=ClientState.ACTIVE,
            settings=ClientSettings(),
            revision=1,
            created_at=UnixMillis(0),
        )
        self.client: ServedClient | None = ServedClient(client, client.settings, ())
        select = self.memory.select

        async def counted(name: str, *arguments: Any, **named: Any) -> Any:
            self.reads[name] += 1
            return await select(name, *arguments, **named)

        self.memory.select = counted  # type: ignore[method-assign]
        self.reconciler = Reconciler(
            store=self.storage.reconciliations,
            reconcile=self.slices,  # type: ignore[arg-type]
            clients=GivenClients(lambda: [client for client in [self.client] if client is not None]),
            pollers=self.pollers,
            settings=ReconciliationSettings(),
            runtime=node_runtime(
                self.clock,
                randomness=self.randomness,
                spawn=self.tasks.spawn,
                trusted=lambda: self.trusted,
                on_fault=lambda name, error: self.faults.append(name),
            ),
        )
        self.tasks.spawn(self.reconciler.run(), name="search")

    async def ask(self, number: int = 0, *, action: Action = Action.REPORT, minutes: int = 1) -> ReconciliationId:
        now = int(EPOCH_MS + asyncio.get_running_loop().time() * 1000)
        asked_id = new_reconciliation_id(at=now, randomness=self.randomness)
        start = minute_of(now) * 60_000
        asked = Reconciliation(
            client_id=SHOP,
            reconciliation_id=asked_id,
            action=action,
            start=UnixMillis(start),
            end=UnixMillis(start + minutes * 60_000),
            states=(State.FAILED,),
            created_at=UnixMillis(now),
            created_by="shop",
            progress=Progress(minute=minute_of(start)),
            updated_at=UnixMillis(now),
        )
        known = await self.storage.reconciliations.read_slots(SHOP)
        await self.storage.reconciliations.take_slot(Slot(SHOP, number, asked_id), expected=known.get(number))
        await self.storage.reconciliations.insert(asked)
        return asked_id


def run(scenario: Any, **options: Any) -> None:
    async def bench() -> None:
        made = Bench(**options)
        try:
            await scenario(made)
        finally:
            await made.tasks.close()

    run_virtual(bench)


def test_a_requested_reconciliation_is_found_soon_and_completed() -> None:
    async def scenario(bench: Bench) -> None:
        await virtual_loop().advance(12)
        asked = await bench.ask(minutes=3)
        await virtual_loop().advance(CHANGE_SEARCH_SECONDS + 1)
        assert [one for _, one, _ in bench.slices.done] == [asked] * 3
        assert (bench.reconciler.finished, bench.reconciler.working, bench.faults) == (1, 0, [])

    run(scenario)


def test_an_idle_search_costs_one_small_read_and_ended_ones_none() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.ask()
        await virtual_loop().advance(FULL_SEARCH_SECONDS - 1)
        bench.reads.clear()
        await virtual_loop().advance(FULL_SEARCH_SECONDS)
        searches = FULL_SEARCH_SECONDS / CHANGE_SEARCH_SECONDS
        assert bench.reads == {"catalog.read": searches, "reconciliation_slots.list": 8}

    run(scenario)


@pytest.mark.parametrize(("age_ms", "reads"), [(60_000, FULL_SEARCH_SECONDS / CHANGE_SEARCH_SECONDS), (4_000_000, 0)])
def test_a_slot_of_a_deleted_reconciliation_is_read_once(age_ms: int, reads: int) -> None:
    async def scenario(bench: Bench) -> None:
        gone = new_reconciliation_id(at=EPOCH_MS - age_ms, randomness=bench.randomness)
        await bench.storage.reconciliations.take_slot(Slot(SHOP, 0, gone), expected=None)
        await virtual_loop().advance(CHANGE_SEARCH_SECONDS + 1)
        bench.reads.clear()
        await virtual_loop().advance(FULL_SEARCH_SECONDS)
        assert bench.reads["reconciliations.read"] == 2 * reads
        assert bench.slices.done == []

    run(scenario)


def test_only_the_owner_of_the_poller_works_and_only_under_trust() -> None:
    async def scenario(bench: Bench) -> None:
        poller = reconciliation._poller_of(SHOP, 4)
        for bench.trusted, bench.pollers.held in ((True, held({0, 1, 2, 3} - {poller})), (False, held([poller]))):
            await bench.ask()
            await virtual_loop().advance(2 * CHANGE_SEARCH_SECONDS + 1)
            assert bench.slices.done == []
        bench.trusted = True
        await virtual_loop().advance(CHANGE_SEARCH_SECONDS + 1)
        assert len(bench.slices.done) == 1

    run(scenario)


def test_several_redeliveries_of_a_client_share_what_redeliveries_may_take() -> None:
    async def scenario(bench: Bench) -> None:
        bench.slices.lead_ms = 50_000
        for number in range(3):
            await bench.ask(number, action=Action.REDELIVER, minutes=4)
        await virtual_loop().advance(60)
        assert {round(share, 3) for at, _, share in bench.slices.done if at > CHANGE_SEARCH_SECONDS + 1} == {0.167}

    run(scenario)


def test_redeliveries_wait_until_their_instants_have_almost_come() -> None:
    async def scenario(bench: Bench) -> None:
        bench.slices.lead_ms = 50_000
        await bench.ask(action=Action.REDELIVER, minutes=4)
        await virtual_loop().advance(120)
        begun = [at for at, _, _ in bench.slices.done]
        assert [round(later - at) for at, later in itertools.pairwise(begun)] == [30, 30, 30]

    run(scenario)


@pytest.mark.parametrize(("action", "acted", "seconds"), [(Action.CANCEL, 1_000, 2.0), (Action.REPORT, 0, 0.1)])
def test_cancels_and_reads_are_held_to_a_rate(action: Action, acted: int, seconds: float) -> None:
    async def scenario(bench: Bench) -> None:
        bench.slices.acted = acted
        await bench.ask(action=action, minutes=4)
        await virtual_loop().advance(30)
        begun = [at for at, _, _ in bench.slices.done]
        assert [round(later - at, 2) for at, later in itertools.pairwise(begun)] == [seconds] * 3

    run(scenario)


def test_a_suspended_client_redelivers_later() -> None:
    async def scenario(bench: Bench) -> None:
        assert bench.client is not None
        active = bench.client
        suspended = msgspec.structs.replace(active.record, state=ClientState.SUSPENDED)
        bench.client = ServedClient(suspended, active.settings, ())
        await bench.ask(0, action=Action.REDELIVER)
        report = await bench.ask(1)
        await virtual_loop().advance(30)
        assert [one for _, one, _ in bench.slices.done] == [report]
        bench.client = active
        await virtual_loop().advance(CHANGE_SEARCH_SECONDS + 1)
        assert len(bench.slices.done) == 2

    run(scenario)


@pytest.mark.parametrize(
    ("error", "pause", "faults"),
    [
        (StoreUnavailable("x"), 1.0, 0),
        (NotOurs("x"), CHANGE_SEARCH_SECONDS, 0),
        (ValueError("x"), FULL_SEARCH_SECONDS, 1),
    ],
)
def test_an_error_holds_it_up_and_does_not_end_it(error: Exception, pause: float, faults: int) -> None:
    async def scenario(bench: Bench) -> None:
        bench.slices.errors.append(error)
        await bench.ask()
        await virtual_loop().advance(CHANGE_SEARCH_SECONDS + 0.05)
        assert bench.slices.done == []
        await virtual_loop().advance(pause + CHANGE_SEARCH_SECONDS + 0.1)
        assert (len(bench.slices.done), len(bench.faults)) == (1, faults)

    run(scenario)
