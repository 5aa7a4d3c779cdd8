"""The phases about the cluster: a node that is killed, one that is stopped, and very many idle pollers."""

import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from uuid import UUID

from minutehand.processes.programs import Program
from scheduler_service.domain.ids import ScheduleId, poller_of
from tests.bench.cassandra_requests import requests_so_far
from tests.bench.cpu import cpu_seconds
from tests.bench.phases import CLIENT, QUOTA, Bench, Figures, now_ms, sleep_until

NODES = 3
LEAD_SECONDS = 10.0
BEFORE_SECONDS = 5.0
AFTER_SECONDS = 15.0
POLLERS_A_CLIENT = 1_024
PATIENCE_SECONDS = 120.0
WAITING_SECONDS = 5.0
"""Calls due this soon after a node was lost show when its pollers fire again. Pollers are filled in runs, so in a
shorter time the lost node might have had none."""


def node_lost(bench: Bench, *, how: signal.Signals, rate: int) -> Figures:
    """Three nodes under a steady load; one of them gets the signal."""
    receiver = bench.deployment.receiver
    with ExitStack() as parts:
        nodes = start_nodes(bench, parts, f"lost-{how.value}")
        victim = sorted(nodes)[1]
        mine = _await_owned(bench, nodes, victim)
        receiver.forget()
        seconds = BEFORE_SECONDS + AFTER_SECONDS
        start = now_ms() + round(LEAD_SECONDS * 1000)
        end = start + round(seconds * 1000)
        created = bench.load(connections=2, batch=1000, count=round(rate * seconds), due_from=start, due_to=end)
        sleep_until(start + round(BEFORE_SECONDS * 1000))
        lost_at = now_ms()
        nodes[victim].send(how)
        report = bench.await_arrivals(created["created"], end)
        calls = receiver.calls()
    called: set[str] = set()
    undoubted = 0
    fired_again: dict[int, float] = {}
    for call in sorted(calls, key=lambda call: float(call["arrived"])):
        poller_id, waited = poller_of(ScheduleId(UUID(call["id"]))), call["arrived"] - lost_at / 1000
        if poller_id in mine and 0 < call["due"] - lost_at / 1000 < WAITING_SECONDS:
            fired_again.setdefault(poller_id, waited)
        undoubted += call["id"] in called and not call["redelivery"]
        called.add(call["id"])
    return {
        "created": created["created"],
        "pollers_moved": len(mine),
        "fired_again_after_seconds": round(max(fired_again.values(), default=0.0), 2),
        "lateness_ms": report["lateness_ms"],
        "early": report["early"],
        "lost": created["created"] - report["unique"],
        "repeated": report["repeated"],
        "repeated_without_doubt": undoubted,
    }


def start_nodes(bench: Bench, parts: ExitStack, prefix: str) -> dict[str, Program]:
    """Start three nodes, which `parts` stops."""
    nodes = {}
    for number in range(1, NODES + 1):
        node_id = f"{prefix}-{number}"
        nodes[node_id] = bench.deployment.start_node(node_id)
        parts.callback(bench.deployment.stop_one, node_id)
    return nodes


def _await_owned(bench: Bench, nodes: dict[str, Program], victim: str) -> set[int]:
    """Wait until these nodes own all pollers of the bench's client; returns those of the victim."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    with bench.deployment.client(CLIENT, bench.key) as client:
        while True:
            owners = {one.poller_id: one.owner.node_id for one in client.pollers() if one.owner is not None}
            if len(owners) == QUOTA and set(owners.values()) <= nodes.keys():
                return {poller_id for poller_id, owner in owners.items() if owner == victim}
            if time.monotonic() > deadline:
                raise TimeoutError("the nodes did not take their pollers")
            time.sleep(0.5)


def idle_pollers(bench: Bench, *, clients: int, seconds: float) -> Figures:
    """Nodes own very many pollers without schedules: their cost, and how fast those of a dead node move."""
    began = time.monotonic()
    with bench.deployment.admin() as api:
        for number in range(clients):
            api.clients.register(f"idle-{number:04}", poller_quota=POLLERS_A_CLIENT)
    registered = time.monotonic() - began
    pollers = clients * POLLERS_A_CLIENT + QUOTA
    with ExitStack() as parts:
        began = time.monotonic()
        nodes = start_nodes(bench, parts, "idle")
        _await(lambda: _held(bench, nodes) >= pollers, "own all pollers")
        first = time.monotonic() - began
        _await(lambda: _settled(bench), "come to rest")
        steady = _steady(bench, nodes, seconds)
        victim, *others = sorted(nodes)
        moving = pollers - _held(bench, others)
        gone = {node_id: bench.deployment.metrics(node_id)['minutehand_members{state="dead"}'] for node_id in others}
        nodes[victim].kill()
        killed = time.monotonic()

        def decided() -> bool:
            return any(
                bench.deployment.metrics(node_id)['minutehand_members{state="dead"}'] > dead
                for node_id, dead in gone.items()
            )

        _await(decided, "decide the death")
        dead = time.monotonic()
        _await(lambda: _held(bench, others) >= pollers, "own a dead node's pollers")
        owned = time.monotonic()
    return {
        "pollers": pollers,
        "registered_seconds": round(registered, 1),
        "first_owned_seconds": round(first, 1),
        **steady,
        "moved": moving,
        "decided_after_seconds": round(dead - killed, 2),
        "owned_after_decision_seconds": round(owned - dead, 2),
    }


def _held(bench: Bench, nodes: "list[str] | dict[str, Program]") -> int:
    return sum(round(bench.deployment.metrics(node_id)["minutehand_leases_held"]) for node_id in nodes)


def _settled(bench: Bench) -> bool:
    """Whether Cassandra is nearly idle: leases are taken, flags are cleared."""
    before = requests_so_far(bench.deployment)
    time.sleep(2.0)
    return requests_so_far(bench.deployment) - before < 200


def _steady(bench: Bench, nodes: dict[str, Program], seconds: float) -> Figures:
    pids = {**{name: node.pid for name, node in nodes.items()}, "cassandra": bench.pids["cassandra"]}
    before, requests = {name: cpu_seconds(pid) or 0.0 for name, pid in pids.items()}, requests_so_far(bench.deployment)
    began = time.monotonic()
    time.sleep(seconds)
    elapsed = time.monotonic() - began
    cores = {name: ((cpu_seconds(pid) or 0.0) - before[name]) / elapsed for name, pid in pids.items()}
    return {
        "cores_a_node": round(max(cores[name] for name in nodes), 3),
        "cores_cassandra": round(cores["cassandra"], 3),
        "requests_per_second": round((requests_so_far(bench.deployment) - requests) / elapsed, 1),
    }


def _await(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the nodes did not {what} within {PATIENCE_SECONDS:.0f} s")
        time.sleep(0.1)
