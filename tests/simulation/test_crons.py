"""Crons keep firing through every fault of the nodes that drive them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from cql.connection import Item
from scheduler_service.domain.clients import ClientSettings, ClientState, RetrySettings
from scheduler_service.domain.crons.row import CRON_CLIENT, CronState
from scheduler_service.domain.ids import MINUTE_MS, minute_of, minute_start
from scheduler_service.domain.schedules import State
from tests.simulation.crons import SHOP, Crons, with_crons
from tests.simulation.world import World, simulate

HOUR = 3600.0


async def to_the_next_minute(world: World, *, second: float = 0.0) -> int:
    """Let time pass until so many seconds into the next minute; returns when that minute begins."""
    start = minute_start(minute_of(world.now_ms()) + 1)
    await world.advance_to(start + second * 1000)
    return start


def assert_on_time(crons: Crons, cron_id: str, *, since_ms: float = 0.0, within_ms: float = 1_000.0) -> None:
    for nominal, made in crons.calls(cron_id).items():
        assert nominal < since_ms or made[0].at_ms - made[0].due_ms < within_ms, nominal


def test_every_minute_once_and_on_the_second() -> None:
    async def scenario(world: World) -> None:
        crons = await with_crons(world)
        await crons.put("tick", "* * * * *")
        await crons.put("quarter", "*/15 * * * *", timezone="Asia/Kathmandu", spread_seconds=30)
        await world.advance(0.75 * HOUR)
        await crons.check()
        assert len(crons.calls("tick")) >= 44
        assert len(crons.calls("quarter")) == 3
        for cron_id in ("tick", "quarter"):
            assert_on_time(crons, cron_id, within_ms=100)
            assert all([call.attempt for call in made] == [1] for made in crons.calls(cron_id).values())
        assert all(made[0].due_ms > nominal for nominal, made in crons.calls("quarter").items()), "it is spread"
        assert sum(node.node.crons.overdue_scan.found for node in world.nodes.values()) == 0, "none was forgotten"

    simulate(scenario)


def test_every_form_of_a_rule_fires_through_a_restart() -> None:
    async def scenario(world: World) -> None:
        crons = await with_crons(world, names="ab")
        now = datetime.fromtimestamp(world.now_ms() / 1000, UTC)
        weekday, nth = now.isoweekday() % 7, (now.day + 6) // 7
        start = now.strftime("%Y-%m-%dT%H:%M:30Z")
        forms = {
            "nth-weekday": f"*/10 * * * {weekday}#{nth}",
            "both-days": f"*/10 * {now.day} * &{weekday}",
            "year": f"*/10 * * * * {now.year}-{now.year + 1}",
            "interval": "every 7 minutes",
            "anchored": f"every 11 minutes from {start}",
            "union": '{"any":["*/10 * * * *","every 25 minutes"]}',
            "excluded": '{"any":["*/10 * * * *","every 1 hour"],"excluding":["0-59/20 * * * *"]}',
            "moved": '{"any":["*/10 * * * *"],"calendar":{"country":"DE","weekends":true,"on":"move-next"}}',
            "day-off": f'{{"any":["* * * * *"],"calendar":{{"dates":["{now:%Y-%m-%d}"]}}}}',
        }
        for cron_id, text in forms.items():
            await crons.put(cron_id, text)
        await world.advance(0.4 * HOUR)
        await world.stop("a")
        world.add_node("c")
        await world.advance(0.6 * HOUR)
        await crons.check()
        counts = {cron_id: len(crons.calls(cron_id)) for cron_id in forms}
        for cron_id in ("nth-weekday", "both-days", "year"):
            assert counts[cron_id] in (5, 6)
            assert_on_time(crons, cron_id, within_ms=2_000)
        assert counts["interval"] == 8
        assert counts["anchored"] in (5, 6)
        assert counts["union"] in (7, 8)
        assert counts["excluded"] in (3, 4)
        assert counts["day-off"] == 0
        first = min(crons.calls("interval"))
        assert first - (await crons.put("interval", forms["interval"])).created_at // 1000 * 1000 == 7 * MINUTE_MS

    simulate(scenario)


def test_a_cron_made_seconds_before_its_first_fire_makes_it_in_time() -> None:
    async def scenario(world: World) -> None:
        crons = await with_crons(world, names="abc")
        start = await to_the_next_minute(world, second=58.0)
        for number in range(20):
            await crons.put(f"soon-{number}", "* * * * *")
        await world.advance(60.0)
        await crons.check()
        for number in range(20):
            assert start + MINUTE_MS in crons.calls(f"soon-{number}")
            assert_on_time(crons, f"soon-{number}")

    simulate(scenario)


def test_a_rolling_restart_and_an_outage_of_five_minutes_miss_and_double_nothing() -> None:
    async def scenario(world: World) -> None:
        crons = await with_crons(world, names="abc")
        await crons.put("tick", "* * * * *")
        await world.advance(400.0)
        for name in "abc":
            await world.stop(name)
            world.add_node(name)
            await world.advance(30.0)
        await world.advance(200.0)
        assert_on_time(crons, "tick", within_ms=2_000)
        outage_ends = world.now_ms() + 300_000
        world.cut_off(*world.nodes)
        await world.advance(300.0)
        world.heal()
        await world.advance(900.0)
        await crons.check()
        assert_on_time(crons, "tick", since_ms=outage_ends + 60_000)

    simulate(scenario)


def test_all_nodes_down_for_hours_what_is_within_the_catch_up_runs_and_the_rest_is_recorded() -> None:
    async def scenario(world: World) -> None:
        crons = await with_crons(world, names="a")
        await crons.put("tick", "* * * * *", catch_up_seconds=1800)
        await world.advance(600.0)
        await world.kill_all()
        await world.advance(6 * HOUR)
        world.add_node("d")
        back = world.now_ms()
        await world.advance(900.0)
        await crons.check(missed_before_ms=back - 1_800_000 + 120_000)
        rows = await crons.rows("tick")
        skipped = [nominal for nominal, row in rows.items() if row.state == State.SKIPPED]
        assert 300 < len(skipped) < 335
        assert {rows[nominal].reason for nominal in skipped} <= {"missed", "late"}
        assert max(skipped) < back - 1_700_000
        assert_on_time(crons, "tick", since_ms=back + 120_000)

    simulate(scenario)


CONDITIONAL = ("crons.advance", "schedules.commit")
STEPS = ("crons.read", "cron_runs.insert", "schedules.insert", *CONDITIONAL)
INTERRUPTED = [(step, fault) for step in STEPS for fault in ("crash-before", "crash-after", "refuse", "lose")]


@pytest.mark.parametrize(("step", "fault"), [*INTERRUPTED, *((step, "late") for step in CONDITIONAL)])
def test_every_step_of_an_expansion_is_interrupted(step: str, fault: str) -> None:
    async def scenario(world: World) -> None:
        crons = await with_crons(world, names="a", quota=1, wakers=1)
        crashes: list[int] = []
        hit = 0

        def hook(kind: str, items: Sequence[Item]) -> str | None:
            nonlocal hit
            if not items[0][0].startswith(step):
                return None
            hit += 1
            # Not every time, or no expansion would ever succeed.
            return fault if hit % 3 == 1 else None

        def crashed() -> None:
            crashes.append(world.now_ms())

        def plant() -> None:
            plan = world.nodes["a"].connection.plan
            plan.hook, plan.crash = hook, crashed

        await crons.put("tick", "*/2 * * * *")
        await crons.put("tock", "*/3 * * * *", spread_seconds=20)
        plant()
        seen = 0
        for _ in range(75):
            await world.advance(10.0)
            if len(crashes) > seen:
                seen = len(crashes)
                await world.kill("a")
                world.add_node("a")
                plant()
        world.nodes["a"].connection.plan.hook = None
        await world.advance(300.0)
        assert hit > 3, "nothing was interrupted"
        await crons.check()

    simulate(scenario)


def test_an_edit_withdraws_what_is_not_claimed_and_goes_on_with_the_new_rule() -> None:
    async def scenario(world: World) -> None:
        crons = await with_crons(world)
        await crons.put("tick", "* * * * *", url="http://old.test/")
        await world.advance(200.0)
        await to_the_next_minute(world, second=20.0)
        await crons.put("tick", "*/5 * * * *", url="http://new.test/")
        edited = world.now_ms()
        await world.advance(1200.0)
        await crons.check()
        calls = crons.calls("tick")
        assert {call.url for nominal, made in calls.items() for call in made if nominal > edited} == {
            "http://new.test/"
        }
        assert [nominal for nominal in calls if nominal > edited and nominal % 300_000] == []
        rows = await crons.rows("tick")
        withdrawn = [row for row in rows.values() if row.state == State.CANCELLED]
        assert withdrawn
        assert {row.reason for row in withdrawn} == {"cron-changed"}

    simulate(scenario)


@pytest.mark.parametrize("before", [0.2, 1.0, 4.0, 8.0])
def test_an_edit_just_before_a_fire_neither_doubles_nor_loses_it(before: float) -> None:
    async def scenario(world: World) -> None:
        crons = await with_crons(world)
        await crons.put("tick", "* * * * *", label="old")
        await world.advance(200.0)
        for number in range(4):
            await to_the_next_minute(world, second=60.0 - before)
            await crons.put("tick", "* * * * *", label=f"new {number}")
        await world.advance(200.0)
        await crons.check()

    simulate(scenario)


@pytest.mark.parametrize("change", ["edit", "pause"])
def test_an_expander_that_sleeps_through_a_change_adds_nothing(change: str) -> None:
    """Its children are placed after the change's wake-up has withdrawn all that existed."""

    async def scenario(world: World) -> None:
        crons = await with_crons(world)
        sleeping: list[str] = []

        def sleep_before_the_children(name: str, kind: str, items: Sequence[Item]) -> str | None:
            inserted = [values for statement, values in items if statement.startswith("schedules.insert")]
            if any(SHOP in values for values in inserted) and not sleeping:
                sleeping.append(name)
                world.pause(name)
            return None

        await to_the_next_minute(world, second=5.0)
        for name in world.nodes:
            world.nodes[name].connection.plan.hook = partial(sleep_before_the_children, name)
        await crons.put("tick", "* * * * *", url="http://old.test/")
        while not sleeping:
            await world.advance(0.01)
        for node in world.nodes.values():
            node.connection.plan.hook = None
        await world.advance(1.0)
        if change == "edit":
            await crons.put("tick", "*/2 * * * *", url="http://new.test/")
        else:
            await crons.pause("tick")
        changed = world.now_ms()
        await world.advance(15.0)
        for name in sleeping:
            world.resume(name)
        await world.advance(900.0)
        made = [call for calls in crons.calls("tick").values() for call in calls if call.at_ms > changed]
        assert {call.url for call in made} == ({"http://new.test/"} if change == "edit" else set())
        await crons.check()

    simulate(scenario)


