"""Which fires of crons may still be made: checked when they are about to be claimed.

A fire names the revision of its cron that placed it. If the cron has changed since, the change's wake-up withdraws the
fires that it finds; a fire placed afterwards, by an expander that was paused during the change, is detected here. Fires
that may have been called before are not checked.

    so many runs of the cron have      the cron is paused first (`usecases.pause_failing_crons`), which is a change
    failed that it pauses itself

    the cron's revision is later       cancelled, `cron-changed`, unless it stands:
      it was due before the change     a change does not withdraw fires due before it; the owner was only slow. But a
                                       pause on failure does
      the present rule fires then too, the change found it claimed and let it stand, but its owner gave it back
      and has no child for it
    overlap: skip, and the last run    skipped, `overlap`
    that was not skipped is not over

    overlap in its options, and        skip: skipped, `overlap`
    another run is before it           buffer_one: the same if two are before it
    (`minute.ordering`)                cancel_other: the older one of both is cancelled; but if that is being called,
                                       this one is deferred

Overlaps are judged no sooner than a fire is due: the run before may have ended by then.

All fires of a window share one read. A fire that was held for more than a second since, for its turn or its receiver,
is checked again. An external update after that read competes with the claim, and one of the two wins, as with every
cancel.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from poller_cluster.dispatch.outcome import BEHIND_ITS_KEY, OVERLAP, overlapping
from scheduler_service.domain.crons.expansion import child_id, rule_of
from scheduler_service.domain.crons.row import Cron, CronRun, CronStanding, CronState
from scheduler_service.domain.errors import InvalidRule
from scheduler_service.domain.ids import (
    DAY_MS,
    ClientId,
    CronId,
    RowKey,
    ScheduleId,
    UnixMillis,
    due_of,
)
from scheduler_service.domain.options import CronChild, Undecodable, decode_options, is_run_key
from scheduler_service.domain.ports import CronStore, ScheduleStore
from scheduler_service.domain.schedules import Definition, Outcome, Row, State
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.cancel_schedules import AlreadyFinished, Cancelled, CancelSchedules, NoSuchSchedule
from scheduler_service.usecases.expand_crons import CHANGED
from scheduler_service.usecases.pause_failing_crons import PauseFailingCrons
from scheduler_service.usecases.resolve_schedule import read_original

AGAIN_MS = 2_000
"""Pause before another look at a run that could not be cancelled."""
RUNS_AT_ONCE = 50
LONGEST_RETRY_MS = 7 * DAY_MS
"""The longest retry deadline: older runs are over."""
REMEMBERED = 10_000
_PASSED_OVER = (State.SKIPPED, State.CANCELLED)
_APPLIED = ("skip", "buffer_one", "cancel_other")


class RunsAhead(Protocol):
    """Which runs are before others, as far as their owner knows (`minute.rows.Admission`)."""

    def runs_ahead(self, key: str, schedule_id: ScheduleId, *, limit: int) -> list[ScheduleId]: ...

    def is_under_way(self, key: str, schedule_id: ScheduleId, *, at: int) -> None: ...

    def is_over(self, key: str, schedule_id: ScheduleId, *, redelivered_at: int) -> None: ...


class _NoRuns:
    def runs_ahead(self, key: str, schedule_id: ScheduleId, *, limit: int) -> list[ScheduleId]:
        return []

    def is_under_way(self, key: str, schedule_id: ScheduleId, *, at: int) -> None:
        """It holds nothing here."""

    def is_over(self, key: str, schedule_id: ScheduleId, *, redelivered_at: int) -> None:
        raise AssertionError("there is no run")


NO_RUNS = _NoRuns()


class CronFireGuard:
    """The check of one node. Remembers which run was still under way, so that it is read first the next time."""

    def __init__(
        self,
        *,
        crons: CronStore,
        schedules: ScheduleStore,
        cancel: CancelSchedules | None = None,
        pause_failing: PauseFailingCrons | None = None,
    ) -> None:
        """`cancel` None: no run is cancelled in favour of another. `pause_failing` None: no cron is paused."""
        self._crons = crons
        self._cancel = cancel
        self._pause_failing = pause_failing
        self._schedules = schedules
        self._under_way: dict[tuple[ClientId, CronId], CronRun] = {}

    async def judge(
        self, client_id: ClientId, rows: Sequence[Row], *, now: int, runs: RunsAhead = NO_RUNS
    ) -> dict[RowKey, Outcome]:
        """The outcomes of those rows that must not be called. `now` is Unix milliseconds. Raises StoreUnavailable."""
        outcomes = await self._judge_fires(client_id, rows, runs, now=now)
        for row in rows:
            # One that is not due yet is held while another one is before it, and then checked again.
            if now < row.due or row.key in outcomes:
                continue
            if is_run_key(row.ordering_key) and (policy := _policy_of(row)) is not None:
                outcome = await self._judge_overlap(client_id, row, policy, runs, now=now)
                if outcome is not None:
                    outcomes[row.key] = outcome
        return outcomes

    async def run_failed(self, definition: Definition) -> None:
        """The failure of this schedule is recorded: its cron is paused if that was one too many. Does nothing for other
        schedules. May be repeated. Raises StoreUnavailable."""
        if self._pause_failing is not None and definition.cron_id is not None and _may_pause(definition.options):
            await self._pause_failing(definition.client_id, [definition.cron_id])

    async def run_stopped(self, definition: Definition) -> None:
        """The receiver of this fire has stopped its cron: it is paused, unless it was changed since it placed the fire.
        May be repeated. Raises StoreUnavailable."""
        if self._pause_failing is None or definition.cron_id is None:
            return
        try:
            child = decode_options(definition.options).cron
        except Undecodable:
            return
        if child is not None:
            due = due_of(definition.schedule_id)
            await self._pause_failing.stop(definition.client_id, definition.cron_id, revision=child.revision, due=due)

    async def _judge_overlap(
        self, client_id: ClientId, row: Row, policy: str, runs: RunsAhead, *, now: int
    ) -> Outcome | None:
        """Of a run that has not started. Those before it are read, since they may have been cancelled."""
        key = row.ordering_key
        assert key is not None
        unfinished, redelivered_at = list[ScheduleId](), 0
        needed = 2 if policy == "buffer_one" else 1
        for one in runs.runs_ahead(key, row.schedule_id, limit=needed):
            found = await read_original(self._schedules, client_id, one)
            redelivered_at = (found.redelivered_at if found is not None else None) or 0
            if found is None or found.ended:
                runs.is_over(key, one, redelivered_at=redelivered_at)
            else:
                unfinished.append(one)
        if len(unfinished) < needed:
            return None
        if policy != "cancel_other":
            return overlapping(row, now)
        other = unfinished[0]
        if other > row.schedule_id:
            return _ended(row, State.CANCELLED, OVERLAP, now)
        if self._cancel is None:
            return None
        match await self._cancel.one(client_id, other, reason=OVERLAP):
            case Cancelled() | AlreadyFinished() | NoSuchSchedule():
                runs.is_over(key, other, redelivered_at=redelivered_at)
                return None
            case _:
                # It is being called, or will be: look again when that may be over.
                at = UnixMillis(max(now, row.due) + AGAIN_MS)
                return Outcome(
                    state=State.RETRYING, attempts=row.attempt_base or 0, next_attempt_at=at, reason=BEHIND_ITS_KEY
                )

    async def _judge_fires(
        self, client_id: ClientId, rows: Sequence[Row], runs: RunsAhead, *, now: int
    ) -> dict[RowKey, Outcome]:
        fires = [(row, child) for row in rows if (child := _child_of(row)) is not None]
        if not fires:
            return {}
        standings = await self._standings(client_id, fires)
        outcomes: dict[RowKey, Outcome] = {}
        known = [
            (standing, child, row)
            for row, child in fires
            if row.cron_id is not None and (standing := standings.get(row.cron_id)) is not None
        ]
        changed = [(child, row) for standing, child, row in known if standing.revision > child.revision]
        for row in await self._fallen(client_id, changed):
            outcomes[row.key] = _ended(row, State.CANCELLED, CHANGED, now)
        overlapping = [
            (standing, row) for standing, _, row in known if standing.overlap == "skip" and row.key not in outcomes
        ]
        busy = await concurrently(self._is_under_way, overlapping)
        for (_, row), before in zip(overlapping, busy, strict=True):
            key = row.ordering_key
            if before is None:
                continue
            if key is not None and is_run_key(key) and now < row.due:
                runs.is_under_way(key, before, at=now)
            else:
                outcomes[row.key] = _ended(row, State.SKIPPED, OVERLAP, now)
        return outcomes

    async def _standings(
        self, client_id: ClientId, fires: Sequence[tuple[Row, CronChild]]
    ) -> Mapping[CronId, CronStanding]:
        """Of the fires' crons, after those that have failed too often were paused."""
        standings = await self._crons.read_standings(client_id, [row.cron_id for row, _ in fires if row.cron_id])
        if self._pause_failing is None:
            return standings
        present = {row.cron_id for row, child in fires if _is_present(standings.get(row.cron_id or CronId("")), child)}
        changed = await self._pause_failing.judge([one for one in standings.values() if one.cron_id in present])
        return {**standings, **await self._crons.read_standings(client_id, changed)} if changed else standings

    async def _fallen(self, client_id: ClientId, fires: Sequence[tuple[CronChild, Row]]) -> list[Row]:
        """Of fires whose crons have changed, those that don't stand. They are rare, so the crons are read only here."""
        if not fires:
            return []
        crons = await self._crons.read(client_id, [row.cron_id for _, row in fires if row.cron_id])
        asked = [
            (cron, child, row)
            for child, row in fires
            if row.cron_id is not None and (cron := crons.get(row.cron_id)) is not None
        ]
        stand = await concurrently(self._stands, asked)
        return [row for (_, _, row), stands in zip(asked, stand, strict=True) if not stands]

    async def _stands(self, fire: tuple[Cron, CronChild, Row]) -> bool:
        """Whether a fire counts although its cron has changed. Up to `expanded_through` every fire has a child of some
        revision; beyond it children of older revisions are withdrawn, and the present one places its own."""
        cron, child, row = fire
        if cron.revision <= child.revision:
            return True
        nominal = row.nominal_due
        if nominal is None or nominal > cron.expanded_through:
            return False
        if cron.pause is not None and cron.pause.by == "failures":
            return False
        due_before = due_of(row.schedule_id) <= cron.changed_at and child.revision == cron.revision - 1
        if not due_before and not (cron.swept == cron.revision and _fires_at(cron, nominal)):
            return False
        return await read_original(self._schedules, cron.client_id, child_id(cron, nominal)) is None

    async def _is_under_way(self, fire: tuple[CronStanding, Row]) -> ScheduleId | None:
        """The last run before this one that was not skipped, if it has not ended."""
        cron, row = fire
        assert row.nominal_due is not None
        name = (cron.client_id, cron.cron_id)
        known = self._under_way.get(name)
        if known is not None and known.nominal_due < row.nominal_due and await self._open(known) is True:
            return known.schedule_id
        last, oldest = row.nominal_due - 1, UnixMillis(row.nominal_due - LONGEST_RETRY_MS)
        while last >= oldest:
            runs = await self._crons.read_runs(
                cron.client_id,
                cron.cron_id,
                first=oldest,
                last=UnixMillis(last),
                limit=1 if last == row.nominal_due - 1 else RUNS_AT_ONCE,
                newest_first=True,
            )
            for run, is_open in zip(runs, await concurrently(self._open, runs), strict=True):
                if is_open:
                    if len(self._under_way) >= REMEMBERED:
                        del self._under_way[next(iter(self._under_way))]
                    self._under_way[name] = run
                if is_open is not None:
                    return run.schedule_id if is_open else None
            if not runs:
                break
            last = runs[-1].nominal_due - 1
        self._under_way.pop(name, None)
        return None

    async def _open(self, run: CronRun) -> bool | None:
        """Whether a run has not ended. None: it was skipped, cancelled, or never created."""
        row = await read_original(self._schedules, run.client_id, run.schedule_id)
        if row is None or not row.defined or row.state in _PASSED_OVER:
            return None
        return not row.ended


