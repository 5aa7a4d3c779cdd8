# Made of ../_async/reconciliations.py by `make sdk`: edit that.
"""A client's reconciliations: create, look at, wait for."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Unpack

from minutehand.client._filters import ContentFilter
from minutehand.client._reconciliations import (
    ReconciledSchedule,
    Reconciliation,
    create_reconciliation,
    get_reconciliation,
    list_reconciled,
    list_reconciliations,
    stop_reconciliation,
)
from minutehand.client._runtime import SystemRuntime
from minutehand.client._sync.parts import Part, every

EVERY_SECONDS = 2.0
_RUNTIME = SystemRuntime()


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
        **filters: Unpack[ContentFilter],
    ) -> Reconciliation:
        """Begin a reconciliation. The cluster works through the window gradually, handling each schedule that matches
        once; `wait` for it, or `get` it later."""
        operation = create_reconciliation(self._client_id, action, start, end, states, filters, idempotency_key)
        return self._perform(operation)

    def get(self, reconciliation_id: str) -> Reconciliation:
        return self._perform(get_reconciliation(self._client_id, reconciliation_id))

    def list(self, *, page_size: int | None = None) -> Iterator[Reconciliation]:
        """The newest first, page by page; they are kept 90 days."""
        return every(self._perform, list_reconciliations(self._client_id, page_size))

    def schedules(
        self, reconciliation_id: str, *, outcome: str | None = None, page_size: int | None = None
    ) -> Iterator[ReconciledSchedule]:
        """What it has done to each schedule so far, by due, page by page: all, or those with this outcome. One whose
        action is report does nothing, and has none."""
        operation = list_reconciled(self._client_id, reconciliation_id, outcome=outcome, page_size=page_size)
        return every(self._perform, operation)

    def stop(self, reconciliation_id: str) -> Reconciliation:
        """Stop it where it is. Raises MinutehandApiError: reconciliation-finished."""
        return self._perform(stop_reconciliation(self._client_id, reconciliation_id))

    def wait(
        self,
        reconciliation_id: str,
        *,
        every_seconds: float = EVERY_SECONDS,
        on_progress: Callable[[Reconciliation], None] = lambda found: None,
    ) -> Reconciliation:
        """Poll every `every_seconds` until it has ended; `on_progress` is called each time."""
        while (found := self.get(reconciliation_id)).running:
            on_progress(found)
            _RUNTIME.sleep(every_seconds)
        return found
