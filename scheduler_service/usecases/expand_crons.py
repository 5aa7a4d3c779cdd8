"""Expand: places everything that is due for some crons of one client; any process may do it, any number of times.

    read serially -> cancel children of older revisions -> runs -> children, wake-up -> progress
                     (once for each revision)

Every step may be repeated and interrupted: ids of children derive from the cron, and progress is written on
condition that the cron was neither changed nor advanced meanwhile. If it was, that writer sets the next wake-up. An
expander that pauses while the cron is changed may place children of the previous revision: they are found when they are
about to be claimed (`poller_cluster.crons.fire_guard`).

Many crons share each step, because the crons of a client are one partition and its conditional writes are serialised.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import TypeAlias

from membership.conditional import Applied, Rejected, Unknown
from membership.errors import MinutehandError, StoreUnavailable
from scheduler_service.domain.clients import Client
from scheduler_service.domain.crons.compound import takes_long
from scheduler_service.domain.crons.expansion import WINDOW_MS, Expansion, is_due, plan
from scheduler_service.domain.crons.row import CRON_CLIENT, FIRST_REVISION, Cron, CronRun
from scheduler_service.domain.ids import DAY_MS, ClientId, CronId, ScheduleId, UnixMillis
from scheduler_service.domain.options import Undecodable, decode_options
from scheduler_service.domain.ports import ClientStore, CronStore
from scheduler_service.domain.schedules import Definition, Row, State
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.concurrently import Turn, concurrently
from scheduler_service.usecases.cancel_schedules import Cancelled, CancelSchedules
from scheduler_service.usecases.reading_steps import FIRST_STEP_ROWS, MAX_BYTES, next_step
from scheduler_service.usecases.resolve_schedule import ResolveSchedule
from scheduler_service.usecases.schedule_writer import ScheduleWriter

EXPANDED_AT_ONCE = 100
"""Crons of one conditional write. They are read in steps (`reading_steps`), as their callbacks may be long."""
LEAST_AT_ONCE = 4
"""Crons read together at least, however often reads timed out: even with the longest callbacks these are little more
than `MAX_BYTES`."""
CHILDREN_AT_ONCE = 500
CLOCK_MARGIN_MS = 2_000
"""How far the clock of the process that set `wake_at` may be ahead of ours: nearly due counts as due."""
RUNS_KEPT_DAYS = 90
CHANGED = "cron-changed"
"""Reason of children that were cancelled because their cron changed."""
MISSED = "missed"
"""Reason of fires that were older than their cron's catch-up."""


Placed: TypeAlias = Callable[[Sequence[Definition], UnixMillis, UnixMillis], None]


def _untold(fires: Sequence[Definition], began: UnixMillis, ended: UnixMillis) -> None:
    return


