"""The real Cassandra that a test session runs on.

A pytest plugin: the option `--cassandra` and the session fixture `cassandra`. The server is, in this order: a container
(`--cassandra=testcontainers`), the running cluster that `MINUTEHAND_CASSANDRA_CONTACT_POINTS` names
(`host[:port],host[:port]`, data centre in `MINUTEHAND_CASSANDRA_DATACENTER`), or an embedded one on free ports in a
temporary directory that dies with the test process.
"""

import gc
import os
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cql.session import Session
from minutehand.local import EmbeddedCassandra, ProgressLines, RunningCassandra, start_cassandra
from minutehand.local.machine import free_ports
from minutehand.local.settings import FIRST_COMPILER
from scheduler_service.domain.ids import HOUR_MS
from scheduler_service.runtime.clock import SystemClock

OPTION = "--cassandra"
CONTACT_POINTS_VARIABLE = "MINUTEHAND_CASSANDRA_CONTACT_POINTS"
DATACENTER_VARIABLE = "MINUTEHAND_CASSANDRA_DATACENTER"
DEFAULT_PORT = 9042
COLD_SECONDS = 30.0
"""The longest time for a connection to a server that has just begun to answer, on a busy machine."""
IMAGE = "cassandra:5.0"
FRUGAL = (
    FIRST_COMPILER,
    "-XX:-UseG1GC",
    "-XX:+UseSerialGC",
    "-Dorg.apache.cassandra.disable_mbean_registration=true",
    "-Dcassandra.dehr_stripe_count=1",
    "-Dcassandra.approximate_time_precision_ms=50",
)
"""JVM options with which a server needs less CPU time to start, to change its schema and to wait: no hundred metrics a
table for JMX, which nobody reads, and a clock for its own time-outs that ticks 20 times a second instead of 500."""
SHORT_LIVED = (*FRUGAL, "-Dcassandra.test.flush_local_schema_changes=false", "-Dcassandra.unsafesystem=true")
"""Options of a server that serves one test session and is not restarted: what it stores about itself need not survive
it, so that dozens of flushes are left out whenever a keyspace is made or emptied."""


@dataclass(frozen=True, slots=True)
class SuiteCassandra:
    """What tests connect to. `running` is None when the server belongs to somebody else, so that tests must not stop,
    pause or kill it. Keyspaces made in it get `replication_factor` copies. `emptied` are those that a test has left.
    """

    contact_points: tuple[str, ...]
    port: int
    datacenter: str
    running: RunningCassandra | None
    replication_factor: int = 1
    emptied: list[str] = field(default_factory=list, compare=False)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        OPTION,
        default="embedded",
        choices=["embedded", "testcontainers"],
        help="where the suite's Cassandra comes from, unless MINUTEHAND_CASSANDRA_CONTACT_POINTS names one",
    )


@pytest.fixture(scope="session")
def cassandra(pytestconfig: pytest.Config) -> Iterator[SuiteCassandra]:
    """The session's Cassandra, started at its first use. Tests make a keyspace of their own in it."""
    with suite_cassandra(pytestconfig.getoption(OPTION)) as server:
        yield server


@contextmanager
def suite_cassandra(
    source: str = "embedded", *, environment: Mapping[str, str] = os.environ
) -> Iterator[SuiteCassandra]:
    """A Cassandra from `source` (`embedded` or `testcontainers`), or the one that the environment names."""
    if source == "testcontainers":
        with _container() as server:
            yield server
    elif named := environment.get(CONTACT_POINTS_VARIABLE):
        yield named_cassandra(named, environment.get(DATACENTER_VARIABLE, RunningCassandra.datacenter))
    else:
        with embedded_cassandra(java_options=SHORT_LIVED) as running:
            yield SuiteCassandra(running.contact_points, running.port, running.datacenter, running)