def test_paused_resumed_triggered_deleted() -> None:
    async def scenario(world: World) -> None:
        crons = await with_crons(world, names="a")
        await crons.put("tick", "* * * * *")
        await world.advance(300.0)
        await to_the_next_minute(world, second=10.0)
        await crons.pause("tick")
        paused = world.now_ms()
        await world.advance(600.0)
        assert max(crons.calls("tick")) <= paused
        await crons.trigger("tick")
        await world.advance(5.0)
        assert [call.cron_id for call in world.receiver.calls if call.at_ms > paused] == ["tick"]
        await to_the_next_minute(world, second=10.0)
        await crons.resume("tick")
        resumed = world.now_ms()
        await world.advance(300.0)
        assert not [nominal for nominal in crons.calls("tick") if paused < nominal <= resumed], (
            "a pause is not made up for"
        )
        await to_the_next_minute(world, second=10.0)
        await crons.delete("tick")
        deleted = world.now_ms()
        await world.advance(900.0)
        assert max(crons.calls("tick")) <= deleted
        await crons.check()
        rows = await crons.rows("tick")
        assert len([row for row in rows.values() if row.state == State.DELIVERED]) >= 10, "its history stays"
        await crons.put("tick", "* * * * *")
        await world.advance(300.0)
        await crons.check()
        assert (await crons.read("tick")).revision == 5

    simulate(scenario)


