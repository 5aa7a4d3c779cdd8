"""Backfill: the fires of a cron's past that were not made, made once each.

    fires of the rule in the range, as far as the cron has passed them
        without a run, or withdrawn by a change    placed as skipped (`missed`), under the id that the fire would have
        placed and never read                      recorded as skipped, unless its owner claims it first
        skipped                                    redelivered: called at an instant of its own
        made, open, cancelled by the client        left as they are
        without a run, of a cron with `max_fires`  not made: no more fires than that

A fire is placed with the same run, id and content however often and by how many callers it is asked for, and a skipped
schedule is redelivered once: that is decided by an external update of its row. So a backfill that was interrupted, or
that two callers ask for at once, is repeated as it was. No late policy skips a redelivery. The books count each of
these schedules in the minute of its fire, like any missed fire that is redelivered.

What an expansion will still place is left to it: of an active cron the fires beyond `expanded_through`, of another one
those of the last `SURELY_PAST_MS`, since the clock of a process that resumes it may be behind.

The calls are `APART_MS` apart, so that they leave half of the poller's guaranteed rate to others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from membership.errors import MinutehandError, StoreUnavailable
from scheduler_service.domain.clients import GUARANTEED_CALLS_PER_MINUTE, Client
from scheduler_service.domain.crons.expansion import missed_fire, offset_ms, rule_of
from scheduler_service.domain.crons.row import Cron, CronRun, CronState
from scheduler_service.domain.errors import FieldError, Invalid, InvalidRule
from scheduler_service.domain.ids import DAY_MS, MINUTE_MS, ClientId, CronId, ScheduleId, UnixMillis, partition_of
from scheduler_service.domain.ports import CronStore
from scheduler_service.domain.retry_rows import definition_of
from scheduler_service.domain.schedules import Definition, Row, State
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.cancel_schedules import NoSuchSchedule
from scheduler_service.usecases.crons import existing
from scheduler_service.usecases.expand_crons import CHANGED, MISSED
from scheduler_service.usecases.redeliver import DELETION_MARGIN_MS, Redelivering, RedeliverSchedule, Terms
from scheduler_service.usecases.resolve_schedule import ResolveSchedule
from scheduler_service.usecases.schedule_writer import ScheduleWriter

FIRES_AT_ONCE = 200
"""Fires that one call handles."""
APART_MS = 2 * MINUTE_MS // GUARANTEED_CALLS_PER_MINUTE
SURELY_PAST_MS = MINUTE_MS
EVER = UnixMillis(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfilled:
    """One fire. `at`: when it is called at the earliest; None: it is left as it is, `row` says how, None: it
    was deleted meanwhile. `error`: whether it will be called is not known."""

    nominal_due: UnixMillis
    schedule_id: ScheduleId
    at: UnixMillis | None = None
    row: Row | None = None
    error: MinutehandError | None = None
    placed: Definition | None = None
    """What has to be placed as skipped before it can be called."""


@dataclass(frozen=True, slots=True)
class BackfillPage:
    """`next`: the nominal instant to continue after; None: those were all. `called_until`: no call of this page or of
    those before is later."""

    items: list[Backfilled]
    next: UnixMillis | None
    called_until: UnixMillis


class BackfillCron:
    """Backfills crons of clients that the caller has looked up and admitted."""

    def __init__(
        self,
        *,
        crons: CronStore,
        writer: ScheduleWriter,
        resolve: ResolveSchedule,
        redeliver: RedeliverSchedule,
        clock: Clock,
    ) -> None:
        self._crons = crons
        self._writer = writer
        self._resolve = resolve
        self._redeliver = redeliver
        self._clock = clock

    async def __call__(
        self,
        client: Client,
        cron_id: CronId,
        *,
        start: UnixMillis,
        end: UnixMillis,
        dry_run: bool,
        called_from: UnixMillis | None = None,
        take: Callable[[int], object] = lambda calls: None,
        limit: int = FIRES_AT_ONCE,
    ) -> BackfillPage:
        """The first fires with start <= nominal instant < end. `called_from`: no call is earlier. `take` is
        called with the number of fires before any is placed, and raises if there may not be so many. Raises NotFound;
        Invalid where `start` is older than the client keeps schedules, or the rule can't be read; StoreUnavailable."""
        cron = await self._read(client.client_id, cron_id)
        now = self._clock.wall_ms()
        oldest = now - client.settings.retention_days * DAY_MS + DELETION_MARGIN_MS
        if start < oldest:
            days = client.settings.retention_days
            raise Invalid([FieldError("/from", f"is longer ago than this client keeps schedules, {days} days")])
        last = min(end - 1, _passed(cron, now))
        fires = _fires(cron, start, last, limit)
        runs = await self._runs(cron, fires)
        # With `max_fires`, the cron itself has made as many as it may, or still will.
        made = fires if cron.options.max_fires is None else [nominal for nominal in fires if nominal in runs]
        found = await concurrently(lambda nominal: self._judged(cron, nominal, runs.get(nominal)), made)
        at = max(called_from or 0, now)
        items: list[Backfilled] = []
        for one in found:
            if one.at is None:
                items.append(one)
                continue
            at += APART_MS
            items.append(replace(one, at=UnixMillis(at)))
        if not dry_run:
            take(len(items))
            items = list(await concurrently(lambda one: self._made(client, cron, one), items))
        following = fires[-1] if len(fires) == limit else None
        return BackfillPage(items, following, UnixMillis(at))

    async def _read(self, client_id: ClientId, cron_id: CronId) -> Cron:
        """By a serial read: a change whose answer is lost must not withdraw what is placed here."""
        return existing((await self._crons.read(client_id, [cron_id], serial=True)).get(cron_id), cron_id)

    async def _runs(self, cron: Cron, fires: Sequence[UnixMillis]) -> dict[UnixMillis, CronRun]:
        if not fires:
            return {}
        found: dict[UnixMillis, CronRun] = {}
        wanted, first = set(fires), fires[0]
        while first <= fires[-1]:
            runs = await self._crons.read_runs(cron.client_id, cron.cron_id, first=first, last=fires[-1])
            found |= {run.nominal_due: run for run in runs if run.nominal_due in wanted}
            if not runs:
                break
            first = UnixMillis(runs[-1].nominal_due + 1)
        return found

    async def _judged(self, cron: Cron, nominal: UnixMillis, run: CronRun | None) -> Backfilled:
        """With any `at` if it is to be made."""
        mine = missed_fire(cron, nominal).definition
        to_place = Backfilled(nominal_due=nominal, schedule_id=mine.schedule_id, at=nominal, placed=mine)
        if run is None:
            return to_place
        resolved = await self._resolve(run.client_id, run.schedule_id)
        row = None if resolved is None else resolved.row
        if row is None:
            # Within the retention only a process that stopped leaves a run without its row.
            return to_place
        if row.state == State.CANCELLED and row.reason == CHANGED and run.revision < cron.revision:
            return to_place
        if row.state is None and resolved is not None and not resolved.in_flight:
            # Its minute may never be read again: the process that placed it stopped, or its owner is late.
            pending = definition_of(partition_of(cron.client_id, run.schedule_id), row)
            return Backfilled(nominal_due=nominal, schedule_id=run.schedule_id, at=nominal, placed=pending)
        skipped = row.state == State.SKIPPED and row.redelivered_at is None
        at = nominal if skipped else None
        return Backfilled(nominal_due=nominal, schedule_id=run.schedule_id, at=at, row=row)

    async def _made(self, client: Client, cron: Cron, one: Backfilled) -> Backfilled:
        if one.at is None:
            return one
        try:
            if one.placed is not None:
                missed = missed_fire(cron, one.nominal_due)
                if one.schedule_id == missed.run.schedule_id:
                    # The run first: a repeat finds the fire by it.
                    await self._crons.insert_runs([missed.run])
                await self._writer.ended(one.placed, state=State.SKIPPED, reason=MISSED)
            terms = Terms(states=(State.SKIPPED,), since=EVER, at=one.at)
            result = await self._redeliver(client, one.schedule_id, terms=terms)
        except StoreUnavailable as error:
            return Backfilled(nominal_due=one.nominal_due, schedule_id=one.schedule_id, error=error)
        match result:
            case Redelivering():
                return one
            case NoSuchSchedule():
                return Backfilled(nominal_due=one.nominal_due, schedule_id=one.schedule_id)
            case _:
                return Backfilled(nominal_due=one.nominal_due, schedule_id=one.schedule_id, row=result.row)


def _fires(cron: Cron, start: int, last: int, limit: int) -> list[UnixMillis]:
    try:
        return list(islice(rule_of(cron).fires(start - 1, last), limit)) if start <= last else []
    except InvalidRule as error:
        raise Invalid([FieldError("", f"this program can't read the cron's rule: {error.reason}")]) from None


def _passed(cron: Cron, now: int) -> int:
    """The last nominal instant that no expansion will place any more."""
    past = now - offset_ms(cron) - SURELY_PAST_MS
    return min(past, cron.expanded_through) if cron.state is CronState.ACTIVE else past
