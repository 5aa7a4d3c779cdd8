"""A consumer reads the feed through kills and restarts of everything, and misses the end of no schedule."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from minutehand.client import Callback, Event, Minutehand, MinutehandClientError, NewSchedule
from tests.support.cassandra import SuiteCassandra
from tests.support.processes import Deployment, deployment
from tests.support.steady_load import Rate, steady_load

CLIENT = "told"
QUOTA = 4
RATE = Rate(per_second=45.0, soonest=3.0, latest=12.0)
OUTAGE_SECONDS = 12.0
CANCELS = 150
"""Schedules that are cancelled while the processes come and go. What becomes of a hint that is lost with one of them is
seen by the sweep of their minute."""
AHEAD_SECONDS = 150.0
LAST_SECONDS = 150.0
"""An owner that takes over tells of ends at the latest with the sweep of their minutes."""


class Consumer:
    """Reads events in a thread. Every few hundred it is started again from the cursor that it had kept: a program that
    keeps its cursor with what it has done."""

    def __init__(self, built: Deployment, key: str) -> None:
        self.seen: dict[str, set[str]] = {}
        self.ids: set[str] = set()
        self.repeated = 0
        self.errors: list[BaseException] = []
        self._built, self._key = built, key
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(60)
        if self.errors:
            raise self.errors[0]

    def missing(self, wanted: dict[str, str]) -> list[str]:
        return [one for one, kind in wanted.items() if kind not in self.seen.get(one, ())]

    def _run(self) -> None:
        cursor: str | None = "earliest"
        try:
            with Minutehand(self._built.api_url, self._key, retries=1) as api:
                while not self._over.is_set():
                    feed = api.client(CLIENT).events(after=cursor, page_size=100)
                    for number, event in enumerate(feed):
                        self._see(event)
                        if number >= 400 or self._over.is_set():
                            break
                    cursor = feed.cursor
        except BaseException as error:
            self.errors.append(error)

    def _see(self, event: Event) -> None:
        self.repeated += str(event.id) in self.ids
        self.ids.add(str(event.id))
        self.seen.setdefault(str(event.schedule_id), set()).add(event.type)


@pytest.fixture
def pair(cassandra: SuiteCassandra, tmp_path: Path) -> Iterator[Deployment]:
    with deployment(cassandra, tmp_path) as built:
        built.start_api()
        for name in ("a", "b"):
            built.start_node(name, ready=False)
        yield built


def repeatedly(request: Callable[[], object]) -> None:
    """Repeat a request until it is answered."""
    while True:
        try:
            request()
            return
        except MinutehandClientError:
            time.sleep(0.5)


def test_a_consumer_misses_no_end_through_any_fault(
    pair: Deployment, cassandra: SuiteCassandra, show: Callable[..., None]
) -> None:
    server = cassandra.running
    if server is None:
        pytest.skip("this Cassandra is not ours to freeze")
    key = pair.register(CLIENT, poller_quota=QUOTA, event_feed=True)
    pair.await_owners({"a", "b"}, pollers=QUOTA)
    consumer = Consumer(pair, key)
    consumer.start()
    wanted: dict[str, str] = {}
    with pair.client(CLIENT, key) as client:
        ahead = datetime.now(UTC) + timedelta(seconds=AHEAD_SECONDS)
        later = [NewSchedule(due=ahead, callback=Callback(url=pair.receiver.url)) for _ in range(CANCELS)]
        far = [one.schedule.schedule_id for one in client.schedules.create_batch(later) if one.schedule is not None]
        with steady_load(pair, CLIENT, key, rate=RATE) as steady:
            time.sleep(8)
            pair.programs["a"].kill()
            for one in far[:50]:
                repeatedly(lambda one=one: client.schedules.cancel(one))  # type: ignore[misc]
            time.sleep(8)
            pair.start_node("a")
            pair.programs["api"].kill()
            time.sleep(1)
            pair.start_api()
            time.sleep(5)
            server.pause()
            try:
                time.sleep(OUTAGE_SECONDS)
            finally:
                server.resume()
            for one in far[50:100]:
                repeatedly(lambda one=one: client.schedules.cancel(one))  # type: ignore[misc]
            time.sleep(5)
            pair.programs["b"].send(signal.SIGKILL)
            time.sleep(6)
            pair.start_node("b")
            pair.programs["api"].stop()
            pair.start_api()
            for one in far[100:]:
                repeatedly(lambda one=one: client.schedules.cancel(one))  # type: ignore[misc]
            pair.programs["a"].stop()
            pair.start_node("a")
            time.sleep(4)
        wanted |= dict.fromkeys((one.schedule_id for one in steady.acknowledged), "schedule.delivered")
        wanted |= dict.fromkeys(far, "schedule.cancelled")
        deadline = time.monotonic() + LAST_SECONDS
        while (missing := consumer.missing(wanted)) and time.monotonic() < deadline:
            time.sleep(1)
        consumer.stop()
        states = [f"{one}: {client.schedules.get(one).state}" for one in missing[:5]]
    show(
        f"{len(wanted)} schedules, {len(consumer.ids)} events, {consumer.repeated} of them shown again; "
        f"{len(missing)} missed"
    )
    assert not missing, states
    assert len(wanted) > 1500, "a load that proves something"
