"""The schedule writer of jobs. Executors use it too, so this imports no pyspark."""

from cql.storage import Storage
from scheduler_service.domain.ids import Partition, RowKey
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.randomness import Randomness
from scheduler_service.usecases.schedule_writer import ScheduleWriter


def unhinted_writer(storage: Storage, *, clock: Clock, randomness: Randomness) -> ScheduleWriter:
    """A writer whose rows are far away, or are found by the read or the sweep of their minute."""
    return ScheduleWriter(
        schedules=storage.schedules,
        keys=storage.schedule_keys,
        leases=storage.leases,
        clock=clock,
        randomness=randomness,
        hints=_NoHints(),
    )


class _NoHints:
    def hint(self, partition: Partition, key: RowKey) -> None: ...