HELD: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"state": ClientState.SUSPENDED}, {"state": ClientState.ACTIVE}),
    ({"paused": True}, {"paused": False}),
]


@pytest.mark.parametrize(("held", "lifted"), HELD, ids=["suspended", "paused"])
def test_a_client_that_is_held_misses_nothing_within_the_catch_up(held: dict[str, Any], lifted: dict[str, Any]) -> None:
    async def scenario(world: World) -> None:
        crons = await with_crons(world, names="a")
        await crons.put("tick", "* * * * *", catch_up_seconds=600)
        await world.advance(600.0)
        await world.change_client(SHOP, **held)
        await world.advance(10.0)
        suspended = world.now_ms()
        await world.advance(1800.0)
        assert max(crons.calls("tick")) <= suspended
        await world.change_client(SHOP, **lifted)
        resumed = world.now_ms()
        await world.advance(900.0)
        await crons.check(missed_before_ms=resumed - 600_000 + 90_000)
        assert any(suspended < nominal < resumed for nominal in crons.calls("tick")), (
            "the last ten minutes are made up for"
        )

    simulate(scenario)


def test_overlap_skip_passes_fires_over_while_a_run_is_retried() -> None:
    async def scenario(world: World) -> None:
        settings = ClientSettings(retry=RetrySettings(base_seconds=30, cap_seconds=60, max_attempts=20))
        crons = await with_crons(world, names="a")
        await world.change_client(SHOP, settings=settings)
        await crons.put("allowed", "* * * * *")
        await crons.put("exclusive", "* * * * *", overlap="skip")
        await world.advance(300.0)
        broken_from = world.now_ms()
        world.receiver.script = lambda call: 500
        await world.advance(600.0)
        world.receiver.script = lambda call: 200
        await world.advance(900.0)
        rows = await crons.rows("exclusive")
        passed_over = {nominal: row for nominal, row in rows.items() if row.state == State.SKIPPED}
        assert {row.reason for row in passed_over.values()} == {"overlap"}
        assert len(passed_over) >= 9
        assert all(nominal > broken_from for nominal in passed_over)
        retried = [made for nominal, made in crons.calls("exclusive").items() if len(made) > 1]
        assert len(retried) == 1, "one run at a time"
        later = max(passed_over) + MINUTE_MS
        assert rows[later].state == State.DELIVERED
        assert not [row for row in (await crons.rows("allowed")).values() if row.state == State.SKIPPED]

    simulate(scenario)


