"""A cancel has one winner: every row of the table, whatever state its chain of retry rows has."""

from uuid import UUID

import pytest

from membership.conditional import Applied
from membership.errors import StoreUnavailable
from scheduler_service.domain.ids import UnixMillis
from scheduler_service.domain.schedules import Outcome, Row, State
from scheduler_service.usecases.cancel_schedules import (
    AlreadyFinished,
    Cancelled,
    CancelResult,
    InFlight,
    NoSuchSchedule,
    WasRescheduled,
)
from scheduler_service.usecases.resolve_schedule import Resolved
from scheduler_service.usecases.schedule_writer import MAX_PARTITION_TURNS
from tests.contract.builders import update, write
from tests.unit.usecases.late_rows import (
    CLIENT,
    LATE,
    T1,
    T2,
    LateWorld,
    ended,
    first_retry_row,
    original,
    pointer,
    second_retry_row,
)

EDITED = "schedules.update"
MOVED = "schedules.update_any_version"


async def cancel(late: LateWorld) -> CancelResult:
    return await late.cancel.one(CLIENT, original().schedule_id)


async def resolve(late: LateWorld) -> Resolved | None:
    return await late.resolve(CLIENT, original().schedule_id)


async def cancelled_now(late: LateWorld, result: CancelResult) -> Row:
    """The original as stored, which equals the answer."""
    row = await late.found(original())
    assert result == Cancelled(row)
    assert (row.state, row.finished_at, row.next_attempt_at) == ("cancelled", late.clock.now, None)
    return row


async def test_an_open_row_is_cancelled(late: LateWorld) -> None:
    await late.store.insert(original())
    row = await cancelled_now(late, await cancel(late))
    assert row.attempts == 0


async def test_cancelling_again_answers_the_same(late: LateWorld) -> None:
    await late.store.insert(original())
    first = await cancel(late)
    late.clock.advance(60)
    assert await cancel(late) == first
    assert late.connection.written.count(EDITED) == 1


async def test_a_row_in_flight_is_the_owners(late: LateWorld) -> None:
    await late.store.insert(original())
    await late.record(original(), in_flight=True)
    assert await cancel(late) == InFlight(await late.found(original()))
    assert (await late.found(original())).state is None


@pytest.mark.parametrize("state", [State.DELIVERED, State.FAILED, State.SKIPPED])
async def test_an_ended_row_stays(late: LateWorld, state: State) -> None:
    await late.store.insert(original())
    await late.record(original(), ended(state))
    assert await cancel(late) == AlreadyFinished(await late.found(original()))
    assert (await late.found(original())).state == state


async def test_an_unknown_id(late: LateWorld) -> None:
    assert await cancel(late) == NoSuchSchedule()
    assert await resolve(late) is None


async def test_a_pointer_without_definition_is_no_schedule(late: LateWorld) -> None:
    await late.record(original(), pointer(T1))
    assert await cancel(late) == NoSuchSchedule()
    assert await resolve(late) is None


async def test_a_retry_row_not_yet_written_is_cancelled_before_it_comes(late: LateWorld) -> None:
    await late.retrying(original(), T1)
    row = await cancelled_now(late, await cancel(late))
    assert row.attempts == 1
    await late.store.insert(first_retry_row())
    retry_row = await late.found(first_retry_row())
    assert (retry_row.defined, retry_row.state) == (True, "cancelled")


async def test_a_waiting_retry_row_is_cancelled_with_its_original(late: LateWorld) -> None:
    await late.retrying(original(), T1)
    await late.store.insert(first_retry_row())
    late.connection.written.clear()
    await cancelled_now(late, await cancel(late))
    assert (await late.found(first_retry_row())).state == State.CANCELLED
    assert late.connection.written == [EDITED, MOVED]


async def test_a_retry_row_in_flight_is_the_owners(late: LateWorld) -> None:
    await late.retrying(original(), T1)
    await late.store.insert(first_retry_row())
    await late.record(first_retry_row(), in_flight=True)
    assert await cancel(late) == InFlight(await late.found(original()))
    assert (await late.found(first_retry_row())).state is None
    assert (await late.found(original())).next_attempt_at == T1


async def test_a_cancel_left_half_done_is_finished(late: LateWorld) -> None:
    """The retry row is cancelled, its original is not yet."""
    await late.retrying(original(), T1)
    await late.store.insert(first_retry_row())
    await late.record(first_retry_row(), ended(State.CANCELLED))
    await cancelled_now(late, await cancel(late))


@pytest.mark.parametrize("state", [State.DELIVERED, State.FAILED, State.SKIPPED])
async def test_the_end_of_a_retry_row_wins(late: LateWorld, state: State) -> None:
    await late.retrying(original(), T1)
    await late.store.insert(first_retry_row())
    await late.record(first_retry_row(), ended(state))
    row_before = await late.found(original())
    assert row_before.state == State.RETRYING
    assert await cancel(late) == AlreadyFinished(await late.found(original()))
    assert (await late.found(original())).state == state


async def test_a_retry_row_that_points_on_is_followed(late: LateWorld) -> None:
    """The original is moved, the next retry row placed, and that one is cancelled."""
    await late.retrying(original(), T1)
    await late.store.insert(first_retry_row())
    await late.record(first_retry_row(), pointer(T2, attempts=2))
    row = await cancelled_now(late, await cancel(late))
    assert row.attempts == 2
    retry_row = await late.found(second_retry_row())
    assert (retry_row.kind, retry_row.attempt_base, retry_row.state) == ("copy", 2, "cancelled")
    assert (await late.found(first_retry_row())).next_attempt_at == T2


