"""The programs of the guide to signatures, each called as a node calls a receiver."""

import base64
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from minutehand.local.machine import free_ports
from poller_cluster.delivery.engine import DeliveryEngine
from poller_cluster.delivery.request import CallbackRequest
from poller_cluster.dispatch.request import Prepared, prepare
from tests.support.delivery import CLOCK, attempt
from tests.support.generators import GeneratorsUnavailable
from tests.support.verifying import BUILT
from tests.unit.poller_cluster.claimed import EPOCH, SENDER, claim, client

BUILDING_SECONDS = 300
pytestmark = pytest.mark.timeout(BUILDING_SECONDS)
KEY = b"0123456789abcdef0123456789abcdef"
SECRET = f"whsec_{base64.b64encode(KEY).decode()}"
BODY = b'{"to": "J\xc3\xb6rg"}'


@dataclass(frozen=True)
class Receiver:
    url: str
    output: Path

    @property
    def called(self) -> list[str]:
        said = self.output.read_text(encoding="utf-8")
        return [line for line in said.splitlines() if line.startswith("called for ")]


@pytest.fixture(scope="module", params=BUILT)
def receiver(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    directory = tmp_path_factory.mktemp(request.param)
    try:
        command = BUILT[request.param](directory)
    except GeneratorsUnavailable as error:
        pytest.skip(f"the guide's program in {request.param} was NOT tried: {error}")
    (port,) = free_ports(1)
    output = directory / "output"
    with output.open("w") as file:
        process = subprocess.Popen(
            [*command, str(port)],
            cwd=directory,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "SIGNING_SECRET": SECRET, "LC_ALL": "C.UTF-8"},
        )
    try:
        _await_answer(process, port, output)
        yield Receiver(f"http://127.0.0.1:{port}/hook", output)
    finally:
        process.kill()
        process.wait()


def _await_answer(process: subprocess.Popen[bytes], port: int, output: Path) -> None:
    deadline = time.monotonic() + 30
    while True:
        assert process.poll() is None, output.read_text()
        assert time.monotonic() < deadline, output.read_text()
        try:
            httpx.get(f"http://127.0.0.1:{port}/", trust_env=False)
        except httpx.TransportError:
            time.sleep(0.05)
        else:
            return


def call(receiver: Receiver, *, secrets: tuple[bytes, ...] = (KEY,), age_seconds: int = 0) -> CallbackRequest:
    """The call of a schedule that is due now, as it was signed so long ago."""
    now = CLOCK.wall_ms() - 1000 * age_seconds
    row: dict[str, Any] = {"method": "POST", "headers": '[["content-type","application/json"]]', "body": BODY}
    of = claim(due=now, url=receiver.url, **row)
    made = prepare(of, client=client(secrets=secrets), epoch=EPOCH, sender=SENDER, now=now)
    assert isinstance(made, Prepared)
    return made.request


async def test_it_takes_what_is_signed(engine: DeliveryEngine, receiver: Receiver) -> None:
    before = receiver.called
    right, rotated = call(receiver), call(receiver, secrets=(b"another secret, made meanwhile!!", KEY))
    for request in (right, rotated):
        assert (await attempt(engine, request)).status == 204
    ids = [dict(request.headers)["webhook-id"] for request in (right, rotated)]
    assert receiver.called == [*before, *(f"called for {id_} {BODY.decode()}" for id_ in ids)]


async def test_it_refuses_all_others(engine: DeliveryEngine, receiver: Receiver) -> None:
    before, right = receiver.called, call(receiver)
    refused = {
        "changed": msgspec.structs.replace(right, body=BODY.replace(b"J", b"G")),
        "of another secret": call(receiver, secrets=(b"somebody else's, of 32 bytes too",)),
        "unsigned": call(receiver, secrets=()),
        "old": call(receiver, age_seconds=330),
        "of tomorrow": call(receiver, age_seconds=-330),
    }
    statuses = {name: (await attempt(engine, request)).status for name, request in refused.items()}
    assert statuses == dict.fromkeys(refused, 401)
    assert receiver.called == before