def test_runs_of_one_ordering_key_wait_for_each_other_and_are_all_made() -> None:
    async def scenario(world: World) -> None:
        settings = ClientSettings(retry=RetrySettings(base_seconds=30, cap_seconds=60, max_attempts=8))
        crons = await with_crons(world, names="a", quota=4)
        await world.change_client(SHOP, settings=settings)
        world.receiver.latency_seconds = 2.0
        for cron_id in ("east", "west"):
            await crons.put(cron_id, "* * * * *", ordering_key="till-4")
        await world.advance(200.0)
        world.receiver.script = lambda call: 500 if call.attempt < 4 and call.cron_id == "east" else 200
        await world.advance(400.0)
        world.receiver.script = lambda call: 200
        await world.advance(900.0)
        await crons.check()
        made = [call for cron_id in ("east", "west") for calls in crons.calls(cron_id).values() for call in calls]
        made.sort(key=lambda call: call.at_ms)
        assert len(made) > 2 * 24
        assert all(after.at_ms - before.at_ms >= 990 for before, after in pairwise(made)), "one at a time"
        runs = list(dict.fromkeys((call.nominal_due, call.schedule_id) for call in made))
        assert [nominal for nominal, _ in runs] == sorted(nominal for nominal, _ in runs), "by due"
        assert len(runs) == len({(call.nominal_due, call.cron_id) for call in made})

    simulate(scenario)


