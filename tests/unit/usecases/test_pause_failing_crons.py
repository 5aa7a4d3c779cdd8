"""When a cron has failed too often, what its pause says, and that it is decided once."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from membership.conditional import Applied
from membership.errors import StoreUnavailable
from poller_cluster.crons.fire_guard import CronFireGuard
from scheduler_service.domain.audit_log import SYSTEM, AuditEntry, first_entry_id, last_entry_id
from scheduler_service.domain.crons.row import Cron, CronPause, CronState
from scheduler_service.domain.ids import MINUTE_MS, CronId, UnixMillis
from scheduler_service.domain.schedules import Definition, State
from scheduler_service.usecases.audit_log import AuditActions
from scheduler_service.usecases.expand_crons import CHANGED
from scheduler_service.usecases.pause_failing_crons import PauseFailingCrons
from tests.support.api import NOW, SeededRandomness
from tests.unit.poller_cluster.test_cron_fire_guard import Fires
from tests.unit.usecases.cron_world import SHOP, CronWorld

TICK = CronId("tick")
F, D, S, C, R = State.FAILED, State.DELIVERED, State.SKIPPED, State.CANCELLED, State.RETRYING
OPEN = None


class Failing(Fires):
    """A cron of every minute that pauses itself, and its first ten runs."""

    def __init__(self, world: CronWorld) -> None:
        super().__init__(world)
        self.pause = PauseFailingCrons(
            crons=world.storage.crons,
            schedules=world.storage.schedules,
            clients=world.storage.clients,
            known=world.remembered.get,
            writer=world.writer,
            audit_log=AuditActions(
                store=world.storage.audit_log, clock=world.clock, randomness=SeededRandomness(seed=18)
            ),
            node_id="host-0",
            clock=world.clock,
            on_fault=lambda what, error: world.faults.append(what),
        )
        self.judge = CronFireGuard(
            crons=world.storage.crons, schedules=world.storage.schedules, pause_failing=self.pause
        )
        self.asked = world.connection.asked

    async def runs(self, *states: State | None, after: int = 3, at: int | None = None, **columns: Any) -> Cron:
        """These are the last runs' states; now is just after the last of them."""
        since = NOW if at is None else at
        through = UnixMillis(since + 10 * MINUTE_MS)
        cron = await self.cron(pause_after_failures=after, expanded_through=through, **columns)
        self.rows = (await self.children(cron, since=since))[: len(states)]
        for row, state in zip(self.rows, states, strict=True):
            if state is not None:
                more = {"next_attempt_at": UnixMillis(row.due + 10**6)} if state is R else {"last_status": 500}
                await self.end(row, state, **more)
        self.world.clock.now = self.rows[-1].due + 500
        self.asked.clear()
        return cron

    async def again(self) -> Cron:
        await self.pause(SHOP, [TICK])
        return await self.stored()

    async def recorded(self) -> list[AuditEntry]:
        """The entries of the audit log, oldest first; the client's and the operator's are the same."""
        since, now = first_entry_id(NOW), last_entry_id(self.world.clock.now)
        read = self.world.storage.audit_log.read_page
        of_client = await read(client_id=SHOP, first=since, last=now, limit=100)
        assert list(of_client) == list(await read(client_id=None, first=since, last=now, limit=100))
        return list(of_client)[::-1]

    async def stored(self) -> Cron:
        return (await self.world.storage.crons.read(SHOP, [TICK], serial=True))[TICK]


@pytest.fixture
async def failing() -> AsyncIterator[Failing]:
    world = CronWorld()
    await world.begin()
    yield Failing(world)
    await world.close()


@pytest.mark.parametrize(
    ("states", "paused"),
    [
        ([F, F, F], True),
        ([F, F], False),
        ([F, F, D], False),
        ([F, D, F, F], False),
        ([D, F, F, F], True),
        ([F, S, F, C, F], True),
        ([F, S, C, F], False),
        ([F, F, OPEN, F, OPEN], True),
        ([F, F, R, R], False),
    ],
)
async def test_only_failed_runs_count_and_only_a_delivered_one_ends_the_series(
    failing: Failing, states: list[State | None], paused: bool
) -> None:
    before = await failing.runs(*states)
    cron = await failing.again()
    assert cron.state == (CronState.PAUSED if paused else CronState.ACTIVE)
    if not paused:
        assert cron == before


