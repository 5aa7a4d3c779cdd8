"""Every schedule of the world as its callers know it, and the table that reports when its row appears."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from cql.connection import UNSET, AnswerRows, Consistency, Item, Parameters
from cql.destinations import stored_destination_of
from cql.memory.connection import InMemoryConnection
from cql.packed import unpack_content
from cql.statement import load_statements
from membership.conditional import Answer, Applied
from scheduler_service.domain.destinations import StoredDestination
from scheduler_service.domain.ids import ScheduleId
from scheduler_service.domain.options import flow_of
from scheduler_service.domain.retry_rows import key_mark
from scheduler_service.domain.schedule_filters import destination_of
from scheduler_service.domain.schedules import Kind
from tests.simulation.creates import CreateRecord
from tests.simulation.faults import INSERTS

DESTINATION_CHANGES = frozenset(("destinations.write", "destinations.delete"))


@dataclass
class Schedule(CreateRecord):
    """A row of kind `call`. Requests about it are counted when they are sent, whatever the answer."""

    cron_id: str | None = None
    rescheduled_from: UUID | None = None
    key: str | None = None
    """Its schedule key."""
    cancel_wishes: int = 0
    skip_wishes: int = 0
    redeliver_wishes: int = 0
    acknowledged_ms: int = 0
    gone: bool = False
    """Its row was deleted by retention."""
    repeats: int = 0
    """Calls after one that was answered 200 which did not say that they may be repeats."""
    updated: bool = False
    """An update in place was answered: every call is as it says."""
    redelivery_given_up: bool = False
    """A redelivery was not answered and not repeated: it may have begun, and no caller completes it."""


class TellingMemory(InMemoryConnection):
    """Reports every definition that any process inserts, every change of a destination, and every announcement of
    changes.
    """

    def __init__(
        self,
        on_insert: Callable[[dict[str, object]], None],
        *,
        on_destination: Callable[[str, str, StoredDestination | None], None],
        on_announced: Callable[[], None],
    ) -> None:
        super().__init__()
        self._on_insert = on_insert
        self._on_destination = on_destination
        self._on_announced = on_announced
        self._columns: dict[str, list[str]] = {}
        for name in INSERTS:
            found = re.search(r"\(([^)]*)\)", load_statements()[name].text)
            assert found is not None
            self._columns[name] = [column.strip() for column in found[1].split(",")]

    async def write(self, name: str, parameters: Parameters, *, consistency: Consistency = "LOCAL_QUORUM") -> None:
        self._tell([(name, parameters)])
        await super().write(name, parameters, consistency=consistency)
        if name == "catalog.bump":
            self._on_announced()

    async def conditional(self, items: Sequence[Item]) -> Answer[AnswerRows]:
        answer = await super().conditional(items)
        if items[0][0] in DESTINATION_CHANGES and isinstance(answer, Applied):
            *_, client_id, name, _ = items[0][1]
            stored = None
            for row in await self.select("destinations.read", (client_id, name)):
                stored = stored_destination_of(row)
            self._on_destination(str(client_id), str(name), stored)
        return answer

    async def write_batch(self, items: Sequence[Item], *, consistency: Consistency = "LOCAL_QUORUM") -> None:
        self._tell(items)
        await super().write_batch(items, consistency=consistency)

    def _tell(self, items: Sequence[Item]) -> None:
        for name, parameters in items:
            if name in INSERTS:
                values = (None if value is UNSET else value for value in parameters)
                columns = dict(zip(self._columns[name], values, strict=True))
                if columns["kind"] != Kind.RETRY_ROW:
                    self._on_insert(columns)


def schedule_of(columns: dict[str, object]) -> Schedule:
    """The schedule that a row's columns describe."""
    schedule_id = columns["schedule_id"]
    assert isinstance(schedule_id, UUID)
    url, options, content = columns.get("url"), columns.get("options"), columns.get("content")
    if isinstance(content, bytes):
        _, url, *_, options = unpack_content(content)
    mark = key_mark(options) if isinstance(options, str) else None
    return Schedule(
        client_id=columns["client_id"],  # type: ignore[arg-type]
        schedule_id=ScheduleId(schedule_id),
        due=columns["due"],  # type: ignore[arg-type]
        ordering_key=columns["ordering_key"],  # type: ignore[arg-type]
        cron_id=columns["cron_id"],  # type: ignore[arg-type]
        rescheduled_from=columns["rescheduled_from"],  # type: ignore[arg-type]
        key=None if mark is None else mark.name,
        flow=flow_of(options) if isinstance(options, str) else None,
        destination=destination_of(url) if isinstance(url, str) else None,
    )
