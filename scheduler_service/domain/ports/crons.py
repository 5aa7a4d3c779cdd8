"""The store of crons."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from membership.conditional import Answer
from scheduler_service.domain.crons.row import Cron, CronLabel, CronMark, CronProgress, CronRule, CronRun, CronStanding
from scheduler_service.domain.ids import (
    ClientId,
    CronId,
    UnixMillis,
)


class CronStore(Protocol):
    """The tables `crons` and `cron_runs`.

    All crons of a client are one partition, so conditional writes on one client's crons contend: those of one process
    are sent one at a time, many crons in each.
    """

    async def read(
        self, client_id: ClientId, cron_ids: Sequence[CronId], *, serial: bool = False
    ) -> Mapping[CronId, Cron]:
        """Those that exist (any number, 100 in a request), deleted ones included. One that can't be decoded is logged
        and left out."""

    async def read_standings(self, client_id: ClientId, cron_ids: Sequence[CronId]) -> Mapping[CronId, CronStanding]:
        """The same with only what a fire is judged by, without the callback, which may be large."""

    async def read_page(self, client_id: ClientId, *, after: CronId | None = None, limit: int = 100) -> Sequence[Cron]:
        """Up to `limit` crons behind `after` in the order of their ids, deleted ones included. Fewer: there are no
        more. Ones that can't be decoded are left out, and don't count."""

    async def read_marks(
        self, client_id: ClientId, *, after: CronId | None = None, limit: int = 1000
    ) -> Sequence[CronMark]:
        """The same with only what the overdue scan needs."""

    async def read_labels(
        self, client_id: ClientId, *, after: CronId | None = None, limit: int = 1000
    ) -> Sequence[CronLabel]:
        """The same with only states, labels and pauses."""

    async def read_rules(
        self, client_id: ClientId, *, after: CronId | None = None, limit: int = 1000
    ) -> Sequence[CronRule]:
        """The same with only what decides when they fire."""

    async def write(self, cron: Cron, *, expected_revision: int | None) -> Answer[Cron | None]:
        """Replace all columns but `confirmations` if the stored revision is `expected_revision` (None: there is no such
        cron) and the stored confirmations are the cron's.

        Concurrent calls for one client share requests; each has its own answer. Raises ContentTooLarge for a cron that
        no request can carry, and an error if the write is rejected and the stored cron can't be decoded.
        """

    async def confirm(self, cron: Cron) -> Answer[Cron | None]:
        """Raise the confirmations if the cron has not been changed or confirmed since it was read: then no write that
        was decided before takes effect later. Answers and raises as `write` does."""

    async def advance(self, client_id: ClientId, changes: Sequence[CronProgress]) -> Answer[None]:
        """Write the progress of these crons, all or nothing. Raises ValueError for more than 100, or one twice."""

    async def reseal(self, cron: Cron) -> Answer[None]:
        """Replace the stored callback if the revision is the cron's. The revision does not change, because only the
        encryption does."""

    async def remove(self, client_id: ClientId, mark: CronMark) -> Answer[None]:
        """Delete the row of a deleted cron if it has not changed since `mark` was read."""

    async def insert_runs(self, runs: Sequence[CronRun]) -> None:
        """Insert them durably; repeating it is harmless. Kept 90 days."""

    async def read_runs(
        self,
        client_id: ClientId,
        cron_id: CronId,
        *,
        first: UnixMillis,
        last: UnixMillis,
        limit: int = 1000,
        newest_first: bool = False,
    ) -> Sequence[CronRun]:
        """Up to `limit` runs with first <= nominal_due <= last, in their order.

        Reads every month between the two until `limit` is reached, so the caller bounds them: runs are kept 90 days.
        Raises ValueError over 400 days.
        """
