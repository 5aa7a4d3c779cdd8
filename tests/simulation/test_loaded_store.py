"""The loaded store finishes work for which no client waits any more."""

import asyncio
import random
from collections.abc import Sequence

import pytest

from cql.connection import AnswerRows, Item
from cql.memory.connection import InMemoryConnection
from membership.conditional import Answer, Applied, Unknown
from membership.errors import StoreUnavailable
from tests.simulation.faults import FaultPlan, FaultyConnection
from tests.simulation.loaded_store import CLIENT_TIMEOUT_SECONDS, CONTENTION_SECONDS, LoadedStore, Strength
from tests.simulation.sim_clock import SimClock
from tests.support.virtual_loop import run_virtual, virtual_loop

PREEMPTING = Strength(proposal_ms=1_200 * CONTENTION_SECONDS)
"""Of two proposals for one partition the first is preempted, too late to be repeated."""
SLOW = Strength(proposal_ms=1_200 * CLIENT_TIMEOUT_SECONDS)
"""The same happens when both clients have given up."""


class _Faulty(InMemoryConnection):
    async def conditional(self, items: Sequence[Item]) -> Answer[AnswerRows]:
        raise ValueError("a fault of the store")


def contending(store: LoadedStore) -> list[asyncio.Task[Answer[AnswerRows]]]:
    """Two clients that write to one partition at the same time."""
    loop = asyncio.get_running_loop()
    return [loop.create_task(store.conditional([("pollers.create", ("shop", number, 0))])) for number in range(2)]


async def killed(store: LoadedStore, clients: Sequence[asyncio.Task[Answer[AnswerRows]]]) -> None:
    """End the clients while the store serves them, and let the store go on."""
    await virtual_loop().advance(0.1)
    for client in clients:
        client.cancel()
    await virtual_loop().advance(10)
    assert all(client.cancelled() for client in clients)
    assert not any(seen.under_way for seen in store.partitions.values())


@pytest.mark.parametrize(
    ("strength", "told"),
    [(PREEMPTING, [Unknown, Applied]), (SLOW, [Unknown, Unknown])],
    ids=["preempted", "given up"],
)
def test_the_result_of_a_contended_write_may_be_unknown(strength: Strength, told: list[object]) -> None:
    async def scenario() -> None:
        store = LoadedStore(InMemoryConnection(), rng=random.Random(1), strength=strength)
        answers = await asyncio.gather(*contending(store))
        assert [type(answer) for answer in answers] == told
        assert store.timeouts == {"pollers.create": told.count(Unknown)}
        await virtual_loop().advance(10)

    run_virtual(scenario)


def test_a_preempted_write_of_a_client_that_was_killed_is_no_failure() -> None:
    async def scenario() -> None:
        store = LoadedStore(InMemoryConnection(), rng=random.Random(1), strength=PREEMPTING)
        await killed(store, contending(store))

    run_virtual(scenario)


def test_a_late_write_that_a_crowded_store_does_not_answer_is_no_failure() -> None:
    async def scenario() -> None:
        crowded = Strength(request_ms=1_200 * CLIENT_TIMEOUT_SECONDS)
        store = LoadedStore(InMemoryConnection(), rng=random.Random(1), strength=crowded)
        connection = FaultyConnection(store, clock=SimClock(), rng=random.Random(1))
        connection.plan = FaultPlan(late=1.0)
        with pytest.raises(StoreUnavailable, match="on its way"):
            await connection.write("catalog.bump", ("shop",))
        await virtual_loop().advance(10)
        assert store.timeouts == {"catalog.bump": 1}

    run_virtual(scenario)


def test_a_fault_of_the_store_is_a_failure_even_if_its_client_was_killed() -> None:
    async def scenario() -> None:
        store = LoadedStore(_Faulty(), rng=random.Random(1), strength=PREEMPTING)
        await killed(store, contending(store)[:1])

    with pytest.raises(ValueError, match="a fault of the store"):
        run_virtual(scenario)
