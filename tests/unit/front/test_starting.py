"""What a process does until Cassandra answers it, tested without a process."""

import asyncio

import aiohttp
import pytest
from structlog.testing import capture_logs

from cql.errors import SchemaOutdated
from cql.reachable import somebody_listens
from cql.settings import StorageSettings
from membership.errors import StoreUnavailable
from minutehand.local.machine import free_ports
from minutehand.running import StopSignal
from minutehand.starting import LOOK_SECONDS, SAY_SECONDS, Starting
from scheduler_service.api.http.starting import StartingApi
from scheduler_service.api.settings import ApiSettings
from scheduler_service.runtime.health import Reason
from scheduler_service.runtime.listening import CannotListen
from tests.support.api import ManualClock, SeededRandomness

STORAGE = StorageSettings(contact_points=("one.example", "two.example"), port=9142)


class Away:
    """A step that is answered at its `nth` try; before, it fails as given."""

    def __init__(self, nth: int, error: Exception) -> None:
        self.nth, self.error, self.tries = nth, error, 0
        self.seen: list[str] = []

    async def __call__(self) -> str:
        self.tries += 1
        if self.tries < self.nth:
            raise self.error
        return "answered"


async def test_it_waits_and_says_so_every_ten_seconds() -> None:
    clock = ManualClock()
    starting = Starting(clock=clock, storage=STORAGE, stop=StopSignal())
    tries = round(2.5 * SAY_SECONDS / LOOK_SECONDS)
    step, ready = Away(tries + 1, StoreUnavailable("none listens")), []

    async def watched() -> str:
        ready.append(starting.unready())
        return await step()

    with capture_logs() as lines:
        assert await starting.answered(watched) == "answered"
    assert [(line["action"] if "action" in line else line["event"], line["waited_seconds"]) for line in lines] == [
        ("storage-awaited", 0),
        ("storage-awaited", 10),
        ("storage-awaited", 20),
        ("storage-found", 25),
    ]
    sentence = (
        "waits for Cassandra at one.example, two.example, port 9142 (cassandra.contact_points, cassandra.port): "
        "none listens"
    )
    assert lines[0]["reason"] == sentence
    assert ready[0] == (Reason("starting", "it has just started"),)
    assert ready[1] == (Reason("starting", sentence),)
    assert not starting.waiting()


async def test_what_needs_a_person_ends_it_at_once() -> None:
    starting = Starting(clock=ManualClock(), storage=STORAGE, stop=StopSignal())
    step = Away(5, SchemaOutdated("migrate first"))
    with pytest.raises(SchemaOutdated):
        await starting.answered(step)
    assert step.tries == 1


async def test_it_ends_when_it_is_told_to() -> None:
    stop = StopSignal()

    async def step() -> str:
        stop.request()
        raise StoreUnavailable("away")

    assert await Starting(clock=ManualClock(), storage=STORAGE, stop=stop).answered(step) is None


async def test_whether_somebody_listens() -> None:
    (port,) = free_ports(1)
    settings = StorageSettings(contact_points=("name.invalid", "127.0.0.1"), port=port)
    assert not await somebody_listens(settings)
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", port)
    assert await somebody_listens(settings)
    server.close()
    await server.wait_closed()


async def test_an_api_that_starts_lives_and_refuses_with_a_time() -> None:
    (port,) = free_ports(1)
    settings = ApiSettings(admin_key="the-key-of-the-administrator", port=port)
    api = StartingApi(settings, ready=lambda: [Reason("starting", "waits")], randomness=SeededRandomness())
    await api.start()
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            async with session.get("/livez") as answer:
                assert answer.status == 200
            async with session.get("/readyz") as answer:
                assert (answer.status, (await answer.json())["reasons"][0]["detail"]) == (503, "waits")
            async with session.post("/v1/clients/shop/schedules", json={}) as answer:
                assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
                assert (await answer.json())["type"] == "/problems/storage-unavailable"
        with pytest.raises(CannotListen, match="the port is in use"):
            await StartingApi(settings, ready=tuple, randomness=SeededRandomness()).start()
    finally:
        await api.stop()
    again = StartingApi(settings, ready=tuple, randomness=SeededRandomness())
    await again.start()
    await again.stop()


async def test_of_several_on_one_port_none_answers_before_its_api_does() -> None:
    (port,) = free_ports(1)
    settings = ApiSettings(admin_key="the-key-of-the-administrator", port=port, share_port=True)
    api = StartingApi(settings, ready=tuple, randomness=SeededRandomness())
    await api.start()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    await api.stop()