async def test_the_pause_says_how_many_and_why_and_wakes_the_cron(failing: Failing) -> None:
    before = await failing.runs(F, F, F)
    cron = await failing.again()
    note = "the last 3 runs failed; the one due 2026-11-21T09:33:00.000Z with status 500"
    now = UnixMillis(failing.world.clock.now)
    assert cron.pause == CronPause(at=now, revision=2, by="failures", note=note)
    assert (cron.revision, cron.changed_at, cron.wake_at, cron.expanded_through) == (2, now, now, now)
    assert cron.options == before.options
    assert failing.world.wake_ups() == [now]
    (entry,) = await failing.recorded()
    assert entry == AuditEntry(
        entry_id=entry.entry_id,
        actor=SYSTEM,
        key_id=None,
        action="pause_cron",
        target={"client_id": SHOP, "cron_id": TICK},
        request_id="",
        status=200,
        details={"node_id": "host-0", "revision": 2, "note": note},
    )
    assert await failing.again() == cron, "asked again"
    assert await failing.recorded() == [entry]


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"last_error": "timeout"}, "error timeout"),
        ({"reason": "destination-deleted"}, "reason destination-deleted"),
        ({"last_error": "timeout", "last_status": 503}, "status 503"),
    ],
)
async def test_the_note_names_what_ended_the_last_run(failing: Failing, columns: dict[str, Any], why: str) -> None:
    await failing.runs(OPEN, after=1)
    await failing.end(failing.rows[0], F, **columns)
    pause = (await failing.again()).pause
    assert pause is not None
    assert pause.note == f"the last run failed; the one due 2026-11-21T09:31:00.000Z with {why}"


async def test_what_has_not_failed_often_enough_costs_one_read_of_runs(failing: Failing) -> None:
    await failing.runs(F, F)
    await failing.again()
    assert failing.asked[:2] == ["crons.read_standings", "cron_runs.read_newest"]
    assert not [name for name in failing.asked if name.startswith("schedules.")]


async def test_a_delivered_run_is_remembered(failing: Failing) -> None:
    await failing.runs(D, F, F, D, F, F)
    await failing.again()
    assert [name for name in failing.asked if name.startswith("schedules.")]
    failing.asked.clear()
    await failing.again()
    assert not [name for name in failing.asked if name.startswith("schedules.")]
    rows = await failing.children(await failing.stored())
    await failing.end(rows[6], F)
    failing.world.clock.now = rows[6].due + 500
    assert (await failing.again()).state is CronState.PAUSED


async def test_a_cron_without_the_setting_costs_nothing(failing: Failing) -> None:
    cron = await failing.cron()
    row = (await failing.children(cron))[0]
    failing.asked.clear()
    await failing.judge.run_failed(row)
    await failing.judge.run_failed(msgspec.structs.replace(row, cron_id=None))
    await failing.judge.run_failed(msgspec.structs.replace(row, options="no"))
    assert failing.asked == []
    assert await failing.verdict(row) == [None]
    assert failing.asked == ["crons.read_standings"]


async def test_runs_of_earlier_revisions_don_t_count(failing: Failing) -> None:
    await failing.runs(F, F, F)
    await failing.cron(revision=2, pause_after_failures=3)
    await failing.again()
    later = await failing.runs(F, F, at=NOW + 5 * MINUTE_MS, revision=3)
    assert await failing.again() == later
    assert (await failing.runs(F, F, F, at=NOW + 20 * MINUTE_MS, revision=4)).revision == 4
    assert (await failing.again()).pause is not None


async def test_a_long_series_is_read_in_several_steps(failing: Failing) -> None:
    cron = await failing.cron(pause_after_failures=60)
    rows: list[Definition] = []
    for since in range(0, 130, 10):
        rows += await failing.children(cron, since=NOW + since * MINUTE_MS)
    for at, row in enumerate(rows):
        await failing.end(row, F if at % 2 else S)
    failing.world.clock.now = rows[118].due + 500
    assert (await failing.again()).state is CronState.ACTIVE, "59 have failed"
    failing.world.clock.now = rows[120].due + 500
    assert (await failing.again()).pause is not None