@contextmanager
def embedded_cassandra(*, heap_mb: int = 768, java_options: tuple[str, ...] = ()) -> Iterator[RunningCassandra]:
    """A separate embedded Cassandra on free ports; its data is deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="minutehand-cassandra-", ignore_cleanup_errors=True) as scratch:
        running = start_cassandra(
            Path(scratch) / "data", heap_mb=heap_mb, java_options=java_options, progress=ProgressLines()
        )
        try:
            yield running
        finally:
            running.kill()


class EmbeddedCluster:
    """Embedded nodes on 127.0.0.1, 127.0.0.2, ... that share their ports. Index 0 is the seed."""

    def __init__(self, recipes: list[EmbeddedCassandra]) -> None:
        self._recipes = recipes
        self.nodes: list[RunningCassandra] = []

    @property
    def contact_points(self) -> tuple[str, ...]:
        return tuple(recipe.host for recipe in self._recipes)

    @property
    def port(self) -> int:
        return self._recipes[0].native_port

    @property
    def datacenter(self) -> str:
        return RunningCassandra.datacenter

    def start_all(self) -> None:
        """Start the nodes one after another, because nodes may not join a ring at the same time."""
        for recipe in self._recipes:
            self.nodes.append(recipe.start(ProgressLines()))
        self.await_agreement()

    def restart(self, index: int) -> RunningCassandra:
        """Start a node again that was stopped or killed; its data is kept."""
        self.nodes[index] = self._recipes[index].start(ProgressLines())
        self.await_agreement()
        return self.nodes[index]

    def await_agreement(self, patience_seconds: float = 60.0) -> None:
        """Return when every running node knows every running node completely.

        A node answers CQL a moment before the others have learned everything about it, and until then a driver leaves
        it out.
        """
        hosts = [node.contact_points[0] for node in self.nodes if node.is_running()]
        deadline = time.monotonic() + patience_seconds
        for host in hosts:
            while _known_to(host, self.port) != set(hosts):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{host} does not know all of {hosts} after {patience_seconds} s")
                time.sleep(0.2)

    def stop(self, index: int) -> None:
        """Stop a node in good order: it flushes, leaves, and the others know at once."""
        self.nodes[index].stop()

    def kill(self, index: int) -> None:
        """Kill a node; the others notice after some seconds, and conditional writes may time out until then."""
        self.nodes[index].kill()

    def kill_all(self) -> None:
        for node in self.nodes:
            node.kill()


def _known_to(host: str, port: int) -> set[str]:
    """The nodes that `host` sees in the ring and about which it has everything that a driver asks for."""
    with session_of(host, port) as session:
        gossip = session.execute("SELECT address, status_with_port FROM system_views.gossip_info")
        normal = {str(row.address) for row in gossip if (row.status_with_port or "").startswith("NORMAL")}
        peers = session.execute("SELECT peer, host_id, rpc_address, schema_version, tokens FROM system.peers")
        return normal & ({str(row.peer) for row in peers if None not in row} | {host})


@contextmanager
def session_of(host: str, port: int) -> Iterator[Any]:
    """A driver session that asks this node only."""
    from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
    from cassandra.policies import WhiteListRoundRobinPolicy

    profile = ExecutionProfile(load_balancing_policy=WhiteListRoundRobinPolicy([host]))
    cluster = Cluster(
        [host],
        port=port,
        protocol_version=5,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        connect_timeout=COLD_SECONDS,
        control_connection_timeout=COLD_SECONDS,
    )
    try:
        yield cluster.connect()
    finally:
        cluster.shutdown()


@contextmanager
def embedded_cluster(
    count: int = 3, *, heap_mb: int = 512, java_options: tuple[str, ...] = FRUGAL
) -> Iterator[EmbeddedCluster]:
    """A cluster of embedded nodes, about 10 s a node to start. Fails where loopback has one address only (macOS)."""
    hosts = [f"127.0.0.{number}" for number in range(1, count + 1)]
    native_port, storage_port = free_ports(2, hosts)
    with tempfile.TemporaryDirectory(prefix="minutehand-cluster-", ignore_cleanup_errors=True) as scratch:
        cluster = EmbeddedCluster(
            [
                EmbeddedCassandra(
                    data_dir=Path(scratch) / f"node{number}",
                    host=host,
                    native_port=native_port,
                    storage_port=storage_port,
                    seeds=(hosts[0],),
                    heap_mb=heap_mb,
                    java_options=java_options,
                )
                for number, host in enumerate(hosts, start=1)
            ]
        )
        try:
            cluster.start_all()
            yield cluster
        finally:
            cluster.kill_all()


def named_cassandra(contact_points: str, datacenter: str) -> SuiteCassandra:
    """The cluster named by `host[:port],host[:port]`; all its nodes listen on the first port."""
    pairs = [point.strip().partition(":") for point in contact_points.split(",") if point.strip()]
    ports = [int(port) for _, _, port in pairs if port]
    return SuiteCassandra(tuple(host for host, _, _ in pairs), (ports or [DEFAULT_PORT])[0], datacenter, None)


@contextmanager
def _container() -> Iterator[SuiteCassandra]:
    if (why := docker_fault()) is not None:
        pytest.skip(f"No Docker daemon answers, so nothing was tested on {IMAGE} in a container: {why}")
    from testcontainers.community.cassandra import CassandraContainer

    with CassandraContainer(IMAGE) as container:
        host, port = container.get_contact_points()[0]
        yield SuiteCassandra((host,), int(port), container.get_local_datacenter(), None)


def docker_fault() -> str | None:
    """Why no container can be started on this machine, or None."""
    import docker

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the library leaves its socket open when it cannot connect
        try:
            docker.from_env(timeout=10).close()  # asks the daemon for its version
        except (docker.errors.DockerException, OSError) as error:
            return str(error)
        finally:
            gc.collect()
    return None


def hour_ahead() -> int:
    """The timestamp, in microseconds, of writes by a process whose clock is an hour ahead."""
    return (SystemClock().wall_ms() + HOUR_MS) * 1000


async def select_text(session: Session, text: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """A query on the server's own tables, which have no named statements."""
    answer = await session._blocking(lambda: session._driver.execute(text, tuple(parameters)), about="a system table")
    return [tuple(row) for row in answer]
