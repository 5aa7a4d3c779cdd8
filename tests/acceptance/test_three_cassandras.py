"""Three Cassandra servers with three replicas of everything: creates and calls go on while one is killed for a
minute.
"""

import time
from collections.abc import Callable
from pathlib import Path

from tests.support.cassandra import SuiteCassandra, embedded_cluster
from tests.support.processes import deployment
from tests.support.stages import Stages
from tests.support.steady_load import Rate, judge, longest_gap, steady_load

CLIENT = "acceptance"
QUOTA = 8
NODES = ("a", "b")
RATE = Rate(per_second=20.0)
VICTIM = 2

QUIET_SECONDS = 10.0
AWAY_SECONDS = 60.0
BACK_SECONDS = 10.0
SETTLED_SECONDS = 20.0
PLANNED_SECONDS = 2.0
# A write may time out between a server's death and its detection by the others.
GAP_SECONDS = 8.0
NOTICED_SECONDS = 12.0


def test_a_killed_cassandra_stops_neither_creates_nor_calls(tmp_path: Path, show: Callable[..., None]) -> None:
    with embedded_cluster(3) as servers:
        cassandra = SuiteCassandra(servers.contact_points, servers.port, servers.datacenter, None, replication_factor=3)
        stages = Stages()
        with deployment(cassandra, tmp_path) as cluster:
            cluster.start_api()
            for name in NODES:
                cluster.start_node(name)
            key = cluster.register(CLIENT, poller_quota=QUOTA)
            cluster.await_owners(NODES, pollers=QUOTA)
            with steady_load(cluster, CLIENT, key, rate=RATE) as load:
                stages.begin("three servers", at_most_late=PLANNED_SECONDS)
                time.sleep(QUIET_SECONDS)
                killed = stages.begin("one is killed", at_most_late=NOTICED_SECONDS)
                killed.doubt(range(QUOTA), since=killed.start, until=killed.start + NOTICED_SECONDS)
                servers.kill(VICTIM)
                time.sleep(SETTLED_SECONDS)
                stages.begin("two servers", at_most_late=PLANNED_SECONDS)
                time.sleep(AWAY_SECONDS - SETTLED_SECONDS)
                back = stages.begin("it comes back", at_most_late=NOTICED_SECONDS)
                servers.restart(VICTIM)
                time.sleep(BACK_SECONDS)
                end = time.time()
            verdict = judge(cluster, load, stages)
            arrivals = [call["arrived"] for call in cluster.receiver.calls()]
    gaps = [
        f"{what} stood still for {longest_gap(instants, start, until):.3f} s at most {when}"
        for when, start, until in (("after the kill", killed.start, back.start), ("at the return", back.start, end))
        for what, instants in (("creates", [one.at for one in load.acknowledged]), ("calls", arrivals))
    ]
    show(*verdict.lines, *gaps)
    assert not verdict.faults, verdict.told()
    assert load.longest_gap(killed.start, end) <= GAP_SECONDS, gaps
    assert longest_gap(arrivals, killed.start, end) <= GAP_SECONDS, gaps
