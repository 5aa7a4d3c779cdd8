"""Fixtures of the console's suite: a real browser before an API, two nodes and a receiver over a real Cassandra.

The processes are started once for all tests; each test has a browser tab of its own, without cookies.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest
from playwright.sync_api import Browser

from minutehand.client import Callback, Retry
from tests.support.cassandra import SuiteCassandra
from tests.support.chromium import CHROMIUM, MISSING, ask, chromium
from tests.support.processes import Deployment, deployment

_SETTLED_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Shop:
    """A client with a call that failed at its destination `orders`, and one that was taken. `key` may manage, `reading`
    only read; `other` is the key of another client."""

    cluster: Deployment
    key: str
    reading: str
    other: str
    failed: str
    delivered: str

    @property
    def url(self) -> str:
        return self.cluster.api_url

    def state(self, schedule_id: str) -> str:
        return str(self.ask("GET", f"/schedules/{schedule_id}").json()["state"])

    def ask(self, method: str, path: str, json: object = None) -> httpx.Response:
        return ask(self.url, self.key, method, f"/v1/clients/shop{path}", json)

    def fail(self) -> str:
        """A call that fails for good."""
        with self.cluster.client("shop", self.key) as client:
            made = client.schedules.create(
                Callback(destination="orders"), delay_seconds=0, retry=Retry(max_attempts=1), label="newsletter"
            )
        return self.settled(made.schedule_id, "failed")

    def waits(self, key: str | None = None) -> str:
        """A call that waits for a day, perhaps under a key of the client's own."""
        callback = Callback(url=self.cluster.receiver.url, headers={"X-Account": "number-4711"}, body="a secret text")
        with self.cluster.client("shop", self.key) as client:
            if key is None:
                return str(client.schedules.create(callback, delay_seconds=86_000).schedule_id)
            return str(client.schedules.put(key, callback, delay_seconds=86_000).schedule_id)

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
def shop(installed: None, cassandra: SuiteCassandra, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with deployment(cassandra, tmp_path_factory.mktemp("console")) as cluster:
        cluster.start_api()
        for name in ("one", "two"):
            cluster.start_node(name)
        keys = {name: cluster.register(name, poller_quota=4, event_feed=True) for name in ("shop", "other")}
        cluster.await_owners(["one", "two"], pollers=8)
        yield _furnished(cluster, keys["other"])


def _furnished(cluster: Deployment, other: str) -> Shop:
    url, admin = cluster.api_url, cluster.admin_key
    manage, reading = (
        ask(url, admin, "POST", "/v1/clients/shop/keys", {"scope": scope, "name": scope}).json()["key"]
        for scope in ("manage", "read")
    )
    ask(url, manage, "PUT", "/v1/clients/shop/destinations/orders", {"url": f"{cluster.receiver.url}/down"})
    cron = {"expression": "30 2 * * *", "timezone": "Europe/Berlin", "callback": {"url": cluster.receiver.url}}
    ask(url, manage, "PUT", "/v1/clients/shop/crons/nightly", cron)
    with cluster.client("shop", manage) as client:
        callback = Callback(url=cluster.receiver.url, headers={"X-Account": "number-4711"}, body="a secret text")
        taken = client.schedules.create(callback, delay_seconds=0)
    empty = Shop(cluster, manage, reading, other, "", str(taken.schedule_id))
    shop = Shop(cluster, manage, reading, other, empty.fail(), empty.delivered)
    shop.settled(shop.delivered, "delivered")
    return shop
