"""Pause and resume: all crons of a client that have a label, a page of crons at a time.

    ids, labels, states (one page) -> those that the request means -> a change of each, as if it were asked for alone

A page reads no callbacks. Each change is a conditional write of its own, so a page that was interrupted is repeated as
it was: what it changed before is found as wanted. Crons that are paused already keep their note.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from membership.errors import StoreUnavailable
from scheduler_service.domain.clients import Client
from scheduler_service.domain.crons.row import Cron, CronLabel, CronState
from scheduler_service.domain.errors import Conflict, NotFound
from scheduler_service.domain.ids import ClientId, CronId
from scheduler_service.domain.ports import CronStore
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.crons import ChangeCrons
from scheduler_service.usecases.reading_steps import HasRead, uncounted

CRONS_READ = 1_000
CRONS_CHANGED = 200
"""In one call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """Which crons are meant. `note`: only those that are paused with this note; None: whatever it is."""

    label: str
    note: str | None = None

    def means(self, cron: CronLabel) -> bool:
        if cron.label != self.label or cron.state is CronState.DELETED:
            return False
        return self.note is None or (cron.pause is not None and cron.pause.note == self.note)


@dataclass(frozen=True, slots=True)
class CronChange:
    """What became of one cron. `found`: its state before; `cron`: as it is afterwards, None in a dry run. `error`: why
    it was not changed."""

    cron_id: CronId
    found: CronState
    cron: Cron | None = None
    error: Conflict | NotFound | StoreUnavailable | None = None


@dataclass(frozen=True, slots=True)
class ChangePage:
    """`next`: the id to continue after; None: those were all. A page may have no items and still have a next one."""

    items: list[CronChange]
    next: CronId | None


class PauseCrons:
    """Pauses and resumes crons of clients that the caller has looked up, and admitted for a resume."""

    def __init__(self, *, crons: CronStore, change: ChangeCrons) -> None:
        self._crons = crons
        self._change = change

    async def pause(
        self,
        client: Client,
        meant: Labelled,
        *,
        note: str | None,
        dry_run: bool,
        after: CronId | None,
        has_read: HasRead = uncounted,
    ) -> ChangePage:
        """Finished crons are not paused (Conflict). Raises StoreUnavailable if the page can't be read."""

        async def one(found: CronLabel) -> CronChange:
            if found.state is CronState.FINISHED:
                error = Conflict("cron-finished", f"cron {found.cron_id!r} has had its last fire", state=found.state)
                return CronChange(found.cron_id, found.state, error=error)
            if dry_run:
                return CronChange(found.cron_id, found.state)
            try:
                cron = await self._change.pause(client.client_id, found.cron_id, note=note, keep_note=True)
            except (Conflict, NotFound, StoreUnavailable) as error:
                return CronChange(found.cron_id, found.state, error=error)
            return CronChange(found.cron_id, found.state, cron)

        found, following = await self._page(client.client_id, meant, after=after, has_read=has_read)
        return ChangePage(await concurrently(one, found), following)

    async def resume(
        self,
        client: Client,
        meant: Labelled,
        *,
        dry_run: bool,
        after: CronId | None,
        has_read: HasRead = uncounted,
    ) -> ChangePage:
        """Those that are paused, from now on. Raises StoreUnavailable if the page can't be read."""

        async def one(found: CronLabel) -> CronChange:
            if dry_run:
                return CronChange(found.cron_id, found.state)
            try:
                return CronChange(
                    found.cron_id, found.state, await self._change.resume(client.client_id, found.cron_id)
                )
            except (NotFound, StoreUnavailable) as error:
                return CronChange(found.cron_id, found.state, error=error)

        found, following = await self._page(
            client.client_id, meant, after=after, has_read=has_read, states=(CronState.PAUSED,)
        )
        return ChangePage(await concurrently(one, found), following)

    async def _page(
        self,
        client_id: ClientId,
        meant: Labelled,
        *,
        after: CronId | None,
        has_read: HasRead,
        states: Sequence[CronState] = tuple(CronState),
    ) -> tuple[list[CronLabel], CronId | None]:
        """Those that are meant among the next crons, and the id to continue after."""
        read = await self._crons.read_labels(client_id, after=after, limit=CRONS_READ)
        has_read(len(read), 0)
        found = [cron for cron in read if cron.state in states and meant.means(cron)]
        if len(found) > CRONS_CHANGED:
            found = found[:CRONS_CHANGED]
            return found, found[-1].cron_id
        return found, read[-1].cron_id if len(read) == CRONS_READ else None
