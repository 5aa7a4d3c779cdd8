"""What a new owner must know of a poller's ordering keys and cannot learn from past minutes: rows that are retried
later.

A row that failed before the takeover is in the queue until it has ended, but its minute may be settled: then its retry
row is in a later minute. The minutes in which retries and deferred rows are placed as a rule are all read, once, when
the first row with a key is found; pollers without keys never pay for it. Of those further ahead only the minutes are
read that are remembered for such rows (`ScheduleStore.mark_ordered`): the deadlines of acknowledged work, snoozed runs
of crons, and rows of schedules with longer pauses than their client's.

Rows that an API or an earlier owner places during the search are not missed: their pointers are in unsettled minutes,
which recovery reads. What a node of an older version has placed is remembered by nobody.
"""

from collections.abc import Mapping

from poller_cluster.background_budget import BackgroundBudget
from poller_cluster.minute.ordering import OrderingKeys
from scheduler_service.domain.acknowledgements import may_be_deadline
from scheduler_service.domain.ids import ClientId, Minute, Partition, PollerId, RowKey, key_of, partition_of
from scheduler_service.domain.ports import ScheduleStore
from scheduler_service.domain.schedules import Content

_PAGE_ROWS = 1_000
OVERDUE_AT_ONCE = 100


def ahead_minutes(*, cap_seconds: float, breaker_longest_seconds: float) -> int:
    """How many minutes ahead retry rows may have been placed."""
    longest = max(cap_seconds, 2 * breaker_longest_seconds)
    return int(longest // 60) + 3


async def look_ahead(
    schedules: ScheduleStore,
    client_id: ClientId,
    poller_id: PollerId,
    order: OrderingKeys,
    *,
    first: Minute,
    last: Minute,
    budget: BackgroundBudget,
) -> None:
    """Tell `order` of the poller's retry rows with a key in [first, last], and in later minutes that are remembered for
    them. Raises StoreUnavailable."""
    async with budget.slot(client_id):
        occupied = await schedules.occupied(client_id, first=first, last=last)
    async with budget.slot(client_id):
        remembered = await schedules.ordered_after(client_id, poller_id, last)
    for minute in (*(minute for minute in sorted(occupied) if poller_id in occupied[minute]), *remembered):
        partition, more = Partition(client_id, poller_id, minute), True
        after: RowKey | None = None
        while more:
            async with budget.slot(client_id):
                page = await schedules.read_page(partition, after=after, limit=_PAGE_ROWS, lean=True)
            retry_rows = [row for row in page.rows if row.is_retry_row and row.ordering_key is not None]
            # Rows behind a deadline look again before it comes: only the options say that it is one.
            deadlines = [row.key for row in retry_rows if may_be_deadline(row.due, attempts=row.attempt_base or 0)]
            contents: Mapping[RowKey, Content] = {}
            if deadlines:
                async with budget.slot(client_id):
                    contents = await schedules.read_content(partition, deadlines)
            for row in retry_rows:
                content = contents.get(row.key)
                order.read(row if content is None else row.filled(content))
            after = page.rows[-1].key if page.rows else after
            more = page.more


async def look_up_overdue(
    schedules: ScheduleStore, client_id: ClientId, order: OrderingKeys, *, now: int, budget: BackgroundBudget
) -> None:
    """Read the rows of heads that are long overdue, and correct their queues. Raises StoreUnavailable."""
    for key, schedule_id in order.overdue(now, limit=OVERDUE_AT_ONCE):
        home = partition_of(client_id, schedule_id)
        async with budget.slot(client_id):
            rows = await schedules.find_rows(home, [key_of(schedule_id)], lean=True)
        row = rows.get(key_of(schedule_id))
        if row is None:
            order.ended(key, schedule_id)
        elif row.state is not None:
            order.read(row)
