"""Repair: what the use cases can put right.

    stranded               re-homed, as `usecases.place` does with a row that came too late: it is called
    pointer-without-copy   its copy is placed
    pointer-left-behind    what the copy came to is carried over

Each row is read anew, serially, and left alone where it has moved on. All of it competes with owners and with cancels
by the very conditions that those go by, so exactly one of them wins. A row whose minute an owner has opened may have
been called before its outcome was lost, so it is re-homed in doubt: clients with at most one call get none. Rows of
which the books say that they had an outcome (lost-outcome) are left to a person.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from cql.storage import Storage
from scheduler_service.domain.copies import definition_of, outcome_of
from scheduler_service.domain.ids import ClientId, Partition, PollerId, RowKey, ScheduleId, UnixMillis, minute_of
from scheduler_service.domain.schedules import State
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.runtime.randomness import Randomness
from scheduler_service.usecases.place import Place

KINDS = ("stranded", "pointer-without-copy", "pointer-left-behind")
MAX_REPAIRS = 100_000
"""Of one run; what is beyond is found again by the next."""
AT_ONCE = 16


class Broken(NamedTuple):
    """A row with a finding of one of KINDS."""

    partition: Partition
    key: RowKey

    @classmethod
    def at(cls, client_id: str, poller_id: int, due_ms: int, schedule_id: str) -> "Broken":
        partition = Partition(ClientId(client_id), PollerId(poller_id), minute_of(due_ms))
        return cls(partition, RowKey(UnixMillis(due_ms), ScheduleId(UUID(schedule_id))))


async def repair(storage: Storage, rows: Sequence[Broken], *, clock: Clock, randomness: Randomness) -> dict[str, int]:
    """How many were re-homed, completed, or had moved on. Raises StoreUnavailable; what was done until then stays."""
    place = Place(
        schedules=storage.schedules, leases=storage.leases, clock=clock, randomness=randomness, hints=_Unsaid()
    )

    async def one(row: Broken) -> str:
        return await _repair(storage, place, row)

    return dict(Counter(await concurrently(one, rows, width=AT_ONCE)))


async def _repair(storage: Storage, place: Place, broken: Broken) -> str:
    statics, rows = await storage.schedules.read_rows(broken.partition, [broken.key], serial=True)
    row = rows.get(broken.key)
    if row is None or not row.defined or row.ended:
        return "moved-on"
    definition, outcome = definition_of(broken.partition, row), outcome_of(row)
    if outcome is None:
        await place.rehome(definition, in_doubt=statics.version is not None)
        return "rehomed"
    if row.state == State.RETRYING and outcome.next_attempt_at is not None:
        await place.complete(definition, outcome)
        return "completed"
    return "moved-on"


class _Unsaid:
    """Nobody is told of the copies: the sweep of their minute finds them."""

    def hint(self, partition: Partition, key: RowKey) -> None: ...
