"""Rows that are placed with their end."""

import pytest

from scheduler_service.domain.schedules import State
from tests.unit.usecases.late_rows import T1, LateWorld, ended, first_retry_row, original


async def test_a_row_placed_with_its_end_is_not_called(late: LateWorld) -> None:
    await late.writer.ended(original(), state=State.SKIPPED, reason="missed")
    row = await late.found(original())
    assert (row.state, row.reason, row.attempts, row.finished_at) == ("skipped", "missed", 0, late.clock.now)
    await late.writer.ended(original(), state=State.SKIPPED, reason="other")
    assert await late.found(original()) == row


@pytest.mark.parametrize("state", [State.DELIVERED, State.CANCELLED, State.FAILED])
async def test_an_end_that_is_there_already_stays(late: LateWorld, state: State) -> None:
    await late.store.insert(original())
    await late.record(original(), ended(state))
    await late.writer.ended(original(), state=State.SKIPPED, reason="missed")
    assert (await late.found(original())).state == state


async def test_a_row_that_its_owner_has_stays_his(late: LateWorld) -> None:
    await late.lease(1)
    await late.store.insert(original())
    await late.record(original(), in_flight=True)
    await late.writer.ended(original(), state=State.SKIPPED, reason="missed")
    assert (await late.found(original())).state is None


async def test_a_row_that_a_zombie_claimed_is_requeued_in_doubt(late: LateWorld) -> None:
    """An owner may never read it again: it would stay without an end."""
    await late.lease(2)
    await late.store.insert(original())
    await late.record(original(), in_flight=True)
    await late.writer.ended(original(), state=State.SKIPPED, reason="missed")
    row = await late.found(original())
    assert (row.state, row.reason) == ("retrying", "in-doubt")
    assert [state for _, state in late.rows()] == ["retrying", None]


async def test_a_half_finished_chain_is_completed(late: LateWorld) -> None:
    """Its writer requeued the row and died before its retry row was placed; now it is late beyond the catch-up."""
    await late.retrying(original(), T1)
    await late.writer.ended(original(), state=State.SKIPPED, reason="missed")
    assert (await late.found(first_retry_row())).defined


@pytest.mark.parametrize(("lost", "refused"), [(1, 0), (0, 1)])
async def test_without_an_answer_the_end_is_written_again(late: LateWorld, lost: int, refused: int) -> None:
    late.connection.lost, late.connection.refused = lost, refused
    await late.writer.ended(original(), state=State.SKIPPED, reason="missed")
    assert (await late.found(original())).state == State.SKIPPED
