"""One client's receiver is down and everything restarts: the other clients' calls are on time."""

import signal
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.cassandra import EmbeddedCluster, SuiteCassandra, embedded_cluster
from tests.support.processes import Deployment, deployment
from tests.support.receivers_down import (
    NODES,
    QUIET,
    STRICKEN,
    Watched,
    create_doomed,
    next_minute,
    start_all,
    stop_all,
    watch,
)

KEYED, FREE = 700, 900
SECONDS = 35.0
"""How long the calls are watched after each restart."""


@pytest.fixture
def nodes() -> Iterator[EmbeddedCluster]:
    with embedded_cluster(1, heap_mb=768) as nodes:
        yield nodes


@pytest.fixture
def cluster(nodes: EmbeddedCluster, tmp_path: Path) -> Iterator[Deployment]:
    server = SuiteCassandra(nodes.contact_points, nodes.port, nodes.datacenter, None)
    with deployment(server, tmp_path) as built:
        yield built


def test_a_restart_amid_retries_of_one_client_costs_no_trust_and_no_other_clients_time(
    cluster: Deployment, nodes: EmbeddedCluster, show: Callable[..., None]
) -> None:
    start_all(cluster, None)
    doomed = cluster.register(STRICKEN, poller_quota=1)
    quiet = cluster.register(QUIET, poller_quota=4)
    start = next_minute(at_least_seconds=5)
    create_doomed(cluster, doomed, rows=KEYED, ordering_key="k", start=start)
    create_doomed(cluster, doomed, rows=FREE, ordering_key=None, start=start)
    # By then the minute is swept, and its rows point to retry rows in later minutes.
    time.sleep(max((start + timedelta(seconds=75) - datetime.now(UTC)).total_seconds(), 0))
    for how in (signal.SIGKILL, signal.SIGTERM):
        stop_all(cluster, nodes, how)
        start_all(cluster, nodes)
        judge(watch(cluster, quiet, seconds=SECONDS), how, show)


def judge(seen: Watched, how: signal.Signals, show: Callable[..., None]) -> None:
    """Check bounds that a machine of half the speed keeps; a regression exceeds them tenfold."""
    said = "\n".join([how.name, *seen.table(), f"at most {max(seen.lateness_s):.3f} s late"])
    show(said)
    assert seen.last.trusted == len(NODES), said
    assert seen.last.beats_failed <= 0.2 * seen.last.beats, said
    assert seen.last.edits <= KEYED + FREE, said
    assert seen.api_refusals == 0, said
    assert seen.missing == 0, said
    assert max(seen.lateness_s) < 8.0, said
