"""Show: a client's crons, and the runs of one: what became of each fire, and what is still to come.

    placed runs, each with its schedule    \\
                                            > merged by nominal instant, page by page
    fires of the rule, not placed yet      /

Newest first there are only placed runs: a rule's last fires can't be found without all before them.

A run names its schedule. If that does not exist any more, its retention is over (`expired`). If it does not exist yet,
the expander has written the run and not placed the row so far, so the run counts as planned. Without a schedule, a run
of an older revision is left out: its cron was changed before the row was placed; and so is one whose trigger failed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import msgspec

from scheduler_service.domain.clients import Client
from scheduler_service.domain.crons import InvalidRule
from scheduler_service.domain.crons.expansion import offset_ms, planned
from scheduler_service.domain.crons.row import Cron, CronRun, CronState
from scheduler_service.domain.errors import NotFound
from scheduler_service.domain.ids import DAY_MS, ClientId, CronId, ScheduleId, UnixMillis, due_of
from scheduler_service.domain.ports import CronStore
from scheduler_service.domain.schedules import Row
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.reading_steps import FIRST_STEP_ROWS, MAX_BYTES, HasRead, next_step, uncounted
from scheduler_service.usecases.resolve_schedule import ResolveSchedule


@dataclass(frozen=True, slots=True, kw_only=True)
class RunShown:
    """One fire, or one triggered run. `schedule_id` None: planned, nothing else is known. `row` None with a
    `schedule_id`: retention has deleted the schedule."""

    nominal_due: UnixMillis
    due: UnixMillis
    schedule_id: ScheduleId | None = None
    row: Row | None = None
    triggered: bool = False


@dataclass(frozen=True, slots=True)
class CronPage:
    """`next`: the id to continue after; None: there are no more. A page may be short and still have a next one."""

    items: list[Cron]
    next: CronId | None


@dataclass(frozen=True, slots=True)
class RunPage:
    """`next`: the nominal instant to continue after; None: the span is exhausted."""

    items: list[RunShown]
    next: UnixMillis | None


class ShowCrons:
    """Reads crons and runs of clients that the caller has looked up."""

    def __init__(self, *, crons: CronStore, resolve: ResolveSchedule, clock: Clock) -> None:
        self._crons = crons
        self._resolve = resolve
        self._clock = clock

    async def one(self, client_id: ClientId, cron_id: CronId, *, deleted: bool = False) -> Cron:
        """Raises NotFound, also for one that was deleted unless `deleted`; StoreUnavailable."""
        cron = await self._read(client_id, cron_id)
        if cron.state is CronState.DELETED and not deleted:
            raise _no_such(cron_id)
        return cron

    async def page(
        self,
        client_id: ClientId,
        *,
        after: CronId | None,
        limit: int,
        has_read: HasRead = uncounted,
        deleted: bool = False,
    ) -> CronPage:
        """Those that are not deleted, or with `deleted` all, in the order of their ids, as many as
        `reading_steps.MAX_BYTES` allows. Raises StoreUnavailable."""
        marks = await self._crons.read_marks(client_id, after=after, limit=limit)
        has_read(len(marks), 0)
        wanted = [mark.cron_id for mark in marks if deleted or mark.state is not CronState.DELETED]
        shown: list[Cron] = []
        done = read = 0
        step = FIRST_STEP_ROWS
        while done < len(wanted):
            several = wanted[done : done + step]
            found = await self._crons.read(client_id, several)
            size = sum(cron.callback.size for cron in found.values())
            has_read(0, size)
            shown += (found[cron_id] for cron_id in several if cron_id in found)
            done, read = done + len(several), read + size
            if read >= MAX_BYTES and done < len(wanted):
                return CronPage(shown, several[-1])
            step = next_step(step, done=done, read=read)
        return CronPage(shown, marks[-1].cron_id if len(marks) == limit else None)

    async def runs(self, client: Client, cron_id: CronId, *, start: UnixMillis, end: UnixMillis, limit: int) -> RunPage:
        """Those with start <= nominal instant < end, up to `limit`, in their order; of deleted crons too. Raises
        NotFound, StoreUnavailable."""
        cron = await self._read(client.client_id, cron_id)
        now, retention_ms = self._clock.wall_ms(), client.settings.retention_days * DAY_MS
        last = UnixMillis(end - 1)
        runs = await self._crons.read_runs(client.client_id, cron_id, first=start, last=last, limit=limit)
        placed = await concurrently(self._placed, runs)
        merged = {fire.nominal_due: fire for fire in self._planned(cron, start, last, limit, now, retention_ms)}
        for run, found in zip(runs, placed, strict=True):
            if found.row is not None:
                merged[run.nominal_due] = found
            elif found.due < now - retention_ms:
                merged.setdefault(run.nominal_due, found)
            elif run.revision == cron.revision and cron.state is CronState.ACTIVE and not run.triggered:
                merged[run.nominal_due] = RunShown(nominal_due=run.nominal_due, due=found.due)
        instants = sorted(merged)
        if len(runs) == limit:
            # After the last run of this page further runs may come before planned fires.
            instants = [instant for instant in instants if instant <= runs[-1].nominal_due]
        kept = instants[:limit]
        more = len(runs) == limit or len(merged) >= limit
        following = None if not more else kept[-1] if len(kept) == limit else runs[-1].nominal_due
        return RunPage([merged[instant] for instant in kept], following)

    async def newest_runs(
        self, client: Client, cron_id: CronId, *, start: UnixMillis, end: UnixMillis, limit: int
    ) -> RunPage:
        """The placed ones with start <= nominal instant < end, up to `limit`, the newest first; of deleted crons too.
        `next` is the instant to continue before. Raises NotFound, StoreUnavailable."""
        await self._read(client.client_id, cron_id)
        before = self._clock.wall_ms() - client.settings.retention_days * DAY_MS
        runs = await self._crons.read_runs(
            client.client_id, cron_id, first=start, last=UnixMillis(end - 1), limit=limit, newest_first=True
        )
        placed = await concurrently(self._placed, runs)
        shown = [found for found in placed if found.row is not None or found.due < before]
        return RunPage(shown, runs[-1].nominal_due if len(runs) == limit else None)

    async def _read(self, client_id: ClientId, cron_id: CronId) -> Cron:
        cron = (await self._crons.read(client_id, [cron_id])).get(cron_id)
        if cron is None:
            raise _no_such(cron_id)
        return cron

    def _planned(
        self, cron: Cron, start: int, last: int, limit: int, now: int, retention_ms: int
    ) -> Sequence[RunShown]:
        offset = offset_ms(cron)
        try:
            fires = planned(cron, now=now, after=start - 1, until=last, retention_ms=retention_ms)
            return [RunShown(nominal_due=each, due=UnixMillis(each + offset)) for each in islice(fires, limit)]
        except InvalidRule:
            # This program does not understand the rule; its past runs are shown all the same.
            return []

    async def _placed(self, run: CronRun) -> RunShown:
        resolved = await self._resolve(run.client_id, run.schedule_id)
        return RunShown(
            nominal_due=run.nominal_due,
            due=due_of(run.schedule_id),
            schedule_id=run.schedule_id,
            # All runs have the same body, and it is not shown.
            row=None if resolved is None else msgspec.structs.replace(resolved.row, body=None),
            triggered=run.triggered,
        )


def _no_such(cron_id: CronId) -> NotFound:
    return NotFound(f"there is no cron {cron_id!r}")
