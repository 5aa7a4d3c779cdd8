"""Checks the books of a simulated world against its rows and against the creates of its callers."""

from collections import Counter
from typing import TYPE_CHECKING

from scheduler_service.domain.books import Tally
from scheduler_service.domain.ids import (
    MINUTES_PER_HOUR,
    ClientId,
    Minute,
    Partition,
    PollerId,
    minute_of,
    minute_start,
)
from scheduler_service.domain.schedules import State
from scheduler_service.usecases.balance import Position, ShowBalance

if TYPE_CHECKING:
    from tests.simulation.world import World

Counts = Counter[str]
OPEN = "open"


async def check_books(world: "World", *, since: int = 0) -> None:
    """For every minute of every client from `since` on, the books agree with the rows and with what the world knows."""
    for client in world.clients.values():
        if client.built_in:
            continue
        before = counted_rows(world, client.client_id)
        shown = await shown_books(world, client.client_id)
        if before != counted_rows(world, client.client_id):
            continue  # the rows changed while the books were read
        for minute in sorted(before.keys() | shown.keys()):
            if minute < since:
                continue
            _check_minute(world, client.client_id, minute, before.get(minute), shown.get(minute))
    check_epochs(world)


def _check_minute(
    world: "World", client_id: ClientId, minute: Minute, rows: Counts | None, shown: Counts | None
) -> None:
    asked = [one for one in world.asked.values() if one.client_id == client_id and minute_of(one.due) == minute]
    # A minute that was counted by clocks that were ahead lacks rows created since, until one of them has an outcome.
    passed_early = minute_start(minute) < world.furthest_ms
    most_uncounted = sum(passed_early or not one.acknowledged for one in asked)
    if rows != shown and not _uncounted(rows, shown, most=most_uncounted):
        raise world.violation(f"{client_id}, minute {minute}: the books say {shown}, the rows {rows}")
    assert shown is not None
    if any(row["client_id"] == client_id for row in world.memory.rows("crons")):
        return  # crons create rows too
    least, most = 0 if passed_early and rows != shown else sum(one.acknowledged for one in asked), len(asked)
    if not least <= shown.total() <= most:
        raise world.violation(f"{client_id}, minute {minute}: {shown} of {least} to {most} that were asked for")
    cancelled = sum(one.cancelled for one in asked)
    if shown[State.CANCELLED] < cancelled:
        raise world.violation(f"{client_id}, minute {minute}: {shown}, but {cancelled} cancels were answered")


def _uncounted(rows: Counts | None, shown: Counts | None, *, most: int) -> bool:
    """Whether only rows of unanswered creates are missing, which appeared after the count."""
    return (
        rows is not None
        and shown is not None
        and shown < rows
        and 0 < (rows - shown)[OPEN] == (rows - shown).total() <= most
    )


def counted_rows(world: "World", client_id: ClientId) -> dict[Minute, Counts]:
    """Counts of the table itself, by code independent of the product's."""
    found: dict[Minute, Counts] = {}
    columns = world.memory.columns("schedules", "client_id", "kind", "created_at", "state", "minute")
    for owner, kind, created_at, state, minute in columns:
        if owner == client_id and kind != "copy" and created_at is not None:
            counts = found.setdefault(minute_of(minute), Counter())
            counts[state if state not in (None, "retrying") else OPEN] += 1
    return found


async def shown_books(world: "World", client_id: ClientId, *, limit: int = 7) -> dict[Minute, Counts]:
    """What a caller is shown, page by page, of all hours that have rows."""
    show = ShowBalance(schedules=world.truth.schedules, balances=world.truth.balances, clock=world.reader_clock)
    rows = world.memory.rows("occupied_minutes")
    hours = {minute_of(row["hour"]) for row in rows if row["client_id"] == client_id}
    found: dict[Minute, Counts] = {}
    for first in sorted(hours):
        position: Position | None = Position(first)
        while position is not None:
            last = Minute(first + MINUTES_PER_HOUR - 1)
            books = await show(client_id, position=position, last=last, limit=limit)
            found.update((one.minute, _counts(one.tally)) for one in books.minutes)
            position = books.next
    return found


def _counts(tally: Tally) -> Counts:
    ends = (State.DELIVERED, State.FAILED, State.CANCELLED, State.SKIPPED)
    counts = {**{str(state): tally.of(state) for state in ends}, OPEN: tally.open}
    return Counter({name: count for name, count in counts.items() if count})


def check_epochs(world: "World") -> None:
    """A balance is never replaced by one of a lower epoch."""
    for row in world.memory.rows("minute_balance"):
        partition = Partition(row["client_id"], PollerId(row["poller_id"]), minute_of(row["minute"]))
        highest = world.balance_epochs.get(partition, 0)
        if row["epoch"] < highest:
            raise world.violation(f"the balance of {partition} has fallen from epoch {highest} to {row['epoch']}")
        world.balance_epochs[partition] = row["epoch"]
