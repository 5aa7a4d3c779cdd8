"""Three nodes under a steady load lose no call and make none early, whatever fails.

Only calls in doubt are repeated: those sent by an owner that was killed, frozen or cut off from the store before it
could record the outcome. Planned moves repeat and delay nothing.
"""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from minutehand.client import ClientScope
from tests.support.cassandra import SuiteCassandra
from tests.support.processes import Deployment, deployment
from tests.support.stages import Stages
from tests.support.steady_load import Rate, judge, steady_load

CLIENT = "acceptance"
QUOTA = 24
NODES = ("a", "b", "c")
RATE = Rate(per_second=60.0)

PLANNED_SECONDS = 2.0
DEATH_SECONDS = 12.0
FROZEN_SECONDS = 15.0
OUTAGE_SECONDS = 20.0
TRUST_SECONDS = 4.0
BACK_SECONDS = 8.0
PATIENCE_SECONDS = 40.0
PAUSE_SECONDS = 3.0
WARM_SECONDS = 12.0


@pytest.fixture
def trio(cassandra: SuiteCassandra, tmp_path: Path) -> Iterator[Deployment]:
    with deployment(cassandra, tmp_path) as built:
        built.start_api()
        for name in NODES:
            built.start_node(name, ready=False)
        yield built


def test_every_schedule_is_called_through_every_fault_of_three_nodes(
    trio: Deployment, cassandra: SuiteCassandra, show: Callable[..., None]
) -> None:
    server = cassandra.running
    if server is None:
        pytest.skip("this Cassandra is not ours to freeze")
    key = trio.register(CLIENT, poller_quota=QUOTA)
    trio.await_owners(NODES, pollers=QUOTA)
    stages = Stages()
    load = steady_load(trio, CLIENT, key, rate=RATE)
    with trio.client(CLIENT, key) as client, load as steady:
        stages.begin("a quiet time", at_most_late=PLANNED_SECONDS)
        time.sleep(WARM_SECONDS)

        pollers = pollers_of(client, "a")
        stage = stages.begin("a is killed", at_most_late=DEATH_SECONDS)
        trio.programs["a"].kill()
        stage.doubt(pollers, since=stage.start, until=time.time())
        trio.await_owners({"b", "c"}, pollers=QUOTA)
        time.sleep(PAUSE_SECONDS)
        stages.begin("a comes back", at_most_late=PLANNED_SECONDS)
        trio.start_node("a")
        trio.await_owners(NODES, pollers=QUOTA)
        time.sleep(PAUSE_SECONDS)

        pollers = pollers_of(client, "b")
        stage = stages.begin("b is frozen", at_most_late=DEATH_SECONDS)
        trio.programs["b"].send(signal.SIGSTOP)
        stage.doubt(pollers, since=stage.start, until=time.time())
        time.sleep(FROZEN_SECONDS)
        stage = stages.begin("b goes on", at_most_late=PLANNED_SECONDS)
        stage.doubt_thawed(pollers, at=stage.start)
        trio.programs["b"].send(signal.SIGCONT)
        trio.await_owners({"a", "c"}, pollers=QUOTA)
        time.sleep(PAUSE_SECONDS)
        await_end(trio, "b")
        trio.start_node("b")
        trio.await_owners(NODES, pollers=QUOTA)
        time.sleep(PAUSE_SECONDS)

        stages.begin("c is told to end", at_most_late=PLANNED_SECONDS)
        trio.programs["c"].stop()
        trio.await_owners({"a", "b"}, pollers=QUOTA)
        time.sleep(PAUSE_SECONDS)
        stages.begin("c comes back", at_most_late=PLANNED_SECONDS)
        trio.start_node("c")
        trio.await_owners(NODES, pollers=QUOTA)
        time.sleep(PAUSE_SECONDS)

        for name in NODES:
            stages.begin(f"{name} is restarted", at_most_late=PLANNED_SECONDS)
            trio.programs[name].stop()
            trio.start_node(name)
            trio.await_owners(NODES, pollers=QUOTA)
        time.sleep(PAUSE_SECONDS)

        stage = stages.begin("Cassandra is frozen", at_most_late=OUTAGE_SECONDS + DEATH_SECONDS)
        server.pause()
        try:
            time.sleep(OUTAGE_SECONDS)
        finally:
            server.resume()
        stage.doubt(range(QUOTA), since=stage.start, until=stage.start + TRUST_SECONDS)
        time.sleep(BACK_SECONDS)
        stages.begin("the end", at_most_late=PLANNED_SECONDS)
        time.sleep(PAUSE_SECONDS)
    verdict = judge(trio, steady, stages)
    show(*verdict.lines)
    assert not verdict.faults, verdict.told()


def pollers_of(client: ClientScope, node_id: str) -> frozenset[int]:
    """The pollers that a node owns now."""
    owned = client.pollers()
    pollers = frozenset(one.poller_id for one in owned if one.owner is not None and one.owner.node_id == node_id)
    assert pollers, owned
    return pollers


def await_end(cluster: Deployment, name: str) -> None:
    """A process that was declared dead while it was suspended must exit by itself."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while cluster.programs[name].exit_code() is None:
        assert time.monotonic() < deadline, cluster.programs[name].last_words()
        time.sleep(0.1)
