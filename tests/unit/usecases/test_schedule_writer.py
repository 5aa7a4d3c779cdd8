"""Every branch of the late rule, and of which rows an owner is told."""

import asyncio

import pytest

from membership.errors import StoreUnavailable
from scheduler_service.domain.errors import ContentTooLarge
from scheduler_service.domain.ids import MINUTE_MS, UnixMillis
from scheduler_service.domain.retry_rows import is_in_doubt, retry_row_of
from scheduler_service.domain.schedules import Definition, RowWrite, State
from scheduler_service.usecases.schedule_writer import HINT_AHEAD_MS, MAX_PARTITION_TURNS
from tests.contract.builders import START, cancelled, definition, update
from tests.unit.usecases.late_rows import (
    CLIENT,
    END,
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

ENDS = [State.DELIVERED, State.FAILED, State.SKIPPED, State.CANCELLED]
INSERTED = "schedules.insert_definition"
EDITED = "schedules.update"
MOVED = "schedules.update_any_version"


async def retry_row_at(late: LateWorld, at: int, *, in_doubt: bool) -> Definition:
    """The retry row of `at`, which exists and may be called again."""
    retry_row = retry_row_of(original(), at=UnixMillis(at), attempts=0, in_doubt=in_doubt)
    row = await late.found(retry_row)
    assert (row.kind, row.state, row.options) == ("copy", None, retry_row.options)
    assert is_in_doubt(retry_row) is in_doubt
    return retry_row


async def test_a_row_written_in_time_is_left_to_the_sweep(late: LateWorld) -> None:
    late.clock.now = LATE - 1
    await late.writer(original())
    assert late.rows() == [(-MINUTE_MS, None)]
    assert EDITED not in late.connection.written


@pytest.mark.parametrize(("ahead", "told"), [(HINT_AHEAD_MS, True), (HINT_AHEAD_MS + 1, False)])
async def test_only_near_minutes_are_hinted_at(late: LateWorld, ahead: int, told: bool) -> None:
    late.clock.now = START - ahead
    await late.writer(original())
    assert late.hints.hints == ([(original().partition, original().key)] if told else [])


async def test_what_was_slow_to_be_acknowledged_is_late(late: LateWorld) -> None:
    """The time of the answer counts, not that of the request."""
    late.clock.now = START

    async def slow() -> None:
        late.clock.now = LATE

    late.connection.before[INSERTED] = slow
    await late.writer(original())
    assert (await late.found(original())).state == State.RETRYING


async def test_late_and_untouched_is_requeued_with_its_retry_row(late: LateWorld) -> None:
    await late.writer(original())
    row = await late.found(original())
    assert (row.state, row.next_attempt_at, row.reason, row.attempts) == ("retrying", LATE, "late-create", 0)
    retry_row = await retry_row_at(late, LATE, in_doubt=False)
    assert late.hints.hints == [(retry_row.partition, retry_row.key)]


async def test_content_is_not_read_of_what_is_late(late: LateWorld) -> None:
    """After an outage there are hundreds in one minute, which are read together."""
    late.connection.longest = 0
    await asyncio.gather(*(late.writer(definition(CLIENT, tail=number, body=bytes(50_000))) for number in range(100)))
    assert [row["state"] for row in late.connection.rows("schedules")].count("retrying") == 100
    assert late.connection.longest <= 50_000, "one row alone is read whole"


async def test_the_pointer_is_written_before_the_retry_row(late: LateWorld) -> None:
    await late.writer(original())
    assert [name for name in late.connection.written if name.startswith("schedules.")] == [INSERTED, EDITED, INSERTED]


async def test_late_and_retrying_has_the_named_retry_row_completed(late: LateWorld) -> None:
    await late.record(original(), pointer(T1))
    await late.writer(original())
    row = await late.found(first_retry_row())
    assert (row.kind, row.attempt_base, row.origin_due) == ("copy", 1, START)
    assert (await late.found(original())).next_attempt_at == T1


@pytest.mark.parametrize("state", ENDS)
async def test_a_late_row_that_has_ended_is_placed(late: LateWorld, state: State) -> None:
    await late.record(original(), ended(state))
    await late.writer(original())
    assert late.rows() == [(-MINUTE_MS, state)]


async def test_a_late_row_claimed_under_the_present_epoch_is_left_to_its_owner(late: LateWorld) -> None:
    await late.lease(3)
    await late.record(original(), in_flight=True, epoch=3)
    await late.writer(original())
    assert late.rows() == [(-MINUTE_MS, None)]


@pytest.mark.parametrize("present", [3, None])
async def test_a_claim_under_another_epoch_is_requeued_in_doubt(late: LateWorld, present: int | None) -> None:
    if present is not None:
        await late.lease(present)
    await late.record(original(), in_flight=True, epoch=2)
    await late.writer(original())
    row = await late.found(original())
    assert (row.state, row.reason) == ("retrying", "in-doubt")
    await retry_row_at(late, LATE, in_doubt=True)


async def test_another_row_in_flight_means_nothing(late: LateWorld) -> None:
    await late.lease(3)
    await late.record(definition(CLIENT, tail=2), in_flight=True, epoch=3)
    await late.writer(original())
    assert late.rows() == [(-MINUTE_MS, "retrying"), (LATE - END, None)]
    await retry_row_at(late, LATE, in_doubt=False)


async def test_a_late_retry_row_moves_its_original_first(late: LateWorld) -> None:
    late.clock.now = T1 + 3 * MINUTE_MS
    await late.retrying(original(), T1)
    late.connection.written.clear()
    await late.writer(first_retry_row())
    again = T1 + 3 * MINUTE_MS
    assert (await late.found(first_retry_row())).next_attempt_at == again
    assert (await late.found(original())).next_attempt_at == again
    assert (await late.found(retry_row_of(original(), at=UnixMillis(again), attempts=1))).attempt_base == 1
    written = [name for name in late.connection.written if name.startswith("schedules.")]
    assert written == [INSERTED, EDITED, MOVED, INSERTED]


async def test_a_retry_row_in_doubt_stays_in_doubt(late: LateWorld) -> None:
    late.clock.now = T1 + 3 * MINUTE_MS
    await late.retrying(original(), T1)
    await late.writer(retry_row_of(original(), at=T1, attempts=1, in_doubt=True))
    again = retry_row_of(original(), at=UnixMillis(late.clock.now), attempts=1, in_doubt=True)
    assert (await late.found(again)).options == again.options


async def test_a_retry_row_that_points_on_has_its_chain_completed(late: LateWorld) -> None:
    late.clock.now = T1 + 3 * MINUTE_MS
    await late.retrying(original(), T1)
    await late.record(first_retry_row(), pointer(T2, attempts=2))
    await late.writer(first_retry_row())
    row = await late.found(original())
    assert (row.state, row.next_attempt_at, row.attempts) == ("retrying", T2, 2)
    assert (await late.found(second_retry_row())).attempt_base == 2


async def test_a_retry_row_that_was_left_behind_names_nothing_any_more(late: LateWorld) -> None:
    """Its original names another instant: the original is not moved back, and the next retry row is not
    placed.
    """
    late.clock.now = T1 + 3 * MINUTE_MS
    elsewhere = UnixMillis(T2 + MINUTE_MS)
    await late.retrying(original(), elsewhere)
    await late.record(first_retry_row(), pointer(T2, attempts=2))
    await late.writer(first_retry_row())
    assert (await late.found(original())).next_attempt_at == elsewhere
    assert await late.row(second_retry_row()) is None


@pytest.mark.parametrize("state", ENDS)
async def test_the_end_of_a_retry_row_is_carried_to_its_original(late: LateWorld, state: State) -> None:
    late.clock.now = T1 + 3 * MINUTE_MS
    await late.retrying(original(), T1)
    await late.record(first_retry_row(), ended(state))
    await late.writer(first_retry_row())
    row = await late.found(original())
    assert (row.state, row.next_attempt_at, row.finished_at) == (state, None, END)


async def test_an_edit_that_came_first_stands(late: LateWorld) -> None:
    """The requeue is rejected; its next read finds an end."""

    async def cancel() -> None:
        await late.store.update(update(original().partition, 1, cancelled(original())))

    late.connection.before[EDITED] = cancel
    await late.writer(original())
    assert late.rows() == [(-MINUTE_MS, State.CANCELLED)]


async def test_a_claim_that_came_first_stands(late: LateWorld) -> None:
    await late.lease(1)

    async def claim() -> None:
        await late.record(original(), in_flight=True)

    late.connection.before[EDITED] = claim
    await late.writer(original())
    assert late.rows() == [(-MINUTE_MS, None)]


async def test_a_late_row_is_requeued_despite_a_commit_of_other_rows(late: LateWorld) -> None:
    async def pass_by() -> None:
        await late.record(original())

    late.connection.before[EDITED] = pass_by
    await late.writer(original())
    assert late.rows() == [(-MINUTE_MS, "retrying"), (LATE - END, None)]


@pytest.mark.parametrize(("lost", "refused"), [(1, 0), (0, 1)])
async def test_after_an_unknown_answer_it_reads_again(late: LateWorld, lost: int, refused: int) -> None:
    """Applied or not, there is one pointer and the one retry row that it names, although the clock went on."""
    late.connection.lost, late.connection.refused = lost, refused

    async def later() -> None:
        async def much_later() -> None:
            late.clock.advance(30)

        late.connection.before["schedules.read_row"] = much_later

    late.connection.before[EDITED] = later
    await late.writer(original())
    at = LATE if lost else LATE + 30_000
    assert late.rows() == [(-MINUTE_MS, "retrying"), (at - END, None)]
    assert (await late.found(original())).next_attempt_at == at


async def test_without_answers_the_create_is_not_acknowledged(late: LateWorld) -> None:
    late.connection.refused = MAX_PARTITION_TURNS
    with pytest.raises(StoreUnavailable, match="too often"):
        await late.writer(original())
    assert late.connection.refused == 0


async def test_a_row_that_went_with_its_partition_is_not_acknowledged(late: LateWorld) -> None:
    async def delete() -> None:
        await late.store.delete_partition(original().partition)

    late.connection.before["schedules.read_row"] = delete
    with pytest.raises(StoreUnavailable, match="deleted"):
        await late.writer(original())


@pytest.mark.parametrize(("lost", "refused"), [(1, 0), (0, 1)])
async def test_moving_an_original_can_be_repeated_after_no_answer(late: LateWorld, lost: int, refused: int) -> None:
    await late.retrying(original(), T1)
    late.connection.lost, late.connection.refused = lost, refused
    with pytest.raises(StoreUnavailable, match="original"):
        await late.writer.move_original(first_retry_row(), pointer(T2))
    assert await late.writer.move_original(first_retry_row(), pointer(T2))
    assert (await late.found(original())).next_attempt_at == T2


async def test_an_original_without_an_answer_is_read_once(late: LateWorld) -> None:
    await late.retrying(original(), T1)
    late.connection.refused = MAX_PARTITION_TURNS
    with pytest.raises(StoreUnavailable, match="original"):
        await late.writer.move_original(first_retry_row(), pointer(T2))
    assert late.connection.refused == MAX_PARTITION_TURNS - 1


async def test_an_original_that_ended_is_not_moved(late: LateWorld) -> None:
    await late.store.insert(original())
    await late.store.update(update(original().partition, 1, cancelled(original())))
    assert not await late.writer.move_original(first_retry_row(), pointer(T2))
    assert (await late.found(original())).state == State.CANCELLED


async def test_completing_a_chain_twice_is_harmless(late: LateWorld) -> None:
    await late.retrying(original(), T1)
    for _ in range(2):
        await late.writer.complete(original(), pointer(T1))
    assert late.rows() == [(-MINUTE_MS, "retrying"), (T1 - END, None)]


async def test_completing_does_not_undo_the_end_of_a_retry_row(late: LateWorld) -> None:
    await late.retrying(original(), T1)
    await late.store.update(
        update(
            first_retry_row().partition,
            1,
            RowWrite(key=first_retry_row().key, outcome=ended(State.CANCELLED), expect_state=State.SCHEDULED),
        )
    )
    await late.writer.complete(original(), pointer(T1))
    assert (await late.found(first_retry_row())).state == State.CANCELLED


async def test_many_are_answered_each_and_only_near_ones_are_hinted_at(late: LateWorld) -> None:
    late.clock.now = START - HINT_AHEAD_MS
    near, far = definition(CLIENT, tail=1), definition(CLIENT, offset=30 * MINUTE_MS, tail=2)
    huge = definition(CLIENT, offset=31 * MINUTE_MS, tail=3, body=bytes(9 * 1024 * 1024))
    answers = await late.writer.many([far, near, huge])
    assert [type(answer) for answer in answers] == [type(None), type(None), ContentTooLarge]
    assert late.hints.hints == [(near.partition, near.key)]
    assert len(late.rows()) == 2


async def test_many_far_ones_share_one_request(late: LateWorld) -> None:
    late.clock.now = START
    ahead = [definition(CLIENT, offset=30 * MINUTE_MS + number, tail=number) for number in range(40)]
    assert await late.writer.many(ahead) == [None] * 40
    assert late.hints.hints == []
    assert late.connection.batches.count((INSERTED, 40)) == 1


@pytest.mark.parametrize(("passed", "told", "state"), [(30, True, None), (33, False, State.RETRYING)])
async def test_many_far_ones_that_storage_was_slow_about_are_near_or_late(
    late: LateWorld, passed: int, told: bool, state: State | None
) -> None:
    late.clock.now = START
    far = definition(CLIENT, offset=30 * MINUTE_MS)

    async def slow() -> None:
        late.clock.now = START + passed * MINUTE_MS

    late.connection.before[INSERTED] = slow
    assert await late.writer.many([far]) == [None]
    assert ((far.partition, far.key) in late.hints.hints) is told
    assert (await late.found(far)).state == state


async def test_each_of_many_unanswered_writes_is_unknown(late: LateWorld) -> None:
    late.clock.now = START
    late.storage.group_commit.close()
    near, far = definition(CLIENT), definition(CLIENT, offset=30 * MINUTE_MS)
    answers = await late.writer.many([near, far])
    assert [type(answer) for answer in answers] == [StoreUnavailable, StoreUnavailable]


async def test_many_near_ones_do_not_wait_for_far_ones(late: LateWorld) -> None:
    late.clock.now = START
    near, far = definition(CLIENT), definition(CLIENT, offset=30 * MINUTE_MS, body=bytes(50_000))

    async def slow() -> None:
        for _ in range(100):
            await asyncio.sleep(0)
        assert late.hints.hints == [(near.partition, near.key)]

    async def the_second_is_slow() -> None:
        late.connection.before[INSERTED] = slow

    late.connection.before[INSERTED] = the_second_is_slow
    assert await late.writer.many([far, near]) == [None, None]
    assert late.connection.batches[-2:] == [(INSERTED, 1), (INSERTED, 1)]


@pytest.mark.parametrize("in_doubt", [False, True])
async def test_a_row_that_was_left_behind_is_requeued(late: LateWorld, in_doubt: bool) -> None:
    await late.store.insert(original())
    late.connection.written.clear()
    await late.writer.requeue(original(), in_doubt=in_doubt)
    row = await late.found(original())
    assert (row.state, row.reason) == ("retrying", "in-doubt" if in_doubt else "late-create")
    await retry_row_at(late, late.clock.now, in_doubt=in_doubt)
    assert late.connection.written[0] == EDITED


async def test_a_row_that_was_left_behind_and_has_ended_is_left_alone(late: LateWorld) -> None:
    await late.store.insert(original())
    await late.store.update(update(original().partition, 1, cancelled(original())))
    before = late.rows()
    await late.writer.requeue(original(), in_doubt=False)
    assert late.rows() == before
