"""A redelivery as the protocol makes it: an external update that writes the pointer, then the retry row."""

from typing import Any

from membership.conditional import Applied
from scheduler_service.domain.ids import UnixMillis
from scheduler_service.domain.retry_rows import definition_of, outcome_after
from scheduler_service.domain.schedules import Definition, ExternalUpdate, RowWrite, State
from scheduler_service.usecases.schedule_writer import ScheduleWriter


async def redeliver(schedules: Any, writer: ScheduleWriter, circumstances: Any, definition: Definition) -> bool:
    """Redeliver; True if the receiver will be called again."""
    partition, key = definition.partition, definition.key
    while True:
        header, rows = await schedules.read_rows(partition, [key], serial=True)
        row = rows.get(key)
        if row is None or row.state != State.DELIVERED:
            return False
        outcome = outcome_after(row, state=State.RETRYING, at=UnixMillis(circumstances.wall_ms() + 1))
        write = RowWrite(key=key, outcome=outcome, expect_state=State.DELIVERED)
        update = ExternalUpdate(
            partition=partition,
            edits=circumstances.uuid4(),
            version=header.version,
            version_known=True,
            writes=(write,),
        )
        if isinstance(await schedules.update(update), Applied):
            await writer.complete(definition_of(partition, row), outcome)
            return True
