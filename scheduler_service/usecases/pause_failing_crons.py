"""Pause on failure: a cron whose last runs have all failed is paused, with a note that says why.

    the last runs, newest first -> as many failed as the cron says, and none was delivered -> the audit log
        -> the cron IF it is still at the revision of these runs -> its wake-up

Asked after the end of a failed run was recorded, and before fires are claimed, by any process and any number of times:
the pause is decided once, by the conditional write on the revision of the judged runs. A caller that asks again after a
lost answer finds the next revision, which has no runs; then the overdue scan places the wake-up. Its entry in the audit
log stays without an end, as every action's whose outcome is unknown.

Only runs of the present revision count, so a resume, like every change, begins the count again. A run counts by its
final end, in the order of nominal instants. Runs that were skipped (missed fires too) or cancelled, and those that have
not ended, neither count nor end the series; a delivered one ends it. Of the newest `RUNS_LOOKED_AT` runs only.

Fires that were due before the pause and have not been claimed are not called either, unlike after a request to pause:
`poller_cluster.crons.fire_guard` ends them.

A receiver may also stop the cron of a fire by its answer (`domain.verbs`): the same pause, as if on request, IF the
cron is still at the revision that placed the fire. So a stop that is carried out late or twice pauses nothing that was
resumed.

Cost: one read of the runs since the last one known to be delivered, and of their rows once they are as many as the cron
says.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple

from membership.conditional import Applied, Rejected, Unknown
from membership.errors import StoreUnavailable
from scheduler_service.domain.audit_log import AuditEntry
from scheduler_service.domain.clients import Client
from scheduler_service.domain.crons.expansion import wake_up
from scheduler_service.domain.crons.row import CRON_CLIENT, Cron, CronRun, CronStanding, CronState
from scheduler_service.domain.ids import DAY_MS, ClientId, CronId, UnixMillis, due_of
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.ports import ClientStore, CronStore, ScheduleStore
from scheduler_service.domain.schedules import Row, State
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.audit_log import BY_SYSTEM, AuditActions
from scheduler_service.usecases.crons import MAX_CRON_TURNS, paused_by_failures, paused_by_receiver
from scheduler_service.usecases.expand_crons import RUNS_KEPT_DAYS
from scheduler_service.usecases.resolve_schedule import read_original
from scheduler_service.usecases.schedule_writer import ScheduleWriter

RUNS_LOOKED_AT = 2_000
ROWS_AT_ONCE = 50
REMEMBERED = 10_000
ACTION = "pause_cron"
"""What the audit log calls it: as the operation of the API that does the same."""


@dataclass(frozen=True, slots=True)
class Series:
    """As many failed runs as a cron says, without a delivered one between them. `last` is the newest of them."""

    failures: int
    last: Row


class _Judged(NamedTuple):
    """The revision of a cron that is to be paused."""

    client_id: ClientId
    cron_id: CronId
    revision: int


class PauseFailingCrons:
    """`known` answers a client from memory, if it is there. `on_fault` is told of crons that can't be paused. `node_id`
    is named in the audit log."""

    def __init__(
        self,
        *,
        crons: CronStore,
        schedules: ScheduleStore,
        clients: ClientStore,
        known: Callable[[ClientId], Client | None],
        writer: ScheduleWriter,
        audit_log: AuditActions,
        node_id: str,
        clock: Clock,
        on_fault: Callable[[str, BaseException], None],
    ) -> None:
        self._crons = crons
        self._schedules = schedules
        self._clients = clients
        self._known = known
        self._writer = writer
        self._audit_log = audit_log
        self._node_id = node_id
        self._clock = clock
        self._on_fault = on_fault
        self._delivered: dict[tuple[ClientId, CronId], UnixMillis] = {}
        """Nominal instants of runs that are known to be delivered: a series begins behind them."""
        self._without_answer: dict[_Judged, AuditEntry] = {}
        """Entries of pauses that may not have been made, by the judged revision: who asks again goes on with them."""

    async def __call__(self, client_id: ClientId, cron_ids: Collection[CronId]) -> None:
        """Raises StoreUnavailable; then repeat."""
        standings = await self._crons.read_standings(client_id, list(cron_ids))
        await self.judge(standings.values())

    async def judge(self, standings: Collection[CronStanding]) -> list[CronId]:
        """Pause those that have failed too often; answers those that are not as they were read any more. Raises
        StoreUnavailable; then repeat."""
        asked = [standing for standing in standings if standing.pause_after_failures is not None]
        done = await concurrently(self._judge, asked)
        return [standing.cron_id for standing, changed in zip(asked, done, strict=True) if changed]

    async def stop(self, client_id: ClientId, cron_id: CronId, *, revision: int, due: UnixMillis) -> None:
        """Pause a cron that the receiver of its fire due at `due` has stopped, unless it is not at `revision` any more.
        May be repeated. Raises StoreUnavailable."""
        note = f"stopped by the receiver of the run due {format_instant(due)}"

        def paused(cron: Cron, now: UnixMillis) -> Cron:
            return paused_by_receiver(cron, note=note, now=now)

        try:
            await self._pause(_Judged(client_id, cron_id, revision), paused)
        except StoreUnavailable:
            raise
        except Exception as error:
            self._on_fault(f"stop of cron {client_id}/{cron_id}", error)

    async def _judge(self, standing: CronStanding) -> bool:
        try:
            series = await self._series(standing)
            if series is None:
                return False
            note, judged = _note(series), _Judged(standing.client_id, standing.cron_id, standing.revision)
            return await self._pause(judged, lambda cron, now: paused_by_failures(cron, note=note, now=now))
        except StoreUnavailable:
            raise
        except Exception as error:
            self._on_fault(f"pause on failure of cron {standing.client_id}/{standing.cron_id}", error)
            return False

    async def _series(self, standing: CronStanding) -> Series | None:
        wanted = standing.pause_after_failures
        assert wanted is not None
        name = (standing.client_id, standing.cron_id)
        last = UnixMillis(self._clock.wall_ms())
        first = max(last - RUNS_KEPT_DAYS * DAY_MS, self._delivered.get(name, 0) + 1)
        failed: list[Row] = []
        looked_at, limit = 0, wanted
        while looked_at < RUNS_LOOKED_AT and last >= first:
            read = await self._crons.read_runs(
                *name, first=UnixMillis(first), last=last, limit=limit, newest_first=True
            )
            runs = [run for run in read if run.revision == standing.revision]
            was_last = len(read) < limit
            if not runs or (was_last and len(runs) < wanted - len(failed)):
                return None
            for start in range(0, len(runs), ROWS_AT_ONCE):
                some = runs[start : start + ROWS_AT_ONCE]
                for run, row in zip(some, await concurrently(self._row, some), strict=True):
                    looked_at += 1
                    if row is None or not row.defined or row.state in (State.SKIPPED, State.CANCELLED):
                        continue
                    if row.state == State.DELIVERED:
                        self._remember(name, run.nominal_due)
                        return None
                    if row.state == State.FAILED:
                        failed.append(row)
                    if len(failed) == wanted:
                        return Series(wanted, failed[0])
            if was_last:
                return None
            last, limit = UnixMillis(read[-1].nominal_due - 1), max(wanted - len(failed), ROWS_AT_ONCE)
        return None

    async def _row(self, run: CronRun) -> Row | None:
        return await read_original(self._schedules, run.client_id, run.schedule_id)

    def _remember(self, name: tuple[ClientId, CronId], nominal_due: UnixMillis) -> None:
        if name not in self._delivered and len(self._delivered) >= REMEMBERED:
            del self._delivered[next(iter(self._delivered))]
        self._delivered[name] = nominal_due

    async def _pause(self, judged: _Judged, pause: Callable[[Cron, UnixMillis], Cron]) -> bool:
        """True: it is paused, or was changed after it was judged."""
        entry: AuditEntry | None = None
        for _ in range(MAX_CRON_TURNS):
            found = await self._crons.read(judged.client_id, [judged.cron_id], serial=True)
            cron = found.get(judged.cron_id)
            as_judged = cron is not None and cron.revision == judged.revision
            if cron is None or not as_judged or cron.state is not CronState.ACTIVE:
                if entry is not None:
                    await self._end(entry, status=409, problem="cron-changed")
                return not as_judged
            if entry is None:
                entry = self._without_answer.pop(judged, None) or await self._begin(judged)
            now = UnixMillis(self._clock.wall_ms())
            paused = pause(cron, now)
            note = "" if paused.pause is None else paused.pause.note or ""
            match await self._crons.write(paused, expected_revision=cron.revision):
                case Applied():
                    await self._end(entry, status=200, revision=paused.revision, note=note)
                    await self._writer(wake_up(paused, at=now, quota=await self._wake_quota()))
                    return True
                case Rejected():
                    # Changed, or confirmed by a request: it is read again.
                    continue
                case Unknown(reason=reason):
                    why = reason
                    break
        else:
            why = "others keep changing this cron"
        if entry is not None and len(self._without_answer) < REMEMBERED:
            self._without_answer[judged] = entry
        raise StoreUnavailable(why)

    async def _begin(self, judged: _Judged) -> AuditEntry:
        """Raises StoreUnavailable: then it is not paused."""
        target = {"client_id": judged.client_id, "cron_id": judged.cron_id}
        return await self._audit_log.begin(BY_SYSTEM, action=ACTION, target=target, request_id="")

    async def _end(self, entry: AuditEntry, *, status: int, problem: str | None = None, **details: str | int) -> None:
        named = {"node_id": self._node_id, **details}
        await self._audit_log.end(entry, status=status, problem=problem, details=named)

    async def _wake_quota(self) -> int:
        wakers = self._known(CRON_CLIENT) or await self._clients.read_client(CRON_CLIENT)
        if wakers is None:
            raise StoreUnavailable(f"the built-in client {CRON_CLIENT!r} does not exist yet")
        return wakers.poller_quota


def _note(series: Series) -> str:
    last, runs = series.last, "the last run" if series.failures == 1 else f"the last {series.failures:,} runs"
    if last.last_status is not None:
        why = f"status {last.last_status}"
    elif last.last_error is not None:
        why = f"error {last.last_error}"
    else:
        why = f"reason {last.reason}"
    instant = format_instant(due_of(last.schedule_id))
    return f"{runs} failed; the one due {instant} with {why}"
