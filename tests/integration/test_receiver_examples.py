"""The example receivers, each as a process, called as a node calls them."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import msgspec
import pytest

from minutehand.local.machine import free_ports
from poller_cluster.clients import ServedClient
from poller_cluster.delivery.engine import DeliveryEngine
from poller_cluster.delivery.request import CallbackRequest
from poller_cluster.dispatch.job import Claim
from poller_cluster.dispatch.request import Prepared, Sender, prepare
from scheduler_service.domain.clients import Client, ClientSettings, ClientState
from scheduler_service.domain.ids import ClientId, PollerId, UnixMillis, new_schedule_id
from scheduler_service.domain.schedules import Row
from scheduler_service.domain.trial_calls import TRIAL_HEADER
from scheduler_service.runtime.randomness import SystemRandomness
from tests.support.delivery import CLOCK, attempt

EXAMPLES = Path(__file__).parents[2] / "examples" / "receivers"
KEY = b"0123456789abcdef0123456789abcdef"
SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
BODY = b'{"order": 17}'


@dataclass(frozen=True)
class Running:
    url: str
    output: Path

    @property
    def handled(self) -> list[str]:
        return [line for line in self.output.read_text().splitlines() if line.startswith("handled ")]


WORKING = "working_receiver.py"
"""It answers 202, and says later what became of a call: see `tests.acceptance.test_long_work`."""
NAMES = sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.fixture(params=NAMES)
def example(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Running]:
    (port,) = free_ports(1)
    output = tmp_path / "output"
    with output.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, EXAMPLES / request.param, str(port)],
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "SIGNING_SECRET": SECRET, "PYTHONPATH": str(EXAMPLES.parents[1])},
        )
    try:
        deadline = time.monotonic() + 30
        while True:
            assert process.poll() is None, output.read_text()
            assert time.monotonic() < deadline, output.read_text()
            try:
                httpx.get(f"http://127.0.0.1:{port}/", trust_env=False)
                break
            except httpx.TransportError:
                time.sleep(0.05)
        path = "render" if request.param == WORKING else "expire"
        yield Running(f"http://127.0.0.1:{port}/hooks/{path}", output)
    finally:
        process.kill()
        process.wait()


def call(url: str, *, key: bytes = KEY) -> CallbackRequest:
    """The call that a node makes for a schedule due now."""
    now = UnixMillis(CLOCK.wall_ms())
    client = Client(
        client_id=ClientId("shop"),
        poller_quota=1,
        poller_ceiling=1,
        state=ClientState.ACTIVE,
        settings=ClientSettings(),
        revision=1,
        created_at=now,
    )
    columns = dict.fromkeys(Row.__struct_fields__) | {
        "due": now,
        "schedule_id": new_schedule_id(due=now, poller_id=PollerId(0), randomness=SystemRandomness()),
        "method": "POST",
        "url": url,
        "headers": '[["content-type","application/json"]]',
        "body": BODY,
        "created_at": now,
    }
    prepared = prepare(
        Claim(row=msgspec.convert(columns, Row), redelivery=False, first_attempt_at=None),
        client=ServedClient(client, client.settings.effective(poller_quota=1), (b"another secret, rotated away", key)),
        epoch=3,
        sender=Sender(incarnation="node-a/1", version="0"),
        now=now,
    )
    assert isinstance(prepared, Prepared)
    return prepared.request


@pytest.mark.parametrize("example", [name for name in NAMES if name != WORKING], indirect=True)
async def test_what_is_signed_is_handled_once(engine: DeliveryEngine, example: Running) -> None:
    first, second = call(example.url), call(example.url)
    for request in (first, first, second, first):
        assert (await attempt(engine, request)).status == 204
    ids = [dict(request.headers)["webhook-id"] for request in (first, second)]
    assert example.handled == [f"handled {id_} {BODY.decode()}" for id_ in ids]


async def test_unsigned_and_changed_calls_are_refused(engine: DeliveryEngine, example: Running) -> None:
    right = call(example.url)
    changed = msgspec.structs.replace(right, body=b'{"order": 18}')
    bare = msgspec.structs.replace(right, headers=(("content-type", "application/json"),))
    for request in (call(example.url, key=b"somebody else's"), changed, bare):
        result = await attempt(engine, request)
        assert result.status == 401
        assert result.excerpt
    assert example.handled == []


async def test_a_trial_call_is_answered_and_does_nothing(engine: DeliveryEngine, example: Running) -> None:
    request = call(example.url)
    trial_call = msgspec.structs.replace(request, headers=(*request.headers, TRIAL_HEADER))
    assert (await attempt(engine, trial_call)).status == 204
    assert example.handled == []