@pytest.mark.parametrize("state", [CronState.PAUSED, CronState.FINISHED, CronState.DELETED])
async def test_only_active_crons_are_paused(failing: Failing, state: CronState) -> None:
    await failing.runs(F, F, F)
    cron = await failing.stored()
    changed = msgspec.structs.replace(cron, state=state)
    assert isinstance(await failing.world.storage.crons.write(changed, expected_revision=1), Applied)
    assert await failing.again() == changed


@pytest.mark.parametrize("fault", ["refuse", "lose", "queued", "accepted"])
async def test_a_pause_without_an_answer_is_asked_for_again_and_decided_once(failing: Failing, fault: str) -> None:
    await failing.runs(F, F, F)
    failing.world.connection.faults["crons.write"] = [fault]
    with pytest.raises(StoreUnavailable):
        await failing.again()
    cron = await failing.again()
    await failing.world.connection.arrive()
    assert await failing.stored() == cron
    assert (cron.state, cron.revision) == (CronState.PAUSED, 2)
    (entry,) = await failing.recorded()
    assert entry.status == (None if fault in ("lose", "accepted") else 200)


async def test_a_change_after_the_runs_were_read_wins(failing: Failing) -> None:
    await failing.runs(F, F, F)

    async def confirmed() -> None:
        await failing.world.others.crons.confirm(await failing.stored())

    async def renewed() -> None:
        changed = msgspec.structs.replace(await failing.stored(), revision=2)
        assert isinstance(await failing.world.others.crons.write(changed, expected_revision=1), Applied)

    failing.world.connection.before["crons.write"] = renewed
    cron = await failing.again()
    assert (cron.state, cron.revision) == (CronState.ACTIVE, 2)
    assert [(one.status, one.problem) for one in await failing.recorded()] == [(409, "cron-changed")]
    await failing.runs(F, F, F, revision=3, at=NOW + 20 * MINUTE_MS)
    failing.world.connection.before["crons.write"] = confirmed
    assert (await failing.again()).state is CronState.PAUSED, "a confirmation changes nothing"
    assert [one.status for one in await failing.recorded()] == [409, 200]


async def test_what_can_t_be_recorded_is_not_done(failing: Failing) -> None:
    before = await failing.runs(F, F, F)
    failing.world.connection.faults["audit_log.begin"] = ["refuse"]
    with pytest.raises(StoreUnavailable):
        await failing.again()
    assert await failing.stored() == before
    failing.world.connection.faults["audit_log.end"] = ["refuse"]
    assert (await failing.again()).state is CronState.PAUSED


async def test_nothing_is_recorded_of_crons_that_are_not_paused(failing: Failing) -> None:
    await failing.runs(F, F)
    await failing.again()
    assert await failing.recorded() == []


async def test_a_cron_that_can_t_be_paused_is_reported_and_goes_on(
    failing: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    await failing.runs(F, F, F)
    monkeypatch.setattr("scheduler_service.usecases.pause_failing_crons.paused_by_failures", None)
    assert (await failing.again()).state is CronState.ACTIVE
    assert failing.world.faults == ["pause on failure of cron shop/tick"]


async def test_a_fire_about_to_be_claimed_has_the_pause_made_first(failing: Failing) -> None:
    """The owner of the failed run died before it paused the cron."""
    cron = await failing.runs(F, F, OPEN, F, OPEN)
    rows = (await failing.children(cron))[4:]
    cancelled = (State.CANCELLED, CHANGED)
    assert await failing.verdict(*rows) == [cancelled] * 6, "one was due before the pause"
    assert await failing.verdict(failing.rows[2]) == [cancelled]


async def test_a_late_fire_older_than_the_series_is_not_called_either(failing: Failing) -> None:
    await failing.runs(OPEN, F, F, F)
    await failing.again()
    assert (await failing.stored()).expanded_through > failing.rows[3].due
    assert await failing.verdict(failing.rows[0]) == [(State.CANCELLED, CHANGED)]
