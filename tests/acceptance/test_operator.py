"""What an operator sees and does: several nodes on one machine, the cluster's overview, a node that drains."""

import json
import signal
import time
from collections.abc import Callable

from minutehand.client import Cluster, Node
from minutehand.processes.identity import ProcessIdentity, identify, is_alive, send_signal
from minutehand.processes.programs import Program
from scheduler_service.domain.crons.row import CRON_CLIENT
from scheduler_service.domain.notices import EVENTS_CLIENT, EVENTS_POLLERS
from scheduler_service.usecases.clients import CRON_POLLERS
from tests.support.processes import Deployment

QUOTA = 12
ALL = QUOTA + CRON_POLLERS + EVENTS_POLLERS


def test_two_nodes_of_one_command_share_the_pollers_and_one_hands_its_own_over(cluster: Deployment) -> None:
    cluster.start_api()
    cluster.register("shop", poller_quota=QUOTA)
    parent = cluster.start_nodes("host", processes=2)

    # The first node may own everything for a moment, and a beat may be slow on a server that has just created tables.
    found = await_cluster(
        cluster,
        lambda seen: (
            seen.pollers.owned == ALL and len(living(seen)) == 2 and all(shares(seen).values()) and all_beat(seen)
        ),
    )
    assert {node.node_id for node in found.nodes} == {"host-0", "host-1"}
    assert found.guaranteed_calls_per_minute == ALL * 1_000
    assert found.capacity_per_minute == sum(node.capacity_per_minute for node in found.nodes)
    with cluster.admin() as api:
        pollers = api.client("shop").pollers()
        built_in = [*api.client(CRON_CLIENT).pollers(), *api.client(EVENTS_CLIENT).pollers()]
    assert [one.poller_id for one in pollers] == list(range(QUOTA))
    owners = [one.owner.node_id for one in (*pollers, *built_in) if one.owner is not None]
    assert {name: owners.count(name) for name in ("host-0", "host-1")} == {
        node.node_id: node.pollers for node in found.nodes
    }
    assert all(one.epoch >= 1 and one.backlog == 0 for one in pollers)

    with cluster.admin() as api:
        assert api.nodes.drain("host-0").state == "draining"
    await_cluster(cluster, lambda seen: states(seen) == {"host-0": "draining", "host-1": "live"})
    await_cluster(cluster, lambda seen: shares(seen) == {"host-0": 0, "host-1": ALL})

    # Only an incarnation drains: the process that follows it takes its share again.
    drained = next(node for node in found.nodes if node.node_id == "host-0")
    assert send_signal(process_of(parent, "host-0"), signal.SIGKILL)
    await_cluster(cluster, lambda seen: newest(seen, "host-0").incarnation > drained.incarnation)
    await_cluster(cluster, lambda seen: all(shares(seen).values()) and seen.pollers.owned == ALL)

    children = [process_of(parent, name) for name in ("host-0", "host-1")]
    parent.stop(40.0)
    assert not any(map(is_alive, children))
    await_cluster(cluster, lambda seen: set(states(seen).values()) == {"left"} and seen.pollers.owned == 0)


def await_cluster(cluster: Deployment, reached: Callable[[Cluster], bool], *, seconds: float = 45.0) -> Cluster:
    deadline = time.monotonic() + seconds
    with cluster.admin() as api:
        while not reached(found := api.cluster()):
            assert time.monotonic() < deadline, found
            time.sleep(0.5)
    return found


def process_of(parent: Program, node_id: str) -> ProcessIdentity:
    """The running process that the parent started last under that name."""
    lines = [json.loads(line) for line in parent.log_file.read_text(encoding="utf-8").splitlines()]
    pids = [line["pid"] for line in lines if line["action"] == "process-started" and line["process"] == node_id]
    found = identify(pids[-1])
    assert found is not None
    return found


def newest(found: Cluster, node_id: str) -> Node:
    return max((node for node in found.nodes if node.node_id == node_id), key=lambda node: node.incarnation)


def living(found: Cluster) -> list[Node]:
    return [node for node in found.nodes if node.state == "live"]


def states(found: Cluster) -> dict[str, str]:
    return {node.node_id: node.state for node in found.nodes}


def all_beat(found: Cluster) -> bool:
    return all(node.beat_age_seconds is not None and node.beat_age_seconds < 3 for node in found.nodes)


def shares(found: Cluster) -> dict[str, int]:
    return {node.node_id: node.pollers for node in found.nodes}
