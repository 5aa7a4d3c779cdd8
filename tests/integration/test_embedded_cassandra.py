"""The embedded Cassandra is a real one: it stores, restarts, joins a cluster, and ends with its program."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, Session
from cassandra.policies import RoundRobinPolicy

from minutehand.local import EmbeddedCassandra
from minutehand.local.machine import free_ports
from minutehand.local.stages import STAGES, StartStages
from minutehand.processes.identity import identify, is_alive
from tests.support.cassandra import embedded_cluster

# A start takes five seconds, or half a minute where six others compete for the cores.
pytestmark = [pytest.mark.cassandra, pytest.mark.timeout(600)]

ORPHAN_SECONDS = 5.0
STARTER = """
import signal, sys
from pathlib import Path
from minutehand.local import start_cassandra
print(start_cassandra(Path(sys.argv[1]), heap_mb=512).pid, flush=True)
signal.pause()
"""


@contextmanager
def session(contact_points: tuple[str, ...], port: int) -> Iterator[Session]:
    profile = ExecutionProfile(
        load_balancing_policy=RoundRobinPolicy(),
        consistency_level=ConsistencyLevel.LOCAL_QUORUM,
        serial_consistency_level=ConsistencyLevel.LOCAL_SERIAL,
        request_timeout=20.0,
    )
    cluster = Cluster(
        list(contact_points), port=port, protocol_version=5, execution_profiles={EXEC_PROFILE_DEFAULT: profile}
    )
    try:
        yield cluster.connect()
    finally:
        cluster.shutdown()


def make_table(connected: Session, replicas: int) -> None:
    connected.execute(
        f"CREATE KEYSPACE k WITH replication = {{'class': 'NetworkTopologyStrategy', 'datacenter1': {replicas}}}"
    )
    connected.execute("CREATE TABLE k.t (key int PRIMARY KEY, value int)")


def test_what_was_acknowledged_survives_a_kill_and_a_stop(tmp_path: Path) -> None:
    native_port, storage_port = free_ports(2)
    recipe = EmbeddedCassandra(
        data_dir=tmp_path, native_port=native_port, storage_port=storage_port, heap_mb=512, durable=True
    )
    shares: list[int] = []
    with recipe.start(lambda done, total, what: shares.append(done) if what.startswith("starting") else None) as first:
        assert StartStages(first.log_file, began=0.0).percent(0.0) == STAGES[-1][1], "all stages are in the log"
        assert shares == sorted(shares)
        assert len(set(shares)) > len(STAGES), "it moves within a stage too"
        with session(first.contact_points, first.port) as connected:
            version = connected.execute("SELECT release_version, data_center FROM system.local").one()
            assert tuple(version) == ("5.0.9", first.datacenter)
            make_table(connected, 1)
            connected.execute("INSERT INTO k.t (key, value) VALUES (1, 1)")
        first.kill()
    with recipe.start() as second, session(second.contact_points, second.port) as connected:
        assert StartStages(second.log_file, began=0.0).percent(0.0) == STAGES[-1][1], "so they are with data"
        applied = connected.execute("UPDATE k.t SET value = 2 WHERE key = 1 IF value = 1").one()
        assert applied.applied
    with recipe.start() as third, session(third.contact_points, third.port) as connected:
        rejected = connected.execute("UPDATE k.t SET value = 3 WHERE key = 1 IF value = 1").one()
        assert (rejected.applied, rejected.value) == (False, 2)
        third.kill()
    assert not third.is_running()


def test_a_killed_program_leaves_no_orphan(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", STARTER, tmp_path], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        server = identify(int(program.stdout.readline()))
        assert server is not None
        os.kill(program.pid, signal.SIGKILL)
        deadline = time.monotonic() + ORPHAN_SECONDS
        while is_alive(server) and time.monotonic() < deadline:
            time.sleep(0.05)
    assert not is_alive(server)


def test_nodes_on_several_addresses_make_one_cluster() -> None:
    with embedded_cluster(2) as cluster, session(cluster.contact_points, cluster.port) as connected:
        nodes = {str(host.address) for host in connected.cluster.metadata.all_hosts()}
        assert nodes == {"127.0.0.1", "127.0.0.2"}
        make_table(connected, 2)
        for key in range(10):
            applied = connected.execute("INSERT INTO k.t (key, value) VALUES (%s, 1) IF NOT EXISTS", [key]).one()
            assert applied.applied
