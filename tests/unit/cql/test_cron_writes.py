"""Conditional writes on crons share requests: which ones, when, and what each is answered."""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import msgspec

from cql.connection import AnswerRows, Consistency, Item, Parameters
from cql.cron_rows import write_item
from cql.cron_writes import REQUEST_BYTES, WRITES_PER_REQUEST
from cql.memory.connection import InMemoryConnection
from cql.settings import StorageSettings
from cql.storage import Storage
from membership.conditional import APPLIED, Answer, Rejected, Unknown
from membership.errors import StoreUnavailable
from scheduler_service.domain.crons.row import Cron
from scheduler_service.domain.errors import ContentTooLarge
from scheduler_service.domain.ids import ClientId
from tests.contract.cron_builders import CALLBACK, cron, progress, run
from tests.unit.cql.gate import turns

SHOP = ClientId("shop")


class Held(InMemoryConnection):
    """Conditional requests wait until released; `fate` may replace their answer."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[Sequence[Item]] = []
        self.reads: list[tuple[str, bool]] = []
        self.down = False
        self.batches: list[Sequence[Item]] = []
        self.homes: Callable[[Parameters], Hashable] = lambda parameters: None
        self._gates: list[asyncio.Future[Answer[Any] | Exception | None]] = []

    async def conditional(self, items: Sequence[Item]) -> Answer[AnswerRows]:
        self.sent.append(items)
        gate: asyncio.Future[Answer[Any] | Exception | None] = asyncio.get_running_loop().create_future()
        self._gates.append(gate)
        fate = await gate
        if isinstance(fate, Exception):
            raise fate
        return await super().conditional(items) if fate is None else fate

    async def select(
        self, name: str, parameters: Parameters, *, serial: bool = False, consistency: Consistency = "LOCAL_QUORUM"
    ) -> list[tuple[Any, ...]]:
        self.reads.append((name, serial))
        if self.down:
            raise StoreUnavailable("down")
        return await super().select(name, parameters, serial=serial)

    async def write_batch(self, items: Sequence[Item], *, consistency: Consistency = "LOCAL_QUORUM") -> None:
        self.batches.append(items)
        await super().write_batch(items, consistency=consistency)

    def replicas(self, name: str, parameters: Parameters) -> Hashable:
        return self.homes(parameters)

    @property
    def waiting(self) -> int:
        return len(self._gates)

    @property
    def sizes(self) -> list[int]:
        return [len(items) for items in self.sent]

    async def release(self, fate: Answer[Any] | Exception | None = None) -> None:
        self._gates.pop(0).set_result(fate)
        await turns()

    async def release_all(self) -> None:
        while self._gates:
            await self.release()


def opened(**settings: Any) -> tuple[Held, Storage]:
    connection = Held()
    return connection, Storage.over(connection, settings=StorageSettings(**settings))


async def begin(storage: Storage, *crons: Cron, expected: int | None = None) -> list[asyncio.Task[Answer[Any]]]:
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(storage.crons.write(one, expected_revision=expected)) for one in crons]
    await turns()
    return tasks


async def create(connection: Held, storage: Storage, *crons: Cron) -> None:
    """Create crons before the test's own requests."""
    tasks = await begin(storage, *crons)
    await connection.release_all()
    await asyncio.gather(*tasks)
    connection.sent.clear()


async def begin_commit(storage: Storage, *crons: Cron) -> asyncio.Task[Answer[None]]:
    work = storage.crons.advance(crons[0].client_id, [progress(one) for one in crons])
    task = asyncio.get_running_loop().create_task(work)
    await turns()
    return task


def crons(count: int, start: int = 0, **other: Any) -> list[Cron]:
    return [cron(SHOP, f"c{start + number:03}", **other) for number in range(count)]


def named(items: Sequence[Item]) -> list[str]:
    return [values[-3] for name, values in items if name == "crons.write"]


async def test_one_request_of_a_client_is_under_way_and_the_others_gather() -> None:
    connection, storage = opened()
    tasks = await begin(storage, *crons(1))
    for start in (1, 41, 81):
        tasks += await begin(storage, *crons(40, start))
    assert (connection.sizes, connection.waiting) == ([1], 1)
    for sizes in ([1, 50], [1, 50, 50], [1, 50, 50, 20]):
        await connection.release()
        assert (connection.sizes, connection.waiting) == (sizes, 1)
    await connection.release_all()
    assert await asyncio.gather(*tasks) == [APPLIED] * 121
    assert named(connection.sent[1]) == [one.cron_id for one in crons(WRITES_PER_REQUEST, 1)]
    assert len(storage.tasks) == 0