def _is_present(standing: CronStanding | None, child: CronChild) -> bool:
    return standing is not None and standing.revision == child.revision


def _may_pause(options: str) -> bool:
    try:
        return decode_options(options).pauses
    except Undecodable:
        return False


def _fires_at(cron: Cron, nominal: int) -> bool:
    try:
        return cron.state is CronState.ACTIVE and next(rule_of(cron).fires(nominal - 1, nominal), None) is not None
    except InvalidRule:
        return False


def _child_of(row: Row) -> CronChild | None:
    """Which revision placed this row, if it is a fire that cannot have been called before and is no redelivery."""
    if row.cron_id is None or row.attempt_base:
        return None
    try:
        options = decode_options(row.options)
    except Undecodable:
        return None
    return None if options.in_doubt or options.redelivery is not None else options.cron


def _policy_of(row: Row) -> str | None:
    """What a run that has not started says of overlaps; None: it waits, or doesn't mind."""
    if row.attempt_base:
        return None
    try:
        options = decode_options(row.options)
    except Undecodable:
        return None
    if options.in_doubt or options.redelivery is not None or options.overlap not in _APPLIED:
        return None
    return options.overlap


def _ended(row: Row, state: State, reason: str, now: int) -> Outcome:
    return Outcome(
        state=state, attempts=row.attempt_base or 0, finished_at=UnixMillis(max(now, row.due)), reason=reason
    )
