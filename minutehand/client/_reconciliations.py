"""Reconciliations: one action on all schedules of a window. Both kinds of client, with what they send and get."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from minutehand.client._calls import Operation, client_path, instant, keyed, segment
from minutehand.client._models import Page
from minutehand.client._pace import SystemPace
from minutehand.client._parts import AsyncPart, Part, every, every_async

EVERY_SECONDS = 2.0
_PACE = SystemPace()


class ReconciliationProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the window was looked at: all minutes before `through`."""

    minutes_done: int
    minutes_total: int
    through: datetime


class Reconciliation(msgspec.Struct, frozen=True, kw_only=True):
    """`action` (report, redeliver, cancel) on all schedules due from `start` to before `end` in one of `states`.
    `state`: running, finished or stopped. `seen` counts what it was about so far by the state in which it was found,
    `outcomes` the same by what became of it."""

    reconciliation_id: str
    client_id: str
    action: str
    start: datetime = msgspec.field(name="from")
    end: datetime = msgspec.field(name="to")
    states: tuple[str, ...]
    state: str
    progress: ReconciliationProgress
    seen: Mapping[str, int]
    outcomes: Mapping[str, int]
    created_at: datetime
    created_by: str
    updated_at: datetime

    @property
    def running(self) -> bool:
        return self.state == "running"


class Reconciliations(Part):
    """A client's reconciliations."""

    def create(
        self,
        action: str,
        *,
        start: datetime | str,
        end: datetime | str,
        states: Sequence[str],
        idempotency_key: str | None = None,
    ) -> Reconciliation:
        """Begin one. The cluster works on it little by little, each schedule once; `wait` for it, or look again."""
        return self._perform(_create(self._client_id, action, start, end, states, idempotency_key))

    def get(self, reconciliation_id: str) -> Reconciliation:
        return self._perform(_get(self._client_id, reconciliation_id))

    def list(self, *, page_size: int | None = None) -> Iterator[Reconciliation]:
        """The newest first, page by page; they are kept 90 days."""
        return every(self._perform, _list(self._client_id, page_size))

    def stop(self, reconciliation_id: str) -> Reconciliation:
        """End it where it is. Else MinutehandApiError: reconciliation-finished."""
        return self._perform(_stop(self._client_id, reconciliation_id))

    def wait(
        self,
        reconciliation_id: str,
        *,
        every_seconds: float = EVERY_SECONDS,
        on_progress: Callable[[Reconciliation], None] = lambda found: None,
    ) -> Reconciliation:
        """Look `every_seconds` until it runs no more; `on_progress` is told each time."""
        while (found := self.get(reconciliation_id)).running:
            on_progress(found)
            _PACE.sleep(every_seconds)
        return found


class AsyncReconciliations(AsyncPart):
    """The same, to be awaited."""

    async def create(
        self,
        action: str,
        *,
        start: datetime | str,
        end: datetime | str,
        states: Sequence[str],
        idempotency_key: str | None = None,
    ) -> Reconciliation:
        """Begin one. The cluster works on it little by little, each schedule once; `wait` for it, or look again."""
        return await self._perform(_create(self._client_id, action, start, end, states, idempotency_key))

    async def get(self, reconciliation_id: str) -> Reconciliation:
        return await self._perform(_get(self._client_id, reconciliation_id))

    def list(self, *, page_size: int | None = None) -> AsyncIterator[Reconciliation]:
        """The newest first, page by page; they are kept 90 days."""
        return every_async(self._perform, _list(self._client_id, page_size))

    async def stop(self, reconciliation_id: str) -> Reconciliation:
        """End it where it is. Else MinutehandApiError: reconciliation-finished."""
        return await self._perform(_stop(self._client_id, reconciliation_id))

    async def wait(
        self,
        reconciliation_id: str,
        *,
        every_seconds: float = EVERY_SECONDS,
        on_progress: Callable[[Reconciliation], None] = lambda found: None,
    ) -> Reconciliation:
        """Look `every_seconds` until it runs no more; `on_progress` is told each time."""
        while (found := await self.get(reconciliation_id)).running:
            on_progress(found)
            await _PACE.sleep_async(every_seconds)
        return found


def _create(
    client_id: str,
    action: str,
    start: datetime | str,
    end: datetime | str,
    states: Sequence[str],
    idempotency_key: str | None,
) -> Operation[Reconciliation]:
    asked: dict[str, Any] = {"from": instant(start), "to": instant(end), "states": states, "action": action}
    return keyed(_path(client_id), Reconciliation, key=idempotency_key, body=msgspec.json.encode(asked))


def _get(client_id: str, reconciliation_id: str) -> Operation[Reconciliation]:
    return Operation(method="GET", path=_path(client_id, reconciliation_id), answer=Reconciliation)


def _list(client_id: str, page_size: int | None) -> Operation[Page[Reconciliation]]:
    query = {} if page_size is None else {"limit": str(page_size)}
    return Operation(method="GET", path=_path(client_id), answer=Page[Reconciliation], query=query)


def _stop(client_id: str, reconciliation_id: str) -> Operation[Reconciliation]:
    return Operation(method="POST", path=f"{_path(client_id, reconciliation_id)}:stop", answer=Reconciliation)


def _path(client_id: str, reconciliation_id: str | None = None) -> str:
    path = f"{client_path(client_id)}/reconciliations"
    return path if reconciliation_id is None else f"{path}/{segment(reconciliation_id)}"