async def test_clients_do_not_wait_for_each_other() -> None:
    connection, storage = opened()
    tasks = await begin(storage, *(cron(ClientId(f"client-{number}")) for number in range(5)))
    assert connection.waiting == 5
    await connection.release_all()
    assert await asyncio.gather(*tasks) == [APPLIED] * 5


async def test_writes_of_one_cron_go_one_after_the_other() -> None:
    connection, storage = opened()
    one, other = crons(2)
    tasks = await begin(storage, one, one, other)
    assert [named(items) for items in connection.sent] == [["c000", "c001"]]
    await connection.release_all()
    assert await asyncio.gather(*tasks) == [APPLIED, Rejected(one), APPLIED]


async def test_large_crons_go_in_requests_of_their_own_and_in_their_turn() -> None:
    connection, storage = opened()
    large = msgspec.structs.replace(CALLBACK, body=bytes(REQUEST_BYTES))
    half = msgspec.structs.replace(CALLBACK, body=bytes(REQUEST_BYTES // 3))
    first, small = crons(1), crons(20, 60)
    tasks = await begin(storage, *first, *crons(1, 10, callback=large), *crons(4, 20, callback=half), *small)
    await connection.release_all()
    assert await asyncio.gather(*tasks) == [APPLIED] * 26
    assert [named(items)[0] for items in connection.sent] == ["c000", "c010", "c022"]
    assert connection.sizes == [1 + 2 + 20, 1, 2]


async def test_a_commit_goes_alone_and_is_not_passed_twice() -> None:
    connection, storage = opened()
    await create(connection, storage, *crons(3))
    tasks: list[asyncio.Task[Answer[Any]]] = await begin(storage, *crons(1, 10))
    tasks.append(await begin_commit(storage, *crons(2)))
    tasks += await begin(storage, *crons(2, 11))
    tasks.append(await begin_commit(storage, *crons(1, 2)))
    tasks += await begin(storage, *crons(2, 13))
    await connection.release_all()
    assert await asyncio.gather(*tasks) == [APPLIED] * 7
    assert [[name for name, _ in items] for items in connection.sent] == [
        ["crons.write"],
        ["crons.advance"] * 2,
        ["crons.write"] * 4,
        ["crons.advance"],
    ]


async def test_a_commit_that_full_requests_pass_is_next() -> None:
    connection, storage = opened()
    await create(connection, storage, *crons(2))
    tasks: list[asyncio.Task[Answer[Any]]] = await begin(storage, *crons(1, 10))
    tasks += [await begin_commit(storage, one) for one in crons(1)]
    tasks += await begin(storage, *crons(1, 20))
    tasks += [await begin_commit(storage, one) for one in crons(1, 1)]
    tasks += await begin(storage, *crons(2 * WRITES_PER_REQUEST, 30))
    await connection.release_all()
    assert await asyncio.gather(*tasks) == [APPLIED] * (4 + 2 * WRITES_PER_REQUEST)
    # The first write was under way already. Each commit is overtaken only by writes that share the request of an older
    # one.
    assert connection.sizes == [1, 1, 50, 1, 50, 1]
    assert [items[0][1][-4:-3] for items in connection.sent if items[0][0] == "crons.advance"] == [("c000",), ("c001",)]


async def test_an_unknown_answer_is_everybodys_and_nothing_is_sent_again() -> None:
    connection, storage = opened()
    tasks = await begin(storage, *crons(3))
    others = await begin(storage, *crons(2, 10))
    await connection.release(Unknown("lost"))
    await connection.release_all()
    assert await asyncio.gather(*tasks) == [Unknown("lost")] * 3
    assert await asyncio.gather(*others) == [APPLIED] * 2
    assert connection.sizes == [3, 2]
    advance = await begin_commit(storage, *crons(1))
    await connection.release(Unknown("lost"))
    assert await advance == Unknown("lost")


async def test_a_conflict_costs_one_more_request_and_one_read() -> None:
    connection, storage = opened()
    await create(connection, storage, *crons(2))
    tasks = await begin(storage, *crons(WRITES_PER_REQUEST))
    await connection.release_all()
    old = crons(2)
    assert await asyncio.gather(*tasks) == [*map(Rejected, old), *[APPLIED] * 48]
    assert (connection.sizes, connection.reads) == ([50, 48], [("crons.read", True)])


async def test_what_others_change_between_two_requests_is_rejected_too() -> None:
    connection, storage = opened()
    await create(connection, storage, *crons(1))
    tasks = await begin(storage, *crons(3))
    await connection.release()
    (others,) = crons(1, 1, expression="@daily")
    await InMemoryConnection.conditional(connection, [write_item(others, expected_revision=None)])
    await connection.release_all()
    assert await asyncio.gather(*tasks) == [Rejected(crons(1)[0]), Rejected(others), APPLIED]
    assert connection.sizes == [3, 2, 1]


async def test_a_rejection_that_can_not_be_read_is_unknown() -> None:
    connection, storage = opened()
    await create(connection, storage, *crons(1))
    tasks = await begin(storage, *crons(2))
    connection.down = True
    await connection.release_all()
    assert await asyncio.gather(*tasks) == [Unknown("down"), APPLIED]


async def test_a_rejection_without_a_conflict_in_it_is_asked_again_one_by_one() -> None:
    connection, storage = opened()
    tasks = await begin(storage, *crons(2))
    await connection.release(Rejected([]))
    await connection.release_all()
    assert await asyncio.gather(*tasks) == [APPLIED, APPLIED]
    assert connection.sizes == [2, 1, 1]


async def test_who_is_refused_with_an_error_is_refused_alone() -> None:
    connection, storage = opened()
    tasks = await begin(storage, *crons(3))
    await connection.release(ContentTooLarge("all of it"))
    await connection.release()
    await connection.release(ContentTooLarge("yours"))
    await connection.release_all()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [answers[0], answers[2]] == [APPLIED, APPLIED]
    assert isinstance(answers[1], ContentTooLarge)
    assert str(answers[1]) == "yours"


async def test_a_write_given_up_in_time_is_not_sent_and_affects_no_other() -> None:
    connection, storage = opened()
    first = await begin(storage, *crons(3))
    second = await begin(storage, *crons(3, 10))
    third = await begin(storage, *crons(1, 20))
    for task in (first[0], second[1], *third):
        task.cancel()
    await turns()
    await connection.release_all()
    answers = await asyncio.gather(*first[1:], second[0], second[2])
    assert answers == [APPLIED] * 4
    assert [named(items) for items in connection.sent] == [["c000", "c001", "c002"], ["c010", "c012"]]


async def test_closing_leaves_no_caller_waiting() -> None:
    connection, storage = opened()
    tasks = await begin(storage, *crons(2))
    tasks += await begin(storage, *crons(2, 10))
    await storage.close()
    late = await begin(storage, *crons(1, 20))
    answers = await asyncio.gather(*tasks, *late)
    assert answers == [Unknown("the store was closed before it answered")] * 5
    assert connection.sizes == [2]


async def test_more_than_memory_is_for_is_not_taken() -> None:
    connection, storage = opened(queue_bytes=300_000)
    large = msgspec.structs.replace(CALLBACK, body=bytes(150_000))
    tasks = await begin(storage, *crons(3, callback=large))
    await connection.release_all()
    assert await asyncio.gather(*tasks) == [APPLIED, Unknown("overloaded"), Unknown("overloaded")]
    again = await begin(storage, *crons(1, 1, callback=large))
    await connection.release_all()
    assert await again[0] == APPLIED


async def test_runs_share_requests_within_the_servers_limits() -> None:
    connection, storage = opened(group_commit_partitions=10)
    connection.homes = lambda parameters: parameters[0]
    clients = [ClientId(f"client-{number}") for number in range(2)]
    few = [run(client, 1, name=f"c{number}") for number in range(25) for client in clients]
    many = [run(clients[0], 1 + number) for number in range(450)]
    await storage.crons.insert_runs([*few, *many])
    for items in connection.batches:
        partitions = {values[:3] for _, values in items}
        assert len({client for client, _, _ in partitions}) == 1
        assert len(partitions) <= 10
        assert len(items) <= 200
    assert sorted(map(len, connection.batches)) == [5, 5, 10, 10, 10, 10, 50, 200, 200]


async def test_runs_of_long_names_make_smaller_requests() -> None:
    connection, storage = opened(group_commit_bytes=4_000)
    await storage.crons.insert_runs([run(SHOP, 1, name=f"{number}" * 1_000) for number in range(10)])
    assert [len(items) for items in connection.batches] == [3, 3, 3, 1]
