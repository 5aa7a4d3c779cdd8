"""Processes that are started before their Cassandra: they wait, say for what, and go on or end when told to."""

import asyncio
import contextlib
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest

from minutehand.client import Callback
from minutehand.local.machine import free_ports
from minutehand.processes.programs import Program
from tests.support.cassandra import SuiteCassandra
from tests.support.processes import Deployment


class Relay:
    """Brings connections at a port of this machine to Cassandra. It runs on a thread."""

    def __init__(self, cassandra: SuiteCassandra, port: int) -> None:
        self._to = (cassandra.contact_points[0], cassandra.port)
        self._port = port
        self._over = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listens = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._listens.wait(10)

    def stop(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._over.set)
            self._thread.join()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._relay, "127.0.0.1", self._port)
        self._listens.set()
        await self._over.wait()
        server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection(*self._to)
        await asyncio.gather(_pump(reader, inner_writer), _pump(inner_reader, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextmanager
def relayed(cassandra: SuiteCassandra) -> Iterator[tuple[dict[str, str], Relay]]:
    """The variables for programs that reach Cassandra through a relay, and the relay, not started yet."""
    (port,) = free_ports(1)
    relay = Relay(cassandra, port)
    try:
        yield {"MINUTEHAND_CASSANDRA_PORT": str(port), "MINUTEHAND_CASSANDRA_CONTACT_POINTS": "127.0.0.1"}, relay
    finally:
        relay.stop()


def test_programs_wait_for_cassandra_and_go_on(cluster: Deployment, cassandra: SuiteCassandra) -> None:
    ops_port, several_port, several_health = free_ports(3)
    with relayed(cassandra) as (variables, relay):
        api = cluster.start("api", ["api"], variables=variables)
        node = cluster.start(
            "one",
            ["node", "--processes", "1", "--node-id", "one"],
            variables={**variables, "MINUTEHAND_OPS_PORT": str(ops_port)},
        )
        apis = cluster.start(
            "apis",
            ["api", "--processes", "2"],
            variables={
                **variables,
                "MINUTEHAND_API_PORT": str(several_port),
                "MINUTEHAND_HEALTH_PORT": str(several_health),
            },
        )
        urls = [cluster.api_url, f"http://127.0.0.1:{ops_port}", f"http://127.0.0.1:{several_health}"]
        for url in urls:
            await_until(lambda url=url: "waits for Cassandra at 127.0.0.1" in readiness(url))
            assert answer(url, "/livez") == 200
        for program in (api, node, apis):
            await_until(lambda program=program: len(said(program, "storage-awaited")) >= 2)
            first, second = said(program, "storage-awaited")[:2]
            assert "cassandra.contact_points" in str(first["reason"])
            assert int(str(second["waited_seconds"])) - int(str(first["waited_seconds"])) in (9, 10, 11)
        relay.start()
        for url in urls:
            await_until(lambda url=url: answer(url, "/readyz") == 200)
        assert [len(said(program, "storage-found")) for program in (api, node)] == [1, 1]
        key = cluster.register("shop", poller_quota=2)
        with cluster.client("shop", key) as shop:
            shop.schedules.create(Callback(url=cluster.receiver.url), delay_seconds=0)
        assert cluster.receiver.await_count(1, seconds=30) == 1
        for name in ("apis", "one", "api"):
            cluster.stop_one(name)


@pytest.mark.parametrize("command", [["api"], ["node", "--processes", "1"], ["node", "--processes", "2"]])
def test_told_to_end_while_it_waits_it_ends_cleanly(
    cluster: Deployment, cassandra: SuiteCassandra, command: list[str]
) -> None:
    with relayed(cassandra) as (variables, _):
        program = cluster.start("one", command, variables=variables)
        await_until(lambda: bool(said(program, "storage-awaited")))
        began = time.monotonic()
        program.send(signal.SIGTERM)
        await_until(lambda: program.exit_code() is not None)
        assert program.exit_code() == 0
        assert time.monotonic() - began < 5


def test_a_keyspace_that_is_missing_ends_it_at_once(cluster: Deployment) -> None:
    program = cluster.start("api", ["api"], variables={"MINUTEHAND_CASSANDRA_KEYSPACE": "nowhere"})
    await_until(lambda: program.exit_code() is not None)
    assert program.exit_code() == 1
    assert "run `minutehand migrate` first" in program.log_file.read_text(encoding="utf-8")


def readiness(url: str) -> str:
    try:
        return httpx.get(f"{url}/readyz", trust_env=False).text
    except httpx.HTTPError:
        return ""


def answer(url: str, path: str) -> int:
    try:
        return httpx.get(f"{url}{path}", trust_env=False).status_code
    except httpx.HTTPError:
        return 0


def said(program: Program, action: str) -> list[dict[str, object]]:
    lines = program.log_file.read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{")]
    return [line for line in found if line["action"] == action]


def await_until(reached: Callable[[], bool], *, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.1)
