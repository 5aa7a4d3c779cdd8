"""Crons of every minute while both nodes are restarted and one is killed: every fire is called exactly once.

Each cron determines its fires and their ids; the receiver's record says what was called. New crons are put throughout,
so that expansions are under way at every fault.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import UUID

from membership.errors import StoreUnavailable
from scheduler_service.domain.crons.expansion import child_id, offset_ms
from scheduler_service.domain.crons.row import Cron, CronOptions
from scheduler_service.domain.ids import MINUTE_MS, CronId, ScheduleId, due_of
from tests.support.crons import CronChanges, cron_changes, draft
from tests.support.processes import Deployment
from tests.support.stages import Stage, Stages

CLIENTS = ("north", "east", "south", "west")
QUOTA = 8
POLLERS = len(CLIENTS) * QUOTA
NODES = ("a", "b")
AT_FIRST = 400
PER_SECOND = 4.0
SPREAD_SECONDS = (0, 20, 55, 55)
"""Spreads of the crons in turn: most are due at any second of the minute, some together with many others."""

EVERY_MINUTE = (
    *["* * * * *"] * 4,
    "* * * * * 2020-2100",
    "every 1 minute from 2026-01-01T00:00:00Z",
    '{"any":["*/2 * * * *","1-59/2 * * * *"]}',
    '{"any":["* * * * *"],"excluding":["* * 31 12 * 2020"],"calendar":{"dates":["2020-12-31"]}}',
)
"""Forms of rules that fire at every minute, in turns."""

PLANNED_SECONDS = 2.0
DEATH_SECONDS = 12.0
QUIET_SECONDS = 25.0
PAUSE_SECONDS = 10.0
CALLED_WITHIN_SECONDS = 15.0
SHOWN = 20


@dataclass(slots=True, kw_only=True)
class Run:
    """The crons that were put, and the stages of each client's calls."""

    cluster: Deployment
    crons: list[Cron] = field(default_factory=list)
    stages: dict[str, Stages] = field(default_factory=lambda: {client: Stages() for client in CLIENTS})
    over: bool = False

    def begin(self, name: str, *, at_most_late: float) -> dict[str, Stage]:
        return {client: stages.begin(name, at_most_late=at_most_late) for client, stages in self.stages.items()}

    def expected(self, until_ms: int) -> dict[str, dict[str, str]]:
        """By client, every fire that is due by then: its id and a description."""
        fires: dict[str, dict[str, str]] = defaultdict(dict)
        for cron in self.crons:
            for minute in count(cron.created_at // MINUTE_MS + 1):
                nominal = minute * MINUTE_MS
                if nominal + offset_ms(cron) > until_ms:
                    break
                fires[cron.client_id][str(child_id(cron, nominal))] = f"{cron.cron_id} at {nominal}"
        return fires

    def calls(self, until_ms: int) -> list[dict[str, Any]]:
        """The calls received that were due by then. A call names the nominal due; the due itself is part of its id."""
        dues = ((call, due_of(ScheduleId(UUID(call["id"])))) for call in self.cluster.receiver.calls())
        return [call | {"due": due / 1000} for call, due in dues if due <= until_ms]


def test_crons_of_every_minute_fire_once_each_while_nodes_are_restarted_and_killed(
    cluster: Deployment, show: Callable[..., None]
) -> None:
    cluster.start_api()
    for name in NODES:
        cluster.start_node(name, ready=False)
    for client in CLIENTS:
        cluster.register(client, poller_quota=QUOTA)
    cluster.await_owners(NODES, pollers=POLLERS)
    run = Run(cluster=cluster)
    asyncio.run(_with_new_crons(run, _disturb))

    until_ms = round(time.time() * 1000)
    expected = run.expected(until_ms)
    everything = {schedule_id: what for fires in expected.values() for schedule_id, what in fires.items()}
    deadline = time.monotonic() + CALLED_WITHIN_SECONDS
    while everything.keys() - (called := {call["id"] for call in run.calls(until_ms)}) and time.monotonic() < deadline:
        time.sleep(1.0)
    calls = run.calls(until_ms)
    faults = [f"{what} was never called" for schedule_id, what in everything.items() if schedule_id not in called]
    faults += [f"{schedule_id} is the fire of no cron" for schedule_id in called - everything.keys()]
    lines = [f"{len(run.crons)} crons, {len(everything)} fires, {len(calls)} calls"]
    for client, stages in run.stages.items():
        own = [call for call in calls if call["id"] in expected[client]]
        faults += stages.faults(own, punctual=expected[client])
        lines += [f"{client:<6} {figures}" for figures in stages.figures(own, punctual=expected[client])]
    show(*lines)
    assert not faults, "\n".join((f"{len(faults)} faults:", *faults[:SHOWN]))


def _disturb(run: Run) -> None:
    """Blocks while the nodes are restarted and killed one after the other."""
    cluster = run.cluster
    run.begin("a quiet time", at_most_late=PLANNED_SECONDS)
    time.sleep(QUIET_SECONDS)
    for name in NODES:
        run.begin(f"{name} is restarted", at_most_late=PLANNED_SECONDS)
        cluster.programs[name].stop()
        time.sleep(PAUSE_SECONDS)
        cluster.start_node(name)
        cluster.await_owners(NODES, pollers=POLLERS)
        time.sleep(PAUSE_SECONDS)

    pollers = _pollers_of(cluster, "b")
    stages = run.begin("b is killed", at_most_late=DEATH_SECONDS)
    cluster.programs["b"].kill()
    for client, stage in stages.items():
        stage.doubt(pollers[client], since=stage.start, until=time.time())
    cluster.await_owners({"a"}, pollers=POLLERS)
    time.sleep(PAUSE_SECONDS)
    run.begin("b comes back", at_most_late=PLANNED_SECONDS)
    cluster.start_node("b")
    cluster.await_owners(NODES, pollers=POLLERS)
    time.sleep(QUIET_SECONDS)


def _pollers_of(cluster: Deployment, node_id: str) -> dict[str, frozenset[int]]:
    with cluster.admin() as api:
        owned = {client: api.client(client).pollers() for client in CLIENTS}
    return {
        client: frozenset(one.poller_id for one in pollers if one.owner is not None and one.owner.node_id == node_id)
        for client, pollers in owned.items()
    }


async def _with_new_crons(run: Run, disturb: Callable[[Run], None]) -> None:
    async with cron_changes(run.cluster) as changes:
        await asyncio.gather(*(_put(run, changes, number) for number in range(AT_FIRST)))
        putting = asyncio.create_task(_put_steadily(run, changes))
        try:
            await asyncio.to_thread(disturb, run)
        finally:
            run.over = True
            await putting


async def _put_steadily(run: Run, changes: CronChanges) -> None:
    for number in count(AT_FIRST):
        if run.over:
            return
        await _put(run, changes, number)
        await asyncio.sleep(1 / PER_SECOND)


async def _put(run: Run, changes: CronChanges, number: int) -> None:
    """Put a cron, and repeat the request until it is answered; a repeat finds the cron that an unanswered request has
    made.
    """
    client = await changes.client(CLIENTS[number % len(CLIENTS)])
    options = CronOptions(spread_seconds=SPREAD_SECONDS[number // len(CLIENTS) % len(SPREAD_SECONDS)])
    wanted = draft(EVERY_MINUTE[number % len(EVERY_MINUTE)], run.cluster.receiver.url, options=options)
    while True:
        try:
            changed = await changes.change.put(client, CronId(f"cron-{number}"), wanted)
        except StoreUnavailable:
            continue
        run.crons.append(changed.cron)
        return
