"""Which days are archived, and who archives: `domain.ports.ArchiveStore`, for programs without an event loop."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from cql.settings import StorageSettings
from cql.storage import Storage, open_storage
from membership.conditional import Answer, Applied, Rejected, Unknown
from membership.errors import MinutehandError
from scheduler_service.domain.archives import ArchivedDay, RunId
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.runtime.concurrently import concurrently
from spark.errors import JobRefused
from spark.io.submitted import patient


class Marks:
    """The marks as one run, `run`, reads and writes them. Raises MinutehandError where storage does not answer."""

    def __init__(self, storage: Storage, runner: asyncio.Runner, run: RunId) -> None:
        self.run = run
        self._store = storage.archives
        self._runner = runner

    def read(self, clients: Sequence[str], *, first: int, last: int) -> list[ArchivedDay]:
        """The marked days that begin in [first, last], Unix milliseconds."""
        read = partial(self._store.read, first=UnixMillis(first), last=UnixMillis(last))
        answers = self._runner.run(concurrently(read, map(ClientId, clients)))
        return [day for days in answers for day in days]

    def runs(self, clients: Sequence[str]) -> set[RunId]:
        """The runs that hold one of the clients."""
        answers = self._runner.run(concurrently(self._store.read_run, map(ClientId, clients)))
        return {run for run in answers if run is not None}

    def take(self, clients: Sequence[str]) -> None:
        """Take the clients from the runs that hold them, which can then mark nothing. Raises JobRefused where another
        run takes them concurrently."""
        self._runner.run(concurrently(self._take, map(ClientId, clients)))

    def hold(self, client_id: str) -> None:
        """Confirm that this run still holds the client. Raises JobRefused otherwise."""
        client = ClientId(client_id)
        self._be_applied(client_id, self._runner.run(self._store.take(client, self.run, expected=self.run)))

    def mark(self, day: ArchivedDay) -> Answer[None]:
        return self._runner.run(self._store.mark(day, run=self.run))

    def mark_all(self, days: Sequence[ArchivedDay]) -> None:
        """Mark all days. Raises JobRefused where this run no longer holds a client."""
        answers = self._runner.run(concurrently(partial(self._store.mark, run=self.run), days))
        for day, answer in zip(days, answers, strict=True):
            self._be_applied(day.client_id, answer)

    def release(self, clients: Sequence[str]) -> None:
        """Release the clients that this run still holds."""
        give = partial(self._store.take, run=None, expected=self.run)
        self._runner.run(concurrently(give, map(ClientId, clients)))

    async def _take(self, client_id: ClientId) -> None:
        before = await self._store.read_run(client_id)
        self._be_applied(client_id, await self._store.take(client_id, self.run, expected=before))

    def _be_applied(self, client_id: str, answer: Answer[None]) -> None:
        match answer:
            case Applied():
                return
            case Rejected():
                raise JobRefused(taken_over(client_id))
            case Unknown(reason):
                raise JobRefused(f"the storage did not answer ({reason}); run it again")


def taken_over(client_id: str) -> str:
    return f"another run has taken over {client_id!r}; what this one had marked is archived, the rest is that one's"


@contextmanager
def open_marks(settings: StorageSettings, run: RunId) -> Iterator[Marks]:
    """Raises JobRefused where the storage does not answer, now or while it is open."""
    try:
        with asyncio.Runner() as runner:
            storage = runner.run(open_storage(patient(settings)))
            try:
                yield Marks(storage, runner, run)
            finally:
                runner.run(storage.close())
    except MinutehandError as error:
        raise JobRefused(f"the storage can't do it: {error}") from error