def test_a_wake_up_that_is_lost_is_made_up_for() -> None:
    async def scenario(world: World) -> None:
        crons = await with_crons(world, names="a")
        await crons.put("tick", "* * * * *")
        await crons.put("tock", "* * * * *")
        await world.advance(120.0)
        # A client cancels the rows that would wake it.
        lost = 0
        for row in list(world.memory.rows("schedules")):
            if row["client_id"] == CRON_CLIENT and row["label"] == "shop/tick" and row["state"] is None:
                await world.cancel_schedules.one(CRON_CLIENT, row["schedule_id"])
                lost += 1
        assert lost == 1
        await world.advance(1500.0)
        assert sum(node.node.crons.overdue_scan.found for node in world.nodes.values()) == 1
        await crons.check()
        assert not [row for row in (await crons.rows("tick")).values() if row.state == State.SKIPPED]

    simulate(scenario)


def test_the_last_fire_ends_a_cron() -> None:
    async def scenario(world: World) -> None:
        crons = await with_crons(world, names="a")
        start = minute_start(minute_of(world.now_ms()))
        await crons.put("three", "* * * * *", max_fires=3)
        await crons.put("window", "* * * * *", starts_at=start + 5 * MINUTE_MS, ends_at=start + 9 * MINUTE_MS)
        await world.advance(1200.0)
        assert len(crons.calls("three")) == 3
        assert sorted(crons.calls("window")) == [start + minutes * MINUTE_MS for minutes in (5, 6, 7, 8)]
        for cron_id in ("three", "window"):
            assert (await crons.read(cron_id)).state is CronState.FINISHED
        await crons.put("three", "* * * * *", max_fires=5)
        await world.advance(600.0)
        assert len(crons.calls("three")) == 5

    simulate(scenario)


@pytest.mark.parametrize("second", [10.0, 57.0])
def test_fires_are_counted_over_edits_and_pauses(second: float) -> None:
    async def scenario(world: World) -> None:
        crons = await with_crons(world, names="a")
        await crons.put("nine", "* * * * *", max_fires=9)
        await world.advance(70.0)
        for number in range(3):
            await to_the_next_minute(world, second=second)
            await crons.put("nine", "* * * * *", max_fires=9, label=f"edit {number}")
        await to_the_next_minute(world, second=second)
        await crons.pause("nine")
        await world.advance(200.0)
        await crons.resume("nine")
        await world.advance(1200.0)
        assert len(crons.calls("nine")) == 9
        cron = await crons.read("nine")
        assert (cron.state, cron.fires) == (CronState.FINISHED, 9)

    simulate(scenario)


def test_one_run_is_cancelled_and_stays_so_over_an_edit() -> None:
    async def scenario(world: World) -> None:
        crons = await with_crons(world, names="a")
        await crons.put("tick", "* * * * *")
        await to_the_next_minute(world, second=10.0)
        rows = await crons.rows("tick")
        nominal = min(nominal for nominal in rows if nominal > world.now_ms() + 2 * MINUTE_MS)
        await world.cancel_schedules.one(SHOP, rows[nominal].schedule_id)
        await crons.put("tick", "* * * * *", label="edited")
        await world.advance(600.0)
        calls = crons.calls("tick")
        assert nominal not in calls
        assert nominal - MINUTE_MS in calls
        assert nominal + MINUTE_MS in calls

    simulate(scenario)
