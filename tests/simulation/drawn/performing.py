"""Carries out the drawn operations. Each request is a task of its own: no operation waits for an answer."""

import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec

from cql.connection import Item
from poller_cluster.delivery.result import AttemptError
from scheduler_service.domain.clients import RetrySettings
from scheduler_service.domain.reconciliations import Action
from tests.simulation.drawn.administrators import Administrators
from tests.simulation.drawn.clients import OTHER_HOST, DrawnClients
from tests.simulation.drawn.crons import OWNER, DrawnCrons
from tests.simulation.drawn.destinations import DrawnDestinations
from tests.simulation.drawn.operations import Operation
from tests.simulation.drawn.schedules import Schedule
from tests.simulation.drawn.setting import APIS, NODES, SERVERS, WRONG_MS
from tests.simulation.drawn.troubles import acts
from tests.simulation.drawn.windows import Windows
from tests.simulation.drawn.world import DrawnWorld
from tests.simulation.receivers import Call, answers_ok

PATIENCE = (1, 3, None)
"""How often callers send a request: once, several times, or until they are answered."""
STALE = (("nodes.read", 3.5), ("pollers.list", 20.0))
"""Reads that may be stale, and by how much: older heartbeats would show live nodes as dead."""


class Performing:
    """Operations whose subject does not exist do nothing, so that any part of a list can be left out."""

    def __init__(
        self,
        world: DrawnWorld,
        *,
        clients: DrawnClients,
        windows: Windows,
        crons: DrawnCrons,
        administrators: Administrators,
        destinations: DrawnDestinations,
    ) -> None:
        self.world = world
        self.crons = crons
        self.clients = clients
        self.windows = windows
        self.administrators = administrators
        self.destinations = destinations

    async def perform(self, operation: Operation) -> None:
        dice = random.Random(operation.dice)
        await getattr(self, "_" + operation.name)(operation, dice)

    # Clients.

    async def _create(self, operation: Operation, dice: random.Random) -> None:
        requests = self.clients.requests(
            dice, count=1 + int(8 * operation.amount), spread_seconds=4 + 80 * operation.amount
        )
        if dice.random() < 0.5:
            self.world.spawn(self.clients.create(self._client(dice), requests))
        else:
            for request in requests:
                self.world.spawn(self.clients.create(self._client(dice), [request]))

    async def _create_of_keys(self, operation: Operation, dice: random.Random) -> None:
        """A row of each of some keys in each of some minutes to come."""
        keys, minutes = 1 + int(3 * operation.amount), dice.choice((3, 4))
        requests = [
            msgspec.structs.replace(request, due=None, delay_seconds=8.0 + 60 * minute, ordering_key=f"wait-{key}")
            for minute in range(minutes)
            for key, request in enumerate(self.clients.requests(dice, count=keys, spread_seconds=1))
        ]
        self.world.spawn(self.clients.create(self._client(dice), requests))

    async def _create_under_key(self, operation: Operation, dice: random.Random) -> None:
        requests = self.clients.requests(dice, count=1 + int(3 * operation.amount), spread_seconds=60 * dice.random())
        client, key = self._client(dice), f"key {operation.dice}"
        others = random.Random(operation.dice + 1)
        if others.random() < 0.4:
            patience = others.choice((3, None, None))
            self.world.spawn(self.clients.create_under_token(client, others, requests, patience=patience))
            return
        for _ in range(dice.choice((1, 1, 2))):
            self.world.spawn(
                self.clients.create_under_key(client, key, requests, patience=dice.choice((3, None, None)))
            )

    async def _create_late(self, operation: Operation, dice: random.Random) -> None:
        """Create at the very end of the minute, under a key, and repeat it until there is an answer."""
        world = self.world
        left = (60_000 - world.now_ms() % 60_000) / 1000
        if left > 25:
            return
        requests = self.clients.requests(dice, count=1, spread_seconds=left)
        await world.advance(max(left - 2 * operation.amount, 0))
        world.spawn(self.clients.create_under_key(self._client(dice), f"key {operation.dice}", requests, patience=None))

    async def _cancel(self, operation: Operation, dice: random.Random) -> None:
        if (schedule := self._one(dice, ended=False)) is not None:
            self.world.spawn(self.clients.cancel(schedule, patience=dice.choice(PATIENCE)))

    async def _cancel_at_its_due(self, operation: Operation, dice: random.Random) -> None:
        if (schedule := self._one(dice, ended=False)) is None:
            return
        before = dice.choice((0.0, 1.0, 5.0)) + 0.1 * dice.random()
        self.world.spawn(self._before_its_due(schedule, before, lambda: self.clients.cancel(schedule, patience=3)))

    async def _before_its_due(
        self, schedule: Schedule, seconds: float, ask: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        pause = (schedule.due - self.world.now_ms()) / 1000 - seconds
        await self.world.api_clock.sleep(min(max(pause, 0.0), LONGEST_PAUSE_SECONDS))
        await ask()

    async def _cancel_many(self, operation: Operation, dice: random.Random) -> None:
        client = self._client(dice)
        some = [one for one in self._known(client) if dice.random() < operation.amount]
        if some:
            self.world.spawn(self.clients.cancel_many(some, patience=dice.choice(PATIENCE)))

    async def _redeliver(self, operation: Operation, dice: random.Random) -> None:
        if (schedule := self._one(dice, ended=True)) is None:
            return
        key = f"again {operation.dice}" if dice.random() < 0.5 else None
        for _ in range(1 + int(3 * dice.random() ** 2)):
            self.world.spawn(self.clients.redeliver(schedule, key=key, patience=dice.choice(PATIENCE)))

    async def _reschedule(self, operation: Operation, dice: random.Random) -> None:
        if (schedule := self._one(dice, ended=False)) is None:
            return
        key = f"later {operation.dice}" if dice.random() < 0.5 else None
        self.world.spawn(
            self.clients.reschedule(
                schedule,
                delay_seconds=60 * operation.amount,
                otherwise=dice.random() < OTHERWISE,
                key=key,
                patience=dice.choice(PATIENCE),
            )
        )

    async def _update(self, operation: Operation, dice: random.Random) -> None:
        """One to three callers at once, of which some want the same."""
        if (schedule := self._one(dice, ended=False)) is None:
            return
        for _ in range(dice.choice((1, 1, 2, 3))):
            label = dice.choice("ab")
            key = f"update {operation.dice} {label}" if dice.random() < 0.3 else None
            self.world.spawn(self.clients.update(schedule, label=label, key=key, patience=dice.choice(PATIENCE)))

    async def _run(self, operation: Operation, dice: random.Random) -> None:
        if (schedule := self._one(dice, ended=False)) is None:
            return
        for _ in range(dice.choice((1, 2))):
            self.world.spawn(
                self.clients.reschedule(
                    schedule, delay_seconds=0, otherwise=False, key=None, patience=dice.choice(PATIENCE)
                )
            )

    async def _put(self, operation: Operation, dice: random.Random) -> None:
        """One to three callers at once move one of a few keys forward, near its due or far from it."""
        client, key = self._client(dice), f"own-{dice.randrange(3)}"
        for _ in range(dice.choice((1, 1, 2, 3))):
            (request,) = self.clients.requests(dice, count=1, spread_seconds=30 * operation.amount * dice.random())
            self.world.spawn(self.clients.put(client, key, request, patience=dice.choice(PATIENCE)))

    async def _look(self, operation: Operation, dice: random.Random) -> None:
        if self.world.schedules:
            self.world.spawn(self.clients.look(dice.choice(list(self.world.schedules.values()))))

    async def _reconcile(self, operation: Operation, dice: random.Random) -> None:
        now, span = self.world.now_ms(), 60_000 * operation.amount
        start = now - span * dice.choice((0.0, 0.5, 1.0))
        action = dice.choice(tuple(Action))
        if action is Action.SKIP:
            # What is still to come can't be skipped.
            start -= span
        client = self._client(dice)
        work = self.windows.reconcile(client, action, start=int(start), end=int(start + span) + 1, dice=dice)
        self.world.spawn(work)

    async def _stop_reconciliation(self, operation: Operation, dice: random.Random) -> None:
        if self.windows.asked:
            client, asked_id = dice.choice(self.windows.asked)
            self.world.spawn(self.windows.stop(client, asked_id))

    async def _show_balance(self, operation: Operation, dice: random.Random) -> None:
        self.world.spawn(self.windows.show_balance(self._client(dice)))

    async def _change_cron(self, operation: Operation, dice: random.Random) -> None:
        self.world.spawn(self.crons.alter(dice))

    def _client(self, dice: random.Random) -> str:
        return dice.choice([client for client in self.world.clients if client != OWNER])

    def _known(self, client: str) -> list[Schedule]:
        return [one for one in self.world.schedules.values() if one.acknowledged and one.client_id == client]

    def _one(self, dice: random.Random, *, ended: bool) -> Schedule | None:
        found = [
            one
            for one in self.world.schedules.values()
            if one.acknowledged and (one.end is not None) is ended and (ended or not one.cancelled)
        ]
        return dice.choice(found) if found else None

    # Destinations.

    async def _put_destination(self, operation: Operation, dice: random.Random) -> None:
        most = dice.choice((None, None, None, 1))
        self._change_destination(
            dice, lambda client, name, patience: self.destinations.put(client, name, most=most, patience=patience)
        )

    async def _pause_destination(self, operation: Operation, dice: random.Random) -> None:
        self._change_destination(dice, self.destinations.pause)

    async def _resume_destination(self, operation: Operation, dice: random.Random) -> None:
        if paused := self.destinations.paused():
            self.world.spawn(self.destinations.resume(*dice.choice(paused), dice.choice(PATIENCE)))

    async def _delete_destination(self, operation: Operation, dice: random.Random) -> None:
        self._change_destination(dice, self.destinations.delete)

    def _change_destination(
        self, dice: random.Random, ask: Callable[[str, str, int | None], Coroutine[Any, Any, None]]
    ) -> None:
        """Of a schedule that waits: now, or between its claim and its call."""
        waiting = [one for one in self.world.schedules.values() if one.destination and one.acknowledged and not one.end]
        if not waiting:
            return
        chosen, at_once, before = dice.choice(waiting), dice.random() < 0.5, dice.choice((0.0, 1.0, 4.0))
        client, name, patience = chosen.client_id, chosen.destination or "", dice.choice(PATIENCE)
        if at_once:
            self.world.spawn(ask(client, name, patience))
        else:
            self.world.spawn(self._before_its_due(chosen, before, lambda: ask(client, name, patience)))

    # Administrators.

    async def _suspend(self, operation: Operation, dice: random.Random) -> None:
        self.world.spawn(self.administrators.suspend(self._client(dice), patience=dice.choice(PATIENCE)))

    async def _resume(self, operation: Operation, dice: random.Random) -> None:
        if self.administrators.suspended:
            client = dice.choice(list(self.administrators.suspended))
            self.world.spawn(self.administrators.resume(client, patience=dice.choice(PATIENCE)))

    async def _quota(self, operation: Operation, dice: random.Random) -> None:
        quota = 1 + int(5 * operation.amount)
        self.world.spawn(self.administrators.change_quota(self._client(dice), quota, patience=dice.choice(PATIENCE)))

    async def _settings(self, operation: Operation, dice: random.Random) -> None:
        retry = RetrySettings(base_seconds=1 + 5 * operation.amount, max_attempts=dice.choice((1, 3, 6)))
        work = self.administrators.change_settings(self._client(dice), patience=dice.choice(PATIENCE), retry=retry)
        self.world.spawn(work)

    async def _drain(self, operation: Operation, dice: random.Random) -> None:
        self.world.spawn(self.administrators.drain(operation.node, patience=dice.choice(PATIENCE)))

    async def _undrain(self, operation: Operation, dice: random.Random) -> None:
        self.world.spawn(self.administrators.undrain(operation.node, patience=dice.choice(PATIENCE)))

    # Nodes.

    async def _kill(self, operation: Operation, dice: random.Random) -> None:
        if operation.node in self.world.nodes:
            await self.world.kill(operation.node)

    async def _kill_all(self, operation: Operation, dice: random.Random) -> None:
        for name in list(self.world.nodes):
            await self.world.kill(name)

    async def _start(self, operation: Operation, dice: random.Random) -> None:
        if operation.node not in self.world.nodes:
            self.world.start_node(operation.node)

    async def _stop(self, operation: Operation, dice: random.Random) -> None:
        node = self.world.nodes.get(operation.node)
        if node is not None and not node.clock.paused:
            self.world.leave(operation.node)

    async def _pause(self, operation: Operation, dice: random.Random) -> None:
        if operation.node in self.world.nodes:
            self.world.pause(operation.node)

    async def _resume_node(self, operation: Operation, dice: random.Random) -> None:
        if operation.node in self.world.nodes:
            self.world.resume(operation.node)

    async def _cut_off(self, operation: Operation, dice: random.Random) -> None:
        if operation.node in self.world.nodes:
            self.world.cut_off(operation.node)

    async def _heal(self, operation: Operation, dice: random.Random) -> None:
        self.world.heal()

    async def _flaky(self, operation: Operation, dice: random.Random) -> None:
        self._make_flaky(operation.node, operation.amount, dice)

    async def _stale(self, operation: Operation, dice: random.Random) -> None:
        if (plan := self.world.plan_of(operation.node)) is None:
            return
        name, longest = dice.choice(STALE)
        self.world.note(operation.node, f"{name} shows what was")
        plan.stale = (name,)
        await self.world.advance(longest * operation.amount)
        if (plan := self.world.plan_of(operation.node)) is not None:
            plan.stale = ()

    async def _crash_at_a_write(self, operation: Operation, dice: random.Random) -> None:
        self._crash_at(operation.node, 1 + int(40 * operation.amount), dice)

    async def _step(self, operation: Operation, dice: random.Random) -> None:
        """Step a host's clock, and step it back before a lone node would believe it."""
        step_ms = 100_000 * (operation.amount - 0.5)
        self.world.step(operation.node, step_ms)
        await self.world.advance(6 * operation.amount)
        self.world.step(operation.node, -step_ms)

    async def _step_for_long(self, operation: Operation, dice: random.Random) -> None:
        """Step a clock for long enough to be judged."""
        name = dice.choice((operation.node, operation.api))
        await self._stepped((name,), dice, WRONG_MS * operation.amount**3)

    async def _step_together(self, operation: Operation, dice: random.Random) -> None:
        """Step all nodes and API processes by the same amount: their machines share a host."""
        names = [name for name in (*NODES, *APIS) if dice.random() < 0.6]
        await self._stepped(names, dice, WRONG_MS * operation.amount**3)

    async def _stepped(self, names: Sequence[str], dice: random.Random, step_ms: float) -> None:
        """Step a clock only while a node acts whose clock is right and can contradict."""
        if not any(name not in names and acts(node) for name, node in self.world.nodes.items()):
            return
        await self._wrong(names, dice, step_ms)

    async def _step_host(self, operation: Operation, dice: random.Random) -> None:
        """Step the host on which all nodes run (or the only node); sometimes API processes and the store run there too.

        If the store does not, its servers contradict: a step is refused, and a node that starts with the wrong time
        acts only if others outvote the servers. If it does, the wrong time is believed. The host may be booted, and
        keep the wrong time.
        """
        apis = APIS if dice.random() < 0.5 else ()
        servers = SERVERS if dice.random() < 0.5 else ()
        booted, lasts = dice.random() < 0.3, dice.random() < 0.3
        await self._wrong((*NODES, *apis, *servers), dice, WRONG_MS * operation.amount**2, booted=booted, lasts=lasts)

    async def _step_server(self, operation: Operation, dice: random.Random) -> None:
        """Step a server's clock. Of three servers the others contradict it; a single one is contradicted by the nodes,
        if there are several. A lone node stops while it is ahead of its server.
        """
        await self._wrong((dice.choice(SERVERS),), dice, WRONG_MS * operation.amount)

    async def _wrong(
        self, names: Sequence[str], dice: random.Random, step_ms: float, *, booted: bool = False, lasts: bool = False
    ) -> None:
        step_ms *= dice.choice((-1, 1))
        for name in names:
            self.world.step(name, step_ms)
        for name in tuple(self.world.nodes) if booted else ():
            await self.world.kill(name)
            self.world.start_node(name)
        await self.world.advance(dice.choice((15, 30, 60)))
        for name in () if lasts else names:
            self.world.step(name, -step_ms)

    async def _set_clocks_right(self, operation: Operation, dice: random.Random) -> None:
        self.world.set_clocks_right()

    async def _outage(self, operation: Operation, dice: random.Random) -> None:
        self.world.cut_off()
        for api in self.world.apis.values():
            api.connection.plan.cut_off = True
        await self.world.advance(40 * operation.amount)
        self.world.heal()

    # API processes.

    async def _kill_api(self, operation: Operation, dice: random.Random) -> None:
        if operation.api in self.world.apis:
            await self.world.kill_api(operation.api)

    async def _start_api(self, operation: Operation, dice: random.Random) -> None:
        if operation.api not in self.world.apis:
            self.world.start_api(operation.api)

    async def _pause_api(self, operation: Operation, dice: random.Random) -> None:
        if operation.api in self.world.apis:
            self.world.note(operation.api, "is paused")
            self.world.apis[operation.api].clock.pause()

    async def _resume_api(self, operation: Operation, dice: random.Random) -> None:
        if operation.api in self.world.apis:
            self.world.note(operation.api, "goes on")
            self.world.apis[operation.api].clock.resume()

    async def _flaky_api(self, operation: Operation, dice: random.Random) -> None:
        self._make_flaky(operation.api, 3 * operation.amount, dice)

    async def _lose_announcements(self, operation: Operation, dice: random.Random) -> None:
        """Change clients, and lose every announcement of it."""
        if (plan := self.world.plan_of(operation.api)) is not None:
            plan.hook = lambda kind, items: "refuse" if items[0][0] == "catalog.bump" else None

    async def _crash_api_at_a_write(self, operation: Operation, dice: random.Random) -> None:
        self._crash_at(operation.api, 1 + int(12 * operation.amount), dice)

    async def _step_api(self, operation: Operation, dice: random.Random) -> None:
        step_ms = 100_000 * (operation.amount - 0.5)
        self.world.step(operation.api, step_ms)
        await self.world.advance(6 * operation.amount)
        self.world.step(operation.api, -step_ms)

    async def _boot_api_wrong(self, operation: Operation, dice: random.Random) -> None:
        """Start an API process on a wrong clock, which is set right some seconds later."""
        await self.world.kill_api(operation.api)
        wrong_ms = dice.choice((-1, -1, 1)) * 3_600_000 * operation.amount**2
        self.world.step(operation.api, wrong_ms)
        self.world.start_api(operation.api)
        for _ in range(4):
            requests = self.clients.requests(dice, count=1, spread_seconds=30)
            self.world.spawn(self.clients.create(self._client(dice), requests))
            await self.world.advance(3 * dice.random())
        self.world.step(operation.api, -wrong_ms)

    def _make_flaky(self, name: str, amount: float, dice: random.Random) -> None:
        if (plan := self.world.plan_of(name)) is not None:
            self.world.note(name, f"has a bad line ({amount:.2f})")
            plan.refuse, plan.lose_answer, plan.slow = 0.05 * amount, 0.1 * amount, 0.1
            plan.late, plan.late_seconds = LATE * amount, dice.choice(LATES)

    def _crash_at(self, name: str, number: int, dice: random.Random) -> None:
        """Crash the process before or after one of its next writes."""
        if (plan := self.world.plan_of(name)) is None:
            return
        left, fault = number, dice.choice(("crash-before", "crash-after"))

        def hook(kind: str, items: Sequence[Item]) -> str | None:
            nonlocal left
            left -= kind != "select"
            return fault if left <= 0 and kind != "select" else None

        plan.hook = hook

    # Receivers.

    async def _slow_receiver(self, operation: Operation, dice: random.Random) -> None:
        self.world.receiver.latency_seconds = 4 * operation.amount**2

    async def _failing_receiver(self, operation: Operation, dice: random.Random) -> None:
        share = int(16 * operation.amount)

        def script(call: Call) -> int:
            return 500 if int(call.schedule_id[-1], 16) < share and call.attempt < 3 else 200

        self.world.receiver.script = script

    async def _heads_fail(self, operation: Operation, dice: random.Random) -> None:
        """Nodes are back, and every call fails a few times."""
        failures = 1 + int(3 * operation.amount)
        self.world.receiver.script = lambda call: 503 if call.attempt <= failures else 200
        for name in NODES[: self.world.setting.nodes]:
            if name not in self.world.nodes:
                self.world.start_node(name)
        await self.world.advance(6 + 6 * dice.random())

    async def _set_receivers_right(self, operation: Operation, dice: random.Random) -> None:
        await self.world.advance(15)
        self.world.receiver.script = answers_ok

    async def _dead_host(self, operation: Operation, dice: random.Random) -> None:
        answers: tuple[int | AttemptError, ...] = (503, "connect-refused", "reset", 200)
        answer = answers[int(4 * operation.amount)]
        self.world.receiver.script = lambda call: answer if call.url == OTHER_HOST else 200


LONGEST_PAUSE_SECONDS = 60.0
"""Schedules due in a time that only a wrong clock has shown are cancelled before, or their callers would outlast the
run."""
LATE = 0.05
"""The greatest share of a flaky process's writes that arrive late."""
LATES = (1.0, 5.0, 20.0, 90.0)
"""After how many seconds they arrive."""
OTHERWISE = 0.3
"""The share of reschedules that change the call."""
