"""SIGTERM under load: an API process answers every request it has read, and a node's calls are made once.

It prints how long a process takes to exit, what its callers were answered, and how late its calls became.
"""

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from minutehand.processes.programs import Program
from tests.support.cassandra import SuiteCassandra
from tests.support.connections import Kept, kept_connections
from tests.support.processes import Deployment, deployment

CLIENT = "drained"
QUOTA = 8
DELAY_SECONDS = 1.0
LOAD_SECONDS = 2.0
EXIT_SECONDS = 20.0
LATE_SECONDS = 2.0
"""The longest delay by a planned move (as in the cluster's test)."""


@pytest.fixture
def pair(cassandra: SuiteCassandra, tmp_path: Path) -> Iterator[Deployment]:
    with deployment(cassandra, tmp_path, tables={"api": {"shutdown_delay_seconds": DELAY_SECONDS}}) as built:
        built.start_api()
        for name in ("a", "b"):
            built.start_node(name, ready=False)
        yield built


def test_ending_under_load_loses_nothing(pair: Deployment, show: Callable[..., None]) -> None:
    key = pair.register(CLIENT, poller_quota=QUOTA)
    pair.await_owners({"a", "b"}, pollers=QUOTA)
    figures: list[str] = []

    with kept_connections(pair, CLIENT, key) as node_load:
        time.sleep(LOAD_SECONDS)
        figures.append(f"a node ends in {end(pair.programs['a']):.2f} s")
        time.sleep(LOAD_SECONDS)
    assert not node_load.lost
    assert node_load.statuses.keys() == {201}

    with kept_connections(pair, CLIENT, key, obeys=True) as told:
        time.sleep(LOAD_SECONDS)
        asked_at = time.monotonic()
        figures.append(f"an API that says so first ends in {end(pair.programs['api']):.2f} s: {told}")
    assert told.unready_at is not None
    assert told.unready_at - asked_at < DELAY_SECONDS, "unready first, closed later"
    assert told.reasons == {"stopping"}
    assert_nothing_lost(told)
    assert told.refused == 0

    pair.start_api(variables={"MINUTEHAND_API_SHUTDOWN_DELAY_SECONDS": "0"})
    with kept_connections(pair, CLIENT, key) as untold:
        time.sleep(LOAD_SECONDS)
        figures.append(f"an API that ends at once does in {end(pair.programs['api']):.2f} s: {untold}")
    assert_nothing_lost(untold)

    pair.start_api()
    stored = labels_of_stored(pair, key)
    for load in (node_load, told, untold):
        for label, schedule_id in load.acknowledged.items():
            assert stored.pop(schedule_id) == label
    assert not stored, "who was not answered was not heard"

    wanted = {one for load in (node_load, told, untold) for one in load.acknowledged.values()}
    pair.receiver.await_count(len(wanted), seconds=30.0)
    calls = pair.receiver.calls()
    times_called = Counter(call["id"] for call in calls)
    latest = max(call["arrived"] - call["due"] for call in calls)
    figures.append(f"{len(wanted)} schedules, {len(calls)} calls, at most {latest:.3f} s late")
    show(*figures)
    assert times_called.keys() == wanted
    assert set(times_called.values()) == {1}
    assert latest < LATE_SECONDS


def end(program: Program) -> float:
    """Send SIGTERM, check that the process exits in good order, and return how long it took."""
    began = time.monotonic()
    program.send(signal.SIGTERM)
    while program.exit_code() is None:
        assert time.monotonic() - began < EXIT_SECONDS, program.last_words()
        time.sleep(0.01)
    assert program.exit_code() == 0, program.last_words()
    return time.monotonic() - began


def assert_nothing_lost(load: Kept) -> None:
    assert load.lost == []
    assert load.statuses.keys() == {201}
    assert load.closed_politely > 0
    assert load.acknowledged


def labels_of_stored(cluster: Deployment, key: str) -> dict[str, str | None]:
    """Labels of the stored schedules by id."""
    now = datetime.now(UTC)
    with cluster.client(CLIENT, key) as client:
        found = client.schedules.list(
            start=now - timedelta(minutes=10), end=now + timedelta(minutes=10), page_size=1000
        )
        return {one.schedule_id: one.label for one in found}