async def test_a_claim_that_came_first_wins(late: LateWorld) -> None:
    await late.store.insert(original())

    async def claim() -> None:
        await late.record(original(), in_flight=True)

    late.connection.before[EDITED] = claim
    assert await cancel(late) == InFlight(await late.found(original()))
    assert (await late.found(original())).state is None


async def test_a_cancel_succeeds_despite_a_commit_of_other_rows(late: LateWorld) -> None:
    await late.store.insert(original())

    async def pass_by() -> None:
        await late.record(original())

    late.connection.before[EDITED] = pass_by
    await cancelled_now(late, await cancel(late))


async def test_a_claim_of_the_retry_row_that_came_first_wins(late: LateWorld) -> None:
    await late.retrying(original(), T1)
    await late.store.insert(first_retry_row())

    async def claim() -> None:
        await late.record(first_retry_row(), in_flight=True)

    late.connection.before[EDITED] = claim
    assert await cancel(late) == InFlight(await late.found(original()))
    assert (await late.found(first_retry_row())).state is None


async def test_an_original_that_now_names_another_retry_row_has_that_one_cancelled(late: LateWorld) -> None:
    """It is cancelled only if it still names the cancelled retry row; otherwise the other one could still be called."""
    await late.retrying(original(), T1)
    await late.store.insert(first_retry_row())

    async def move() -> None:
        await late.elsewhere.move_original(first_retry_row(), pointer(T2, attempts=2))
        await late.store.insert(second_retry_row())

    late.connection.before[MOVED] = move
    await cancelled_now(late, await cancel(late))
    assert (await late.found(second_retry_row())).state == State.CANCELLED


@pytest.mark.parametrize("retrying", [False, True])
@pytest.mark.parametrize(("lost", "refused"), [(1, 0), (0, 1), (2, 0), (0, 2)])
async def test_after_an_unknown_answer_it_looks_again(late: LateWorld, retrying: bool, lost: int, refused: int) -> None:
    await (late.retrying(original(), T1) if retrying else late.store.insert(original()))
    late.connection.lost, late.connection.refused = lost, refused
    await cancelled_now(late, await cancel(late))
    assert not late.connection.refused


async def test_a_cancel_without_an_answer_is_unavailable(late: LateWorld) -> None:
    await late.store.insert(original())
    late.connection.refused = MAX_PARTITION_TURNS
    with pytest.raises(StoreUnavailable, match="too often"):
        await cancel(late)


async def test_resolving_tells_what_an_owner_has(late: LateWorld) -> None:
    await late.store.insert(original())
    assert await resolve(late) == Resolved(await late.found(original()), in_flight=False)
    await late.record(original(), in_flight=True)
    assert await resolve(late) == Resolved(await late.found(original()), in_flight=True)


async def test_resolving_an_ended_row_that_is_still_listed(late: LateWorld) -> None:
    """Until the next owner commit the id may remain in `in_flight` beside the outcome; no node is sending it."""
    await late.store.insert(original())
    await late.record(original(), ended(State.DELIVERED), in_flight=True)
    assert await resolve(late) == Resolved(await late.found(original()), in_flight=False)


@pytest.mark.parametrize("there", [True, False])
async def test_resolving_looks_at_the_retry_row(late: LateWorld, there: bool) -> None:
    await late.retrying(original(), T1)
    if there:
        await late.store.insert(first_retry_row())
    assert await resolve(late) == Resolved(await late.found(original()), in_flight=False)
    await late.record(first_retry_row(), in_flight=True)
    assert await resolve(late) == Resolved(await late.found(original()), in_flight=True)


async def test_resolving_a_retry_row_that_ended_in_flight(late: LateWorld) -> None:
    await late.retrying(original(), T1)
    await late.store.insert(first_retry_row())
    await late.record(first_retry_row(), ended(State.DELIVERED), in_flight=True)
    assert await resolve(late) == Resolved(await late.found(original()), in_flight=False)


async def test_a_cancelled_row_is_not_called_later(late: LateWorld) -> None:
    """A late create of the same row finds the cancel."""
    late.clock.now = UnixMillis(LATE)
    await late.store.insert(original())
    await cancel(late)
    await late.writer(original())
    assert [state for _, state in late.rows()] == ["cancelled"]


@pytest.mark.parametrize("retrying", [False, True])
async def test_a_cancel_says_why(late: LateWorld, retrying: bool) -> None:
    await (late.retrying(original(), T1) if retrying else late.store.insert(original()))
    result = await late.cancel.one(CLIENT, original().schedule_id, reason="cron-changed")
    assert result == Cancelled(await late.found(original()))
    assert (await late.found(original())).reason == "cron-changed"
    if retrying:
        assert (await late.found(first_retry_row())).reason == "cron-changed"
    again = await late.cancel.one(CLIENT, original().schedule_id)
    assert isinstance(again, Cancelled)
    assert again.row.reason == "cron-changed", "the first reason stays"


async def test_the_cancel_of_the_retry_row_has_said_why(late: LateWorld) -> None:
    """A reschedule was interrupted between retry row and original."""
    await late.retrying(original(), T1)
    outcome = Outcome(state=State.CANCELLED, attempts=1, finished_at=T1, reason="other", rescheduled_to=UUID(int=9))
    moved = write(first_retry_row(), outcome, expect=State.SCHEDULED)
    assert isinstance(await late.store.update(update(first_retry_row().partition, 1, moved)), Applied)
    result = await cancel(late)
    assert isinstance(result, WasRescheduled)
    assert (result.row.reason, result.row.rescheduled_to) == ("other", UUID(int=9))
