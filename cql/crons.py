"""The tables `crons` and `cron_runs`.

A run is inserted plainly by the process that expands its rule, perhaps long after another one raised the revision and
placed other fires. So its timestamp is its revision, not a clock's time: of two rows for one instant the later revision
wins on every replica, whichever was written last, and rows of one revision have equal values. Therefore *every* insert
into the table must carry such a timestamp, and nothing may be deleted there, since a delete at a clock's time would
cover all later inserts. Runs expire by their time to live, which counts from the write.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from cql.connection import Connection, Item, without_rows
from cql.cron_rows import (
    RUN_BYTES,
    commit_item,
    confirm_item,
    cron_of,
    cron_rule_of,
    item_bytes,
    label_of,
    mark_of,
    months,
    reseal_parameters,
    run_parameters,
    standing_of,
    write_item,
)
from cql.cron_writes import CronWrites
from cql.decoding import UndecodableRow
from cql.settings import StorageSettings
from membership.conditional import APPLIED, Answer
from scheduler_service.domain.crons.row import Cron, CronLabel, CronMark, CronProgress, CronRule, CronRun, CronStanding
from scheduler_service.domain.errors import ContentTooLarge
from scheduler_service.domain.ids import DAY_MS, ClientId, CronId, UnixMillis
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.runtime.lifecycle import Tasks

T = TypeVar("T")

CRONS_PER_READ = 100
CRONS_PER_WRITE = 100
LONGEST_READ_DAYS = 400
"""Runs are kept for 90 days and placed a little ahead, and each month costs a request: a longer range is an error."""

_INSERT_RUN = "cron_runs.insert"
_BEFORE_ALL = CronId("")
_LONGEST_READ_MS = LONGEST_READ_DAYS * DAY_MS


class CqlCronStore:
    """`domain.ports.CronStore` over a connection. `tasks` runs the requests of concurrent writes."""

    def __init__(self, connection: Connection, *, tasks: Tasks, settings: StorageSettings) -> None:
        self._connection = connection
        self._settings = settings
        self._writes = CronWrites(
            connection,
            tasks=tasks,
            read=lambda client_id, cron_ids: self.read(client_id, cron_ids, serial=True),
            max_bytes=settings.queue_bytes,
        )

    async def read(
        self, client_id: ClientId, cron_ids: Sequence[CronId], *, serial: bool = False
    ) -> Mapping[CronId, Cron]:
        found: dict[CronId, Cron] = {}
        for part in _parts(cron_ids):
            rows = await self._connection.select("crons.read", (client_id, part), serial=serial)
            found.update((cron.cron_id, cron) for cron in _decodable(rows, cron_of))
        return found

    async def read_standings(self, client_id: ClientId, cron_ids: Sequence[CronId]) -> Mapping[CronId, CronStanding]:
        found: dict[CronId, CronStanding] = {}
        for part in _parts(cron_ids):
            rows = await self._connection.select("crons.read_standings", (client_id, part))
            found.update((standing.cron_id, standing) for standing in _decodable(rows, standing_of))
        return found

    async def read_page(self, client_id: ClientId, *, after: CronId | None = None, limit: int = 100) -> Sequence[Cron]:
        return await self._page("crons.read_page", client_id, after, limit, id_at=1, decode=cron_of)

    async def read_marks(
        self, client_id: ClientId, *, after: CronId | None = None, limit: int = 1000
    ) -> Sequence[CronMark]:
        return await self._page("crons.read_marks", client_id, after, limit, id_at=0, decode=mark_of)

    async def read_labels(
        self, client_id: ClientId, *, after: CronId | None = None, limit: int = 1000
    ) -> Sequence[CronLabel]:
        return await self._page("crons.read_labels", client_id, after, limit, id_at=0, decode=label_of)

    async def read_rules(
        self, client_id: ClientId, *, after: CronId | None = None, limit: int = 1000
    ) -> Sequence[CronRule]:
        return await self._page("crons.read_rules", client_id, after, limit, id_at=0, decode=cron_rule_of)

    async def write(self, cron: Cron, *, expected_revision: int | None) -> Answer[Cron | None]:
        item = write_item(cron, expected_revision=expected_revision)
        if (size := item_bytes(item)) > (most := self._settings.max_write_bytes):
            raise ContentTooLarge(f"A cron of {size} bytes can't be stored; {most} is the most.")
        return await self._writes.write(cron.client_id, cron.cron_id, item, expected_revision=expected_revision)

    async def confirm(self, cron: Cron) -> Answer[Cron | None]:
        item = confirm_item(cron)
        return await self._writes.write(cron.client_id, cron.cron_id, item, expected_revision=cron.revision)

    async def advance(self, client_id: ClientId, changes: Sequence[CronProgress]) -> Answer[None]:
        cron_ids = {change.cron.cron_id for change in changes}
        if len(cron_ids) != len(changes) or len(changes) > CRONS_PER_WRITE:
            raise ValueError(f"at most {CRONS_PER_WRITE} crons share a write of their progress, each once")
        if any(change.cron.client_id != client_id for change in changes):
            raise ValueError(f"a write of {client_id}'s crons names crons of other clients")
        if not changes:
            return APPLIED
        return await self._writes.advance(client_id, [commit_item(change) for change in changes])

    async def reseal(self, cron: Cron) -> Answer[None]:
        parameters = reseal_parameters(cron)
        return without_rows(await self._connection.conditional([("crons.reseal", parameters)]))

    async def remove(self, client_id: ClientId, mark: CronMark) -> Answer[None]:
        parameters = (client_id, mark.cron_id, mark.changed_at)
        return without_rows(await self._connection.conditional([("crons.remove", parameters)]))

    async def insert_runs(self, runs: Sequence[CronRun]) -> None:
        await concurrently(self._connection.write_batch, self._requests(runs))

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
        if last - first > _LONGEST_READ_MS:
            raise ValueError(f"runs are read over {LONGEST_READ_DAYS} days at most")
        spanned = list(months(first, last))
        name = "cron_runs.read_newest" if newest_first else "cron_runs.read"
        runs: list[CronRun] = []
        for month in reversed(spanned) if newest_first else spanned:
            if len(runs) >= limit:
                break
            parameters = (client_id, cron_id, month, first, last, limit - len(runs))
            runs += [CronRun(*values) for values in await self._connection.select(name, parameters)]
        return runs

    async def _page(
        self,
        name: str,
        client_id: ClientId,
        after: CronId | None,
        limit: int,
        *,
        id_at: int,
        decode: Callable[[Sequence[Any]], T],
    ) -> list[T]:
        """A full page if there are enough rows. Others replace those that can't be decoded, since a short page would
        look like the last one."""
        found: list[T] = []
        behind = _BEFORE_ALL if after is None else after
        while (missing := limit - len(found)) > 0:
            rows = await self._connection.select(name, (client_id, behind, missing))
            found += _decodable(rows, decode)
            if len(rows) < missing:
                break
            behind = rows[-1][id_at]
        return found

    def _requests(self, runs: Sequence[CronRun]) -> list[list[Item]]:
        """Group rows by partition, and small groups by the servers that hold them, within the server's limits for
        batches over several partitions."""
        partitions: dict[Any, list[Item]] = defaultdict(list)
        for run in runs:
            parameters = run_parameters(run)
            partitions[parameters[:3]].append((_INSERT_RUN, parameters))
        requests: list[list[Item]] = []
        filling: dict[Any, tuple[list[Item], list[int]]] = {}
        settings = self._settings
        for items in partitions.values():
            for start in range(0, len(items), settings.group_commit_rows):
                part = items[start : start + settings.group_commit_rows]
                size = sum(RUN_BYTES + len(values[0]) + len(values[1]) for _, values in part)
                replicas = self._connection.replicas(*part[0])
                request, sizes = filling.get(replicas, ([], []))
                if (
                    not request
                    or len(sizes) >= settings.group_commit_partitions
                    or len(request) + len(part) > settings.group_commit_rows
                    or sum(sizes) + size > settings.group_commit_bytes
                ):
                    request, sizes = filling[replicas] = [], []
                    requests.append(request)
                request += part
                sizes.append(size)
        return requests


def _parts(cron_ids: Sequence[CronId]) -> Iterator[list[CronId]]:
    """The distinct ids, in groups that one request reads."""
    wanted = list(dict.fromkeys(cron_ids))
    for start in range(0, len(wanted), CRONS_PER_READ):
        yield wanted[start : start + CRONS_PER_READ]


def _decodable(rows: Sequence[Sequence[Any]], decode: Callable[[Sequence[Any]], T]) -> list[T]:
    found = []
    for values in rows:
        try:
            found.append(decode(values))
        except UndecodableRow:
            continue
    return found