class ExpandCrons:
    """`known` answers a client from memory, if it is there. `on_fault` is told of crons that can't be expanded,
    `missed` of each fire that was recorded as missed, before its cron advances; it raises StoreUnavailable. `placed` is
    told of fires that were placed, once or more, and from when to when that took."""

    def __init__(
        self,
        *,
        crons: CronStore,
        clients: ClientStore,
        known: Callable[[ClientId], Client | None],
        writer: ScheduleWriter,
        resolve: ResolveSchedule,
        cancel: CancelSchedules,
        clock: Clock,
        on_fault: Callable[[str, BaseException], None],
        missed: Callable[[Definition], Awaitable[None]],
        placed: Placed = _untold,
    ) -> None:
        self.children_placed = 0
        self.crons_expanded = 0
        self._crons = crons
        self._clients = clients
        self._known = known
        self._writer = writer
        self._resolve = resolve
        self._cancel = cancel
        self._clock = clock
        self._on_fault = on_fault
        self._missed = missed
        self._placed = placed
        self._most: dict[ClientId, int] = {}
        """How many crons to read at once until the next expansion succeeds, for clients whose read timed out."""

    async def __call__(self, client_id: ClientId, cron_ids: Collection[CronId], *, turn: Turn = nullcontext) -> None:
        """Does nothing for a client that is suspended, paused or deleted. Each request to storage is made within a
        `turn`. Raises StoreUnavailable; then repeat."""
        async with turn():
            client, wakers = await self._client(client_id), await self._client(CRON_CLIENT)
            if client is not None and client.calls_held:
                # The cached client may be seconds old, and a wake-up that is wrongly skipped delays its crons by
                # minutes.
                client = await self._clients.read_client(client_id)
        if client is None or client.calls_held:
            return
        if wakers is None:
            raise StoreUnavailable(f"the built-in client {CRON_CLIENT!r} does not exist yet")
        ids = list(dict.fromkeys(cron_ids))
        crons: list[Cron] = []
        at = done = read = 0
        step = FIRST_STEP_ROWS
        while at < len(ids):
            several = ids[at : at + min(step, EXPANDED_AT_ONCE - done, self._most.get(client_id, EXPANDED_AT_ONCE))]
            found = await self._read(client_id, several, turn)
            crons += found
            at, done = at + len(several), done + len(several)
            read += sum(cron.callback.size for cron in found)
            step = next_step(step, done=done, read=read)
            if read >= MAX_BYTES or done == EXPANDED_AT_ONCE or at == len(ids):
                await self._expand(client, wakers, crons, turn)
                crons, done, read = [], 0, 0
        self._most.pop(client_id, None)

    async def _read(self, client_id: ClientId, cron_ids: Sequence[CronId], turn: Turn) -> Collection[Cron]:
        try:
            async with turn():
                return (await self._crons.read(client_id, cron_ids, serial=True)).values()
        except StoreUnavailable:
            # The callbacks may have been too long to be read in time.
            self._most[client_id] = max(len(cron_ids) // 2, LEAST_AT_ONCE)
            raise

    async def _client(self, client_id: ClientId) -> Client | None:
        return self._known(client_id) or await self._clients.read_client(client_id)

    async def _expand(self, client: Client, wakers: Client, crons: Sequence[Cron], turn: Turn) -> None:
        retention_ms = client.settings.retention_days * DAY_MS

        async def planned(cron: Cron) -> Expansion | None:
            try:
                kept = await self._withdraw_older(cron, retention_ms=retention_ms, turn=turn)
                if takes_long(cron.expression):
                    await self._clock.sleep(0)
                now, quota = self._clock.wall_ms(), wakers.poller_quota
                return plan(cron, now=now, wake_quota=quota, retention_ms=retention_ms, kept=kept)
            except StoreUnavailable:
                raise
            except Exception as error:
                self._stands_alone(cron, error)
                return None

        due = [cron for cron in crons if is_due(cron, self._clock.wall_ms() + CLOCK_MARGIN_MS)]
        expansions = await concurrently(planned, due)
        for group in _grouped(expansion for expansion in expansions if expansion is not None):
            await self._carry_out(client.client_id, group, turn)

    def _stands_alone(self, cron: Cron, error: BaseException) -> None:
        """Report a cron that can't be expanded, and go on: other crons must not wait for it."""
        self._on_fault(f"cron {cron.client_id}/{cron.cron_id}", error)

    async def _withdraw_older(self, cron: Cron, *, retention_ms: int, turn: Turn) -> frozenset[UnixMillis]:
        """Cancel unclaimed children of older revisions; answers the instants of the others."""
        if cron.swept >= cron.revision or cron.revision == FIRST_REVISION:
            return frozenset()
        now = self._clock.wall_ms()
        oldest = now - min(retention_ms, RUNS_KEPT_DAYS * DAY_MS)
        async with turn():
            runs = await self._crons.read_runs(
                cron.client_id,
                cron.cron_id,
                first=UnixMillis(max(cron.expanded_through, oldest) + 1),
                last=UnixMillis(now + 2 * WINDOW_MS),
            )
        older = [run for run in runs if run.revision < cron.revision]
        kept = await concurrently(lambda run: self._withdraw(run, turn), older)
        return frozenset(run.nominal_due for run, stays in zip(older, kept, strict=True) if stays)

    async def _withdraw(self, run: CronRun, turn: Turn) -> bool:
        async with turn():
            return await self._stays(run)

    async def _stays(self, run: CronRun) -> bool:
        """Cancel the child. True: it stays, because it was claimed, has ended, or its client cancelled that very
        run."""
        resolved = await self._resolve(run.client_id, run.schedule_id)
        if resolved is None or not _is_fire(resolved.row):
            return False
        row = resolved.row
        if row.state == State.CANCELLED:
            return row.reason != CHANGED
        if row.ended or (row.state == State.RETRYING and (row.attempts or 0) > 0):
            return True
        result = await self._cancel.one(run.client_id, run.schedule_id, reason=CHANGED)
        return not (isinstance(result, Cancelled) and result.row.reason == CHANGED)

    async def _carry_out(self, client_id: ClientId, expansions: Sequence[Expansion], turn: Turn) -> None:
        began = self._clock.wall_ms()
        children = [child for expansion in expansions for child in expansion.children]
        # Runs first: a later revision finds the children to cancel by them.
        async with turn():
            await self._crons.insert_runs([child.run for child in children])
        rows = [child.definition for child in children if not child.skip]
        rows += [expansion.wake_up for expansion in expansions if expansion.wake_up is not None]
        missed = [child.definition for child in children if child.skip]
        errors, errors_of_missed = await asyncio.gather(
            self._place_together(rows, turn), concurrently(lambda one: self._place_missed(one, turn), missed)
        )
        refused: dict[ScheduleId, MinutehandError] = {}
        for row, error in zip((*rows, *missed), (*errors, *errors_of_missed), strict=True):
            if isinstance(error, StoreUnavailable):
                raise error
            if error is not None:
                refused[row.schedule_id] = error
        done = [expansion for expansion in expansions if not self._was_refused(expansion, refused)]
        await self._advance(client_id, done, turn)
        self.children_placed += sum(len(expansion.children) for expansion in done)
        self.crons_expanded += len(done)
        fires = [child.definition for expansion in done for child in expansion.children if not child.skip]
        self._placed(fires, UnixMillis(began), UnixMillis(self._clock.wall_ms()))

    async def _place_together(self, rows: Sequence[Definition], turn: Turn) -> Sequence[MinutehandError | None]:
        async with turn():
            return await self._writer.many(rows)

    async def _place_missed(self, definition: Definition, turn: Turn) -> MinutehandError | None:
        try:
            async with turn():
                await self._writer.ended(definition, state=State.SKIPPED, reason=MISSED)
                await self._missed(definition)
        except MinutehandError as error:
            return error
        return None

    def _was_refused(self, expansion: Expansion, refused: Mapping[ScheduleId, MinutehandError]) -> bool:
        """Whether a row of this cron can't be stored. The cron is not advanced then: it would skip fires that were
        never placed."""
        placed = [child.definition for child in expansion.children]
        error = next((refused[row.schedule_id] for row in placed if row.schedule_id in refused), None)
        if error is None and expansion.wake_up is not None:
            error = refused.get(expansion.wake_up.schedule_id)
        if error is not None:
            self._stands_alone(expansion.progress.cron, error)
        return error is not None

    async def _advance(self, client_id: ClientId, expansions: Sequence[Expansion], turn: Turn) -> None:
        if not expansions:
            return
        async with turn():
            answer = await self._crons.advance(client_id, [expansion.progress for expansion in expansions])
        match answer:
            case Applied():
                return
            case Unknown(reason=reason):
                raise StoreUnavailable(reason)
            # One changed cron rejects the batch; alone, only that one is rejected, and its writer sets its wake-up.
            case Rejected() if len(expansions) > 1:
                for expansion in expansions:
                    await self._advance(client_id, [expansion], turn)
            case Rejected():
                return


def _is_fire(row: Row) -> bool:
    try:
        return decode_options(row.options).cron is not None
    except Undecodable:
        return False


def _grouped(expansions: Iterable[Expansion]) -> Iterable[list[Expansion]]:
    """Groups of at most `CHILDREN_AT_ONCE` children with `MAX_BYTES` of content, each of one cron at least."""
    group: list[Expansion] = []
    children = size = 0
    for expansion in expansions:
        more = len(expansion.children)
        longer = more * expansion.progress.cron.callback.size
        if group and (children + more > CHILDREN_AT_ONCE or size + longer > MAX_BYTES):
            yield group
            group, children, size = [], 0, 0
        group.append(expansion)
        children, size = children + more, size + longer
    if group:
        yield group
