"""Fixtures of the console's suite: a real browser before `minutehand demo`, reached as it says itself.

The demo is started once for all tests; each test has a browser tab of its own, without cookies.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import pytest
from playwright.sync_api import Browser, expect

from minutehand.client import Callback, ClientScope, ClientSettings, Minutehand, Retry
from minutehand.local.demo.files import CLIENT_ID
from minutehand.local.machine import free_ports
from minutehand.processes.programs import Program
from tests.support.chromium import CHROMIUM, MISSING, ask, chromium
from tests.support.demos import Running, invited
from tests.support.processes import Receiver

REFRESHED_MS = 6_000
"""After which a page that refreshes itself has done so."""
_SETTLED_SECONDS = 60.0
_SAID_SECONDS = 10.0
expect.set_options(timeout=15_000)


class Demo:
    """The demo as its user knows it: by the lines that it prints. `client_key`: that of its own client."""

    def __init__(self, running: Running, receiver: Receiver) -> None:
        self.running = running
        self.receiver = receiver
        self.url = self._said(r"In a browser: (\S+)/console$")
        self.client_key = self._said(r"as the client, log in with the key (\S+)$")
        self.admin_key = self._said(r"as the administrator, with the key (\S+)$")
        self._again: list[Program] = []

    def _said(self, pattern: str) -> str:
        return self.running.await_line(pattern, seconds=_SAID_SECONDS)[1]

    def kill_node(self, number: int) -> None:
        """End the demo's node of this number at once, as a crash would."""
        os.kill(self.running.state["pids"]["nodes"][number - 1], signal.SIGKILL)

    def start_node(self, number: int) -> None:
        """Start it again, by the command for nodes and the settings that the demo prints."""
        (port,) = free_ports(1)
        settings = self.running.variables["MINUTEHAND_CONFIG"]
        program = Program(
            f"node {number}",
            ["node", "--config", settings, "--processes", "1", "--node-id", f"demo-{number}"],
            log_file=self.running.directory.with_name(f"node-{number}.log"),
            variables={"MINUTEHAND_OPS_PORT": str(port)},
        )
        self._again.append(program)
        program.await_ready(f"http://127.0.0.1:{port}/readyz")

    def stop(self) -> None:
        for program in self._again:
            program.stop()

    @contextmanager
    def client(self, client_id: str, key: str) -> Iterator[ClientScope]:
        with Minutehand(self.url, key, timeout_seconds=60, retries=0) as api:
            yield api.client(client_id)

    def ask(self, method: str, path: str, json: object = None, *, key: str | None = None) -> httpx.Response:
        """A request to the API, as the administrator or with another key."""
        return ask(self.url, key or self.admin_key, method, path, json)

    def of_own(self, method: str, path: str, json: object = None) -> httpx.Response:
        """A request on the demo's own client."""
        return self.ask(method, f"/v1/clients/{CLIENT_ID}{path}", json)


@dataclass(frozen=True, slots=True)
class Shop:
    """A client with a call that failed at its destination `orders`, and one that was taken. `key` may manage, `reading`
    only read; `other` is the key of another client."""

    demo: Demo
    key: str
    reading: str
    other: str
    failed: str
    delivered: str

    @property
    def url(self) -> str:
        return self.demo.url

    def state(self, schedule_id: str) -> str:
        return str(self.ask("GET", f"/schedules/{schedule_id}").json()["state"])

    def ask(self, method: str, path: str, json: object = None) -> httpx.Response:
        return ask(self.url, self.key, method, f"/v1/clients/shop{path}", json)

    def fail(self, *, label: str = "newsletter") -> str:
        """A call that fails for good."""
        with self.demo.client("shop", self.key) as client:
            made = client.schedules.create(
                Callback(destination="orders"), delay_seconds=0, retry=Retry(max_attempts=1), label=label
            )
        return self.settled(made.schedule_id, "failed")

    def call(self, *, key: str | None = None, delay_seconds: int = 0) -> str:
        """A call that is taken, perhaps later and under a key of the client's own."""
        callback = Callback(url=self.demo.receiver.url, headers={"X-Account": "number-4711"}, body="a secret text")
        with self.demo.client("shop", self.key) as client:
            if key is None:
                return str(client.schedules.create(callback, delay_seconds=delay_seconds).schedule_id)
            return str(client.schedules.put(key, callback, delay_seconds=delay_seconds).schedule_id)

    def waits(self, key: str | None = None) -> str:
        """A call that waits for a day."""
        return self.call(key=key, delay_seconds=86_000)

    def settled(self, schedule_id: str, state: str) -> str:
        deadline = time.monotonic() + _SETTLED_SECONDS
        while (found := self.state(schedule_id)) != state:
            assert time.monotonic() < deadline, f"{schedule_id} is {found}, not {state}"
            time.sleep(0.1)
        return schedule_id


@pytest.fixture(scope="session")
def installed() -> None:
    if CHROMIUM is None:
        pytest.skip(MISSING)


@pytest.fixture(scope="session")
def browser(installed: None, shop: Shop) -> Iterator[Browser]:
    """Begun last and ended first: its driver occupies this thread's event loop."""
    with chromium() as launched:
        yield launched


@pytest.fixture(scope="session")
def demo(installed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    directory = tmp_path_factory.mktemp("console")
    receiver = Receiver(directory)
    try:
        with invited(directory) as running:
            found = Demo(running, receiver)
            try:
                yield found
            finally:
                found.stop()
    finally:
        receiver.program.stop(2.0)


@pytest.fixture(scope="session")
def shop(demo: Demo) -> Shop:
    # No test here is about the limit of creates.
    settings: ClientSettings = {"create_rate_per_second": 1_000_000, "event_feed": True}
    keys: dict[tuple[str, str], str] = {}
    with Minutehand(demo.url, demo.admin_key, timeout_seconds=60, retries=0) as admin:
        for name in ("shop", "other"):
            admin.clients.register(name, poller_quota=4, settings=settings)
            for scope in ("manage", "read"):
                keys[name, scope] = admin.client(name).keys.create(scope=scope, name=scope).key
    manage, receiver = keys["shop", "manage"], demo.receiver.url
    at = "/v1/clients/shop"
    demo.ask("PUT", f"{at}/destinations/orders", {"url": f"{receiver}/down"})
    cron = {"expression": "30 2 * * *", "timezone": "Europe/Berlin", "callback": {"url": receiver}}
    demo.ask("PUT", f"{at}/crons/nightly", cron)
    empty = Shop(demo, manage, keys["shop", "read"], keys["other", "manage"], "", "")
    delivered = empty.call()
    shop = Shop(demo, manage, keys["shop", "read"], keys["other", "manage"], empty.fail(), delivered)
    shop.settled(shop.delivered, "delivered")
    return shop
