"""What must hold in a random world, beside what every simulated world checks at each call (`world`)."""

import asyncio
from uuid import UUID

from poller_cluster.dispatch.outcome import DESTINATION_DELETED
from poller_cluster.retention import EXPIRED
from scheduler_service.domain.clients import ClientState
from scheduler_service.domain.reconciliations import OVERDUE
from scheduler_service.domain.schedules import Row, State
from tests.simulation.books import check_books
from tests.simulation.creates import out_of_order
from tests.simulation.drawn.administrators import Administrators
from tests.simulation.drawn.clients import OTHERWISE, says_so
from tests.simulation.drawn.destinations import DrawnDestinations
from tests.simulation.drawn.schedules import Schedule
from tests.simulation.drawn.setting import SHORT_DAY_MS
from tests.simulation.drawn.troubles import Troubles
from tests.simulation.drawn.world import DrawnWorld
from tests.simulation.receivers import Call
from tests.simulation.sim_node import SimNode

HEARD_MS = 75_000
"""How long after a suspension was answered a node may still call: a minute until it reads of it, and a pause or a
fault."""
ACKNOWLEDGED_AHEAD_MS = 1_000
"""How long before its due an acknowledgement counts as in time, whatever clocks differ by."""


class Promises:
    """Checks every call, and all schedules once the faults are over."""

    def __init__(
        self, world: DrawnWorld, administrators: Administrators, troubles: Troubles, destinations: DrawnDestinations
    ) -> None:
        self.world = world
        self._destinations = destinations
        self._troubles = troubles
        self._administrators = administrators
        world.at_call = self._at_call

    def _at_call(self, node: SimNode, schedule: Schedule, call: Call) -> None:
        world = self.world
        since = self._administrators.suspended.get(call.client_id)
        if since is not None and call.at_ms > since + HEARD_MS:
            raise world.violation(f"{call.schedule_id} was called though {call.client_id} was suspended at {since}")
        last = schedule.calls[-1] if schedule.calls else None
        if last is not None and last.answer == 200:
            drop = world.clients[call.client_id].settings.in_doubt == "drop"
            if drop or not call.redelivery:
                schedule.repeats += 1
            if schedule.repeats > schedule.redeliver_wishes:
                raise world.violation(f"{call.schedule_id} was answered, and is called again without a word")

    async def watch(self) -> None:
        """Check after every operation."""
        self._troubles.look()
        await self._check_keys()
        self._destinations.check_waiting()
        await check_books(self.world, since=self.world.kept_since)

    async def _check_keys(self) -> None:
        """Of the schedules of one key, at most one waits. A redelivery is requested separately and does not count."""
        waiting: dict[tuple[str, str], UUID] = {}
        for schedule in self.world.schedules.values():
            if schedule.key is None or schedule.gone or schedule.redeliver_wishes:
                continue
            row = await self.world.row_of(schedule)
            if row is None or not row.defined or row.ended:
                continue
            other = waiting.setdefault((schedule.client_id, schedule.key), schedule.schedule_id)
            if other != schedule.schedule_id:
                raise self.world.violation(f"{other} and {schedule.schedule_id} wait under {schedule.key}")

    async def settle(self, *, within: float) -> None:
        """End all faults: every acknowledged schedule then ends, and says correctly how."""
        world, deadline = self.world, asyncio.get_running_loop().time() + within
        while left := world.unfinished_ones():
            await world.revive()
            if asyncio.get_running_loop().time() > deadline:
                row = await world.row_of(left[0])
                raise world.violation(f"{len(left)} acknowledged schedules have no end, the first: {left[0]}\n{row}")
            await world.advance(1.0)
        await world.advance(1.0)
        await check_books(world, since=world.kept_since)
        if (pair := out_of_order(world.asked.values())) is not None:
            raise world.violation(f"{pair[1]} was called before {pair[0]} had ended")
        self._destinations.check_resumed()
        for schedule in world.schedules.values():
            row = await world.row_of(schedule)
            if row is not None and row.defined:
                self._check_end(schedule, row)

    def _check_end(self, schedule: Schedule, row: Row) -> None:
        violation, known = self.world.violation, schedule.schedule_id
        if schedule.cancelled and row.state != State.CANCELLED:
            raise violation(f"{known}: its cancel was answered, its state is {row.state}")
        if schedule.updated and any(call.url != OTHERWISE for call in schedule.calls):
            raise violation(f"{known} was updated, and is called as it was before: {schedule.calls}")
        if row.state == State.DELIVERED and not schedule.calls:
            raise violation(f"{known} is delivered but was never called")
        if row.state == State.CANCELLED:
            stranded = row.reason == EXPIRED and (not schedule.acknowledged or schedule.redeliver_wishes)
            replaced = schedule.key is not None and row.rescheduled_to is not None
            if not (schedule.cancel_wishes or replaced or stranded) and schedule.cron_id is None:
                raise violation(f"{known} is cancelled though nobody asked: {row}")
            if schedule.calls and not says_so(row, schedule.calls[-1]):
                raise violation(f"{known} was called, and does not say so: {row}")
            if row.rescheduled_to is not None:
                self._check_successor(known, row.rescheduled_to)
        elif row.state == State.SKIPPED and row.reason == OVERDUE:
            if not schedule.skip_wishes:
                raise violation(f"{known} is skipped though nobody asked: {row}")
        elif row.state == State.SKIPPED and self._punctual(schedule):
            raise violation(f"{known} was acknowledged in time and is skipped though nothing was wrong: {row}")
        elif row.state == State.FAILED and row.reason == DESTINATION_DELETED:
            self._check_deleted(schedule, row)
        elif row.state == State.FAILED and not row.attempts and row.reason != "in-doubt":
            raise violation(f"{known} has failed without an attempt: {row}")

    def _check_deleted(self, schedule: Schedule, row: Row) -> None:
        name, now = schedule.destination, self.world.now_ms()
        if name is None or not self._destinations.was_missing(schedule.client_id, name, until=now):
            raise self.world.violation(f"{schedule.schedule_id} has failed, and {name} was never deleted: {row}")

    def _check_successor(self, known: UUID, successor: UUID) -> None:
        following = self.world.schedules.get(str(successor))
        # A redelivery that was given up leaves the schedule with its earlier end.
        left_open = following is not None and following.end is None and not following.redelivery_given_up
        if following is None or (left_open and not following.gone):
            raise self.world.violation(f"{known} was rescheduled to {successor}, which came to nothing: {following}")

    def _punctual(self, schedule: Schedule) -> bool:
        """It was acknowledged before its due, and nothing kept it from being called."""
        if not schedule.acknowledged or schedule.acknowledged_ms > schedule.due - ACKNOWLEDGED_AHEAD_MS:
            return False
        settings = self.world.clients[schedule.client_id].settings
        late_ms = 1000 * settings.late_policy.after_seconds
        held = self._destinations.held(schedule, until=schedule.due + late_ms)
        return not held and not self._troubles.excuse(schedule, late_ms=late_ms)

    # When all has been well for a while.

    def check_known(self) -> None:
        """Every node has the current state of every client."""
        for row in self.world.memory.rows("clients"):
            for node in self.world.nodes.values():
                client = node.node.clients.get(row["client_id"])
                if client is None or client.record.revision != row["revision"]:
                    raise self.world.violation(f"{node.name} has not heard of {row}: it knows {client}")

    def check_owned(self) -> None:
        """Every poller of every active client has an owner that acts."""
        for name, client in self.world.clients.items():
            held = sorted(
                poller.poller_id
                for node in self.world.nodes.values()
                if node.node.membership_agent.trusted()
                for poller in node.node.balancer.leases()
                if poller.client_id == name
            )
            if held != list(range(client.poller_ceiling)) and client.state is ClientState.ACTIVE:
                raise self.world.violation(f"of {client.poller_ceiling} pollers of {name} only {held} are owned")

    async def check_deleted(self) -> None:
        """Rows are kept for as long as their client says, and then deleted: nothing keeps them longer."""
        if not self.world.setting.short_days:
            return
        last = max(int(row["due"]) for row in self.world.memory.rows("schedules"))
        await self.world.advance_to(max(last, self.world.now_ms()) + SHORT_DAY_MS + 4 * 60_000)
        left = [row for row in self.world.memory.rows("schedules") if not row["client_id"].startswith("$")]
        if left:
            raise self.world.violation(f"{len(left)} rows are kept for ever, the first: {left[0]}")
