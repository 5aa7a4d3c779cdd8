"""A placed row is placed once more by a process that does not know its state."""

import msgspec

from scheduler_service.domain.ids import key_of
from scheduler_service.domain.options import Redelivery, decode_options
from scheduler_service.domain.retry_rows import REDELIVERY
from tests.unit.usecases.late_rows import T1, LateWorld, original, pointer


async def test_the_copy_of_a_redelivery_stays_one(late: LateWorld) -> None:
    one = msgspec.structs.replace(original(), ordering_key="order")
    redelivered = msgspec.structs.replace(
        pointer(T1, attempts=3), reason=REDELIVERY, redelivered_at=T1, redelivered_after=3
    )
    await late.store.insert(one)
    await late.record(one, redelivered)
    await late.writer(one)
    (retry_row,) = [row for row in late.connection.rows("schedules") if row["kind"] == "copy"]
    assert (retry_row["due"], retry_row["schedule_id"], retry_row["ordering_key"]) == (
        T1,
        key_of(one.schedule_id).schedule_id,
        None,
    )
    assert decode_options(retry_row["options"]).redelivery == Redelivery(at=T1, attempts=3)
