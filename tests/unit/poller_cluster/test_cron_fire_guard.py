"""Which fires may still be made: depends on the cron's revision and the run before; and which need no read."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from membership.conditional import Applied
from poller_cluster.crons.fire_guard import OVERLAP, RUNS_AT_ONCE, CronFireGuard
from scheduler_service.domain.crons.expansion import plan
from scheduler_service.domain.crons.row import Cron, CronOptions, CronState
from scheduler_service.domain.ids import MINUTE_MS, CronId, ScheduleId, UnixMillis
from scheduler_service.domain.retry_rows import retry_row_of
from scheduler_service.domain.schedules import Definition, Outcome, Row, RowWrite, State
from scheduler_service.usecases.expand_crons import CHANGED
from tests.contract.builders import commit
from tests.contract.cron_builders import cron as any_cron
from tests.support.api import NOW
from tests.unit.usecases.cron_world import SHOP, CronWorld

MONTH_BEGINS = int(datetime(2026, 12, 1, tzinfo=UTC).timestamp() * 1000)


class Fires:
    """A cron of every minute, its fires, and the guard of their owner."""

    def __init__(self, world: CronWorld) -> None:
        self.world = world
        self.judge = CronFireGuard(crons=world.storage.crons, schedules=world.storage.schedules)
        self.versions: dict[Any, int] = {}

    async def cron(self, *, since: int = NOW, revision: int = 1, name: str = "tick", **columns: Any) -> Cron:
        options = {key: columns.pop(key) for key in list(columns) if key in CronOptions.__struct_fields__}
        values = {"expression": "* * * * *", "timezone": "Etc/UTC", "swept": revision, "changed_at": since, **columns}
        values = {"expanded_through": UnixMillis(since), **values}
        made = any_cron(SHOP, name, revision=revision, options=CronOptions(**options), **values)
        found = await self.world.storage.crons.read(SHOP, [made.cron_id])
        expected = found[made.cron_id].revision if found else None
        assert isinstance(await self.world.storage.crons.write(made, expected_revision=expected), Applied)
        return made

    async def children(self, of: Cron, *, since: int = NOW, placed: bool = True) -> list[Definition]:
        """Fires of the ten minutes after `since`, with their runs."""
        fresh = msgspec.structs.replace(of, expanded_through=UnixMillis(since), state=CronState.ACTIVE)
        made = plan(fresh, now=since, wake_quota=1, retention_ms=10**12).children
        await self.world.storage.crons.insert_runs([child.run for child in made])
        rows = [child.definition for child in made]
        if placed:
            for row in rows:
                await self.world.storage.schedules.insert(row)
        return rows

    async def end(self, of: Definition, state: State, **columns: Any) -> None:
        outcome = Outcome(state=state, attempts=columns.pop("attempts", 1), **columns)
        version = self.versions.get(of.partition)
        self.versions[of.partition] = (version or 0) + 1
        answer = await self.world.storage.schedules.commit(
            commit(
                of.partition,
                expect_epoch=None if version is None else 1,
                version=version,
                writes=(RowWrite(key=of.key, outcome=outcome),),
            )
        )
        assert isinstance(answer, Applied)

    async def verdict(self, *rows: Definition) -> list[tuple[State, str | None] | None]:
        """When the last of them is due."""
        now = max(self.world.clock.now, *(row.due for row in rows))
        outcomes = await self.judge.judge(SHOP, [as_row(row) for row in rows], now=now)
        return [None if (end := outcomes.get(row.key)) is None else (end.state, end.reason) for row in rows]


def as_row(of: Definition) -> Row:
    columns = {name: getattr(of, name) for name in Row.__struct_fields__ if hasattr(of, name)}
    columns.update(dict.fromkeys(set(Row.__struct_fields__) - columns.keys()))
    return Row(**{**columns, "kind": str(of.kind)})


@pytest.fixture
async def fires() -> AsyncIterator[Fires]:
    world = CronWorld()
    yield Fires(world)
    await world.close()


async def test_fires_of_the_present_revision_are_made_in_one_read(fires: Fires) -> None:
    rows = await fires.children(await fires.cron())
    fires.world.connection.asked.clear()
    assert await fires.verdict(*rows) == [None] * 10
    assert fires.world.connection.asked == ["crons.read_standings"]


@pytest.mark.parametrize("state", [CronState.ACTIVE, CronState.PAUSED, CronState.DELETED])
async def test_fires_of_an_older_revision_are_cancelled(fires: Fires, state: CronState) -> None:
    """They were placed by an expander that was asleep during the change."""
    rows = await fires.children(await fires.cron())
    await fires.cron(revision=2, swept=1, state=state)
    assert await fires.verdict(*rows) == [(State.CANCELLED, CHANGED)] * 10


@pytest.mark.parametrize("state", [CronState.ACTIVE, CronState.PAUSED, CronState.DELETED])
@pytest.mark.parametrize("swept", [1, 2])
async def test_fires_that_were_due_before_the_change_stand(fires: Fires, state: CronState, swept: int) -> None:
    rows = await fires.children(await fires.cron())
    changed = UnixMillis(NOW + 3 * MINUTE_MS + 1)
    await fires.cron(
        since=changed, revision=2, swept=swept, state=state, expression="0 0 1 1 *", expanded_through=changed
    )
    assert await fires.verdict(*rows) == [None] * 3 + [(State.CANCELLED, CHANGED)] * 7


async def test_a_fire_claimed_before_the_change_is_made_but_not_a_repeated_one(fires: Fires) -> None:
    rows = await fires.children(await fires.cron())
    renewed = await fires.cron(revision=2, expanded_through=UnixMillis(NOW + 10 * MINUTE_MS))
    for row in (await fires.children(renewed, placed=False))[1:]:
        await fires.world.storage.schedules.insert(row)
    assert await fires.verdict(*rows) == [None] + [(State.CANCELLED, CHANGED)] * 9


async def test_a_rule_from_a_newer_program_lets_nothing_stand(fires: Fires) -> None:
    rows = await fires.children(await fires.cron())
    await fires.cron(revision=2, expression="every other day", expanded_through=UnixMillis(NOW + 10 * MINUTE_MS))
    assert await fires.verdict(rows[0]) == [(State.CANCELLED, CHANGED)]


async def test_what_may_have_been_called_is_not_asked_about(fires: Fires) -> None:
    row = (await fires.children(await fires.cron()))[0]
    await fires.cron(revision=2, swept=1)
    doubt = retry_row_of(row, at=UnixMillis(row.due + 1000), attempts=0, in_doubt=True)
    retry = retry_row_of(row, at=UnixMillis(row.due + 1000), attempts=1)
    late = retry_row_of(row, at=UnixMillis(row.due + 1000), attempts=0)
    assert await fires.verdict(doubt, retry) == [None, None]
    assert await fires.verdict(late) == [(State.CANCELLED, CHANGED)], "requeued, never called"


async def test_what_is_no_fire_or_can_t_be_read_is_left_alone(fires: Fires) -> None:
    await fires.cron(revision=2, swept=1)
    row = (await fires.children(await fires.cron(name="other")))[0]
    replace = msgspec.structs.replace
    strange = [
        replace(row, cron_id=None),
        replace(row, options="{}"),
        replace(row, options="no"),
        replace(row, cron_id=CronId("unheard-of")),
    ]
    for one in strange:
        assert await fires.verdict(one) == [None]


@pytest.mark.parametrize(
    ("before", "passed_over"),
    [(None, True), ("retrying", True), ("delivered", False), ("failed", False), ("cancelled", False)],
)
async def test_overlap_skip_looks_at_the_run_before(fires: Fires, before: str | None, passed_over: bool) -> None:
    rows = await fires.children(await fires.cron(overlap="skip"))
    if before == "retrying":
        await fires.end(rows[0], State.RETRYING, next_attempt_at=UnixMillis(rows[0].due + 90_000))
    elif before is not None:
        await fires.end(rows[0], State(before))
    expected = (State.SKIPPED, OVERLAP) if passed_over else None
    assert await fires.verdict(rows[1]) == [expected]
    assert await fires.verdict(rows[0]) == [None], "the first has none before it"


async def test_skipped_runs_are_walked_over_to_the_one_that_is_under_way(fires: Fires) -> None:
    cron = await fires.cron(overlap="skip")
    rows = [row for n in range(0, 80, 10) for row in await fires.children(cron, since=NOW + n * MINUTE_MS)]
    assert len(rows) > RUNS_AT_ONCE + 10
    await fires.end(rows[0], State.RETRYING, next_attempt_at=UnixMillis(rows[0].due + 10**7))
    for row in rows[1:-1]:
        await fires.end(row, State.SKIPPED, attempts=0)
    assert await fires.verdict(rows[-1]) == [(State.SKIPPED, OVERLAP)]
    fires.world.connection.asked.clear()
    assert await fires.verdict(rows[-1]) == [(State.SKIPPED, OVERLAP)]
    assert "cron_runs.read_newest" not in fires.world.connection.asked, "it remembers which"
    await fires.end(rows[0], State.DELIVERED)
    assert await fires.verdict(rows[-1]) == [None]


async def test_a_run_that_was_never_placed_is_not_waited_for(fires: Fires) -> None:
    rows = await fires.children(await fires.cron(overlap="skip"), placed=False)
    assert await fires.verdict(rows[5]) == [None]


async def test_the_run_before_may_be_of_the_month_before(fires: Fires) -> None:
    since = MONTH_BEGINS - 5 * MINUTE_MS
    rows = await fires.children(await fires.cron(since=since, overlap="skip"), since=since)
    assert rows[4].due == MONTH_BEGINS
    for row in rows[:3]:
        await fires.end(row, State.DELIVERED)
    assert await fires.verdict(rows[4]) == [(State.SKIPPED, OVERLAP)]
    await fires.end(rows[3], State.SKIPPED, attempts=0)
    assert await fires.verdict(rows[4]) == [None]


async def test_one_of_several_late_fires_is_made(fires: Fires) -> None:
    rows = await fires.children(await fires.cron(overlap="skip"))
    assert await fires.verdict(*rows) == [None] + [(State.SKIPPED, OVERLAP)] * 9


class Ahead:
    """The runs before another one, as their owner knows them."""

    def __init__(self, *ids: ScheduleId) -> None:
        self.ids = list(ids)
        self.under_way: list[ScheduleId] = []

    def runs_ahead(self, key: str, schedule_id: ScheduleId, *, limit: int) -> list[ScheduleId]:
        return self.ids[:limit]

    def is_under_way(self, key: str, schedule_id: ScheduleId, *, at: int) -> None:
        self.under_way.append(schedule_id)

    def is_over(self, key: str, schedule_id: ScheduleId, *, redelivered_at: int) -> None:
        self.ids.remove(schedule_id)


async def judged(fires: Fires, row: Definition, runs: Ahead, *, early_ms: int = 0) -> tuple[State, str | None] | None:
    outcomes = await fires.judge.judge(SHOP, [as_row(row)], now=row.due - early_ms, runs=runs)
    return None if (end := outcomes.get(row.key)) is None else (end.state, end.reason)


async def test_overlaps_are_judged_no_sooner_than_a_fire_is_due(fires: Fires) -> None:
    """The run before may end until then."""
    rows = await fires.children(await fires.cron(overlap="skip"))
    runs = Ahead(rows[0].schedule_id)
    assert await judged(fires, rows[1], runs, early_ms=1) is None
    assert runs.under_way == [rows[0].schedule_id], "it is told to the owner, who may not know of it"
    assert await judged(fires, rows[1], runs) == (State.SKIPPED, OVERLAP)


async def test_under_buffer_one_both_runs_before_are_looked_at(fires: Fires) -> None:
    rows = await fires.children(await fires.cron(overlap="skip", waits="buffer_one"))
    runs = Ahead(rows[0].schedule_id, rows[1].schedule_id)
    assert await judged(fires, rows[2], runs) == (State.SKIPPED, OVERLAP)
    await fires.end(rows[1], State.CANCELLED, attempts=0)
    assert await judged(fires, rows[2], runs) is None
    assert runs.ids == [rows[0].schedule_id], "the one that was cancelled waits no more"


async def test_cancel_other_cancels_the_older_of_both(fires: Fires) -> None:
    rows = await fires.children(await fires.cron(overlap="skip", waits="cancel_other"))
    assert await judged(fires, rows[0], Ahead(rows[1].schedule_id)) == (State.CANCELLED, OVERLAP)
