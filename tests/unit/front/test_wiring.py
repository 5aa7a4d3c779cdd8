"""An API and a node, wired as for a process of their own, over the in-memory store and loopback.

The parts have tests elsewhere; only their composition can fail here: a program that does not start, a part with the
wrong collaborator, a task or socket that outlives its program.
"""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from cql.connection import AnswerRows, Item
from cql.memory.connection import InMemoryConnection
from cql.storage import Storage
from membership.conditional import Answer
from membership.identity import NodeId
from minutehand import wiring_api, wiring_node
from minutehand.client import AsyncMinutehand, Callback, MinutehandApiError
from minutehand.config import FOR_API, FOR_NODE, Settings, load_settings
from minutehand.local.machine import free_ports
from minutehand.running import StopSignal
from minutehand.wiring_api import serve_api
from minutehand.wiring_node import serve_node
from scheduler_service.domain.crons.row import CRON_CLIENT
from scheduler_service.domain.notices import EVENTS_CLIENT
from tests.support.raw_receiver import RawReceiver, RawRequest, answering

ADMIN_KEY = "the-key-of-the-administrator"
SECONDS = 10
"""A program that is wired wrongly may also hang."""


@pytest.fixture(autouse=True)
def collector_as_before() -> Iterator[None]:
    """`spare_collector` is for a process that ends with the program; this process runs other tests, whose objects its
    collection at the start need not visit."""
    thresholds = gc.get_threshold()
    gc.freeze()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


class WatchedConnection(InMemoryConnection):
    """Lets a test wait for the effects of conditional writes."""

    def __init__(self) -> None:
        super().__init__()
        self._written = asyncio.Event()

    async def conditional(self, items: Sequence[Item]) -> Answer[AnswerRows]:
        answer = await super().conditional(items)
        self._written.set()
        return answer

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._written.clear()
            await self._written.wait()

    def owners(self) -> set[tuple[str, str]]:
        """Clients with a poller that has an owner, each with that node."""
        return {(row["client_id"], row["owner_node"]) for row in self.rows("pollers") if row["owner_node"]}


@dataclass
class Programs:
    """Starts programs over one store. `opened`: the connections that each started program has opened."""

    memory: WatchedConnection = field(default_factory=WatchedConnection)
    opened: list[Storage] = field(default_factory=list)
    settings: Settings = field(init=False)

    def __post_init__(self) -> None:
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self.settings = load_settings(
            environment={
                "MINUTEHAND_CLUSTER_TOKEN": "the-token-of-the-cluster",
                "MINUTEHAND_API_ADMIN_KEY": ADMIN_KEY,
                "MINUTEHAND_API_PORT": str(port),
                "MINUTEHAND_API_SHUTDOWN_DELAY_SECONDS": "0",
                "MINUTEHAND_NETWORK_ALLOW": "127.0.0.0/8",
                "MINUTEHAND_MEMBERSHIP_BEAT_SECONDS": "0.1",
            },
            required={*FOR_API, *FOR_NODE},
        )

    async def open_storage(self, settings: object, **given: Any) -> Storage:
        self.opened.append(Storage.over(self.memory, **given))
        return self.opened[-1]

    @asynccontextmanager
    async def api(self) -> AsyncIterator[AsyncMinutehand]:
        """A client of an API that runs during the block."""
        stop = StopSignal()
        async with running(serve_api(self.settings, stop), stop), AsyncMinutehand(self.url, ADMIN_KEY) as api:
            yield api

    @asynccontextmanager
    async def node(self) -> AsyncIterator[None]:
        stop = StopSignal()
        async with running(serve_node(self.settings, node_id=NodeId("one"), stop=stop), stop):
            yield


@asynccontextmanager
async def running(program: Coroutine[Any, Any, None], stop: StopSignal) -> AsyncIterator[None]:
    """Run a program during the block, then stop it. It must not end by itself."""
    async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as tasks:

        async def until_stopped() -> None:
            await program
            assert stop.failure is None
            assert stopping, "it ended before it was told to"

        stopping: list[bool] = []
        tasks.create_task(until_stopped(), name="program")
        try:
            yield
        finally:
            stopping.append(True)
            stop.request()


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Programs:
    found = Programs()
    for wiring in (wiring_api, wiring_node):
        monkeypatch.setattr(wiring, "open_storage", found.open_storage)
    return found


class Receiver(RawReceiver):
    """Reports its first call."""

    def __init__(self) -> None:
        super().__init__()
        self.called: asyncio.Future[RawRequest] = asyncio.get_running_loop().create_future()

        async def answer(request: RawRequest, writer: asyncio.StreamWriter) -> None:
            self.called.set_result(request)
            await answering(204)(request, writer)

        self.script["/hook"] = answer


async def test_both_in_one_process_make_a_call(programs: Programs) -> None:
    async with Receiver() as receiver:
        async with programs.node(), programs.api() as api:
            await api.clients.register("shop", poller_quota=2)
            schedules = api.client("shop").schedules
            created = await schedules.create(Callback(url=receiver.url("/hook"), body="the body"), delay_seconds=0)
            called = await receiver.called
            assert ("shop", "one") in programs.memory.owners()
        async with programs.api() as api:
            assert (await api.client("shop").schedules.get(created.schedule_id)).state == "delivered"
        assert len(receiver.requests) == 1
    assert called.values("webhook-id") == [created.schedule_id]
    assert called.body == b"the body"
    assert programs.memory.owners() == set()
    await all_ended(programs, count=3)


async def test_a_node_alone_takes_what_there_is_and_gives_it_back(programs: Programs) -> None:
    async with programs.node():
        await programs.memory.until(lambda: programs.memory.owners() == {(CRON_CLIENT, "one"), (EVENTS_CLIENT, "one")})
    assert programs.memory.owners() == set()
    await all_ended(programs, count=1)


async def test_an_api_alone_says_that_it_needs_a_node(programs: Programs) -> None:
    async with programs.api() as api:
        await api.clients.register("shop", poller_quota=2)  # repeated until the API is up
        async with AsyncMinutehand(programs.url, ADMIN_KEY, retries=0) as impatient:
            schedules = impatient.client("shop").schedules
            with pytest.raises(MinutehandApiError, match="start a node"):
                await schedules.create(Callback(url="http://127.0.0.1/hook"), delay_seconds=0)
        assert [one.reason for one in (await api.health()).reasons] == ["clock-untrusted"]
    await all_ended(programs, count=1)


async def all_ended(programs: Programs, *, count: int) -> None:
    """Assert that no task and no storage connection of these programs is left."""
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert len(programs.opened) == count
    assert not any(len(storage.tasks) for storage in programs.opened)
    assert programs.memory.closed
