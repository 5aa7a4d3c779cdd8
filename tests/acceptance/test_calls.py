"""Whole processes call every schedule once, at its second, whichever process dies."""

import time
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from minutehand.client import Callback, MinutehandApiError, NewSchedule
from tests.support.cassandra import SuiteCassandra, embedded_cluster, session_of
from tests.support.processes import Deployment, deployment

CLIENT = "acceptance"
BATCH = 500


def create(cluster: Deployment, key: str, count: int, *, start: datetime, over_seconds: float) -> set[str]:
    """Create `count` schedules spread evenly from `start` on; returns their ids."""
    callback = Callback(url=cluster.receiver.url, json={"for": "acceptance"})
    step = timedelta(seconds=over_seconds) / count
    schedules = [NewSchedule(callback=callback, due=start + step * number) for number in range(count)]
    ids = set()
    with cluster.client(CLIENT, key) as client:
        for begin in range(0, count, BATCH):
            for item in client.schedules.create_batch(schedules[begin : begin + BATCH]):
                assert item.schedule is not None, item.problem
                ids.add(item.schedule.schedule_id)
    assert len(ids) == count
    assert datetime.now(UTC) < start, "creating took too long for this test to say anything"
    return ids


def delivered(cluster: Deployment, key: str, *, start: datetime, over_seconds: float) -> set[str]:
    end = start + timedelta(seconds=over_seconds)
    with cluster.client(CLIENT, key) as client:
        found = client.schedules.list(start=start, end=end, state="delivered", page_size=1000)
        return {schedule.schedule_id for schedule in found}


def await_delivered(cluster: Deployment, key: str, ids: set[str], *, start: datetime, over_seconds: float) -> None:
    """Wait for the outcomes, which are written a little after the calls."""
    deadline = time.monotonic() + 20
    while (found := delivered(cluster, key, start=start, over_seconds=over_seconds)) != ids:
        assert time.monotonic() < deadline, f"{len(ids - found)} outcomes are missing, {len(found - ids)} too many"
        time.sleep(1.0)


def packed(cluster: Deployment) -> tuple[int, int]:
    """Counts the rows whose content is one cell, and those whose delivery is."""
    with session_of(cluster.storage.contact_points[0], cluster.storage.port) as session:
        every = session.execute(
            f"SELECT client_id, url, content, attempts, delivery FROM {cluster.storage.keyspace}.schedules"
        )
        rows = [row for row in every if row.client_id == CLIENT]
    return (
        sum(1 for row in rows if row.content is not None and row.url is None),
        sum(1 for row in rows if row.delivery is not None and row.attempts is None),
    )


def sleep_until(instant: datetime) -> None:
    time.sleep(max((instant - datetime.now(UTC)).total_seconds(), 0))


def repeats(cluster: Deployment) -> dict[str, list[dict[str, Any]]]:
    """The calls of every schedule that was called more than once, in order of arrival."""
    by_id = defaultdict(list)
    for call in cluster.receiver.calls():
        by_id[call["id"]].append(call)
    return {id_: sorted(calls, key=lambda call: call["arrived"]) for id_, calls in by_id.items() if len(calls) > 1}


def test_ten_thousand_over_two_minutes_all_come_once_and_in_time(cassandra: SuiteCassandra, tmp_path: Path) -> None:
    with deployment(cassandra, tmp_path) as cluster:
        _ten_thousand(cluster)


def _ten_thousand(cluster: Deployment) -> None:
    cluster.start_api()
    cluster.start_node("one")
    key = cluster.register(CLIENT, poller_quota=8)
    start, seconds = datetime.now(UTC) + timedelta(seconds=20), 120.0
    ids = create(cluster, key, 10_000, start=start, over_seconds=seconds)
    sleep_until(start + timedelta(seconds=seconds))
    cluster.receiver.await_count(len(ids), seconds=30)
    report = cluster.receiver.report()
    assert (report["calls"], report["unique"]) == (10_000, 10_000)
    assert report["early"] == 0
    assert report["lateness_ms"]["p99"] <= 1000, report
    await_delivered(cluster, key, ids, start=start, over_seconds=seconds)
    assert packed(cluster) == (len(ids), len(ids)), "the only node knows what may be written"


def test_a_killed_node_loses_nothing_and_repeats_only_what_was_in_flight(cluster: Deployment) -> None:
    cluster.start_api()
    node = cluster.start_node("one")
    key = cluster.register(CLIENT, poller_quota=4)
    start, seconds = datetime.now(UTC) + timedelta(seconds=12), 36.0
    ids = create(cluster, key, 1_800, start=start, over_seconds=seconds)
    sleep_until(start + timedelta(seconds=12))
    killed = time.time()
    node.kill()
    cluster.start_node("one")
    sleep_until(start + timedelta(seconds=seconds))
    assert cluster.receiver.await_count(len(ids), seconds=30) == len(ids)
    assert cluster.receiver.report()["early"] == 0
    for calls in repeats(cluster).values():
        first, *others = calls
        assert killed - 3.0 < first["arrived"] < killed + 1.0, "it was not in flight when the node died"
        assert all(call["redelivery"] for call in others)
    await_delivered(cluster, key, ids, start=start, over_seconds=seconds)


def test_while_cassandra_is_away_creates_are_refused_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    with embedded_cluster(1) as nodes:
        server = SuiteCassandra(nodes.contact_points, nodes.port, nodes.datacenter, None)
        with deployment(server, tmp_path) as cluster:
            cluster.start_api()
            cluster.start_node("one")
            key = cluster.register(CLIENT, poller_quota=2)
            start, seconds = datetime.now(UTC) + timedelta(seconds=10), 30.0
            ids = create(cluster, key, 900, start=start, over_seconds=seconds)
            sleep_until(start + timedelta(seconds=8))
            stopped = time.monotonic()
            nodes.nodes[0].stop()
            refusal = refused_create(cluster, key)
            assert refusal.status == 503
            assert refusal.retry_after_seconds is not None
            time.sleep(max(stopped + 8.0 - time.monotonic(), 0))
            nodes.restart(0)
            back = time.monotonic() - stopped
            assert cluster.receiver.await_count(len(ids), seconds=60) == len(ids), f"it was away for {back:.0f} s"
            assert cluster.receiver.report()["early"] == 0
            assert all(call["redelivery"] for calls in repeats(cluster).values() for call in calls[1:])
            await_delivered(cluster, key, ids, start=start, over_seconds=seconds)


def refused_create(cluster: Deployment, key: str) -> MinutehandApiError:
    """A create that is refused; the refusal must arrive within the API's own time-out."""
    began = time.monotonic()
    callback = Callback(url=cluster.receiver.url)
    with cluster.client(CLIENT, key) as client, pytest.raises(MinutehandApiError) as caught:
        client.schedules.create(callback, delay_seconds=300)
    assert time.monotonic() - began < 7.0
    return caught.value
