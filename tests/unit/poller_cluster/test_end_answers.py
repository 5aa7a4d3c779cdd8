"""Which answer the notice of an end has."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from poller_cluster.dispatch.job import Job
from poller_cluster.notices.ends import EndNotices
from scheduler_service.domain.end_notices import EndNotice, KeptAnswer
from scheduler_service.domain.ids import Partition, RowKey, UnixMillis, partition_of
from scheduler_service.domain.notices import EVENTS_CLIENT, decode_notice
from scheduler_service.domain.options import ScheduleOptions, encode_options
from scheduler_service.domain.retry_rows import definition_of
from scheduler_service.domain.schedules import Definition, Outcome, State
from tests.support.api import NOW
from tests.support.node_parts import GivenClients
from tests.unit.poller_cluster.claimed import RowOwner, claim, client, result

OPTIONS = encode_options(ScheduleOptions(on_failure="https://book.example/failed"))


class Placed:
    """The writer and the store of the rows of `$events`."""

    def __init__(self) -> None:
        self.rows: dict[RowKey, Definition] = {}

    async def __call__(self, definition: Definition) -> None:
        self.rows[definition.key] = definition

    async def find_rows(self, partition: Partition, keys: Collection[RowKey], **_: Any) -> Mapping[RowKey, Definition]:
        return {key: self.rows[key] for key in keys if key in self.rows}

    def notices(self) -> Sequence[EndNotice]:
        found = [decode_notice(row.body) for row in self.rows.values()]
        return [content for content in found if isinstance(content, EndNotice)]


def failed(status: int, *, epoch: int) -> Outcome:
    return Outcome(
        state=State.FAILED, attempts=1, finished_at=UnixMillis(NOW + 5), last_status=status, fired_epoch=epoch
    )


def test_a_notice_has_no_answer_to_an_attempt_that_another_owner_made_as_well() -> None:
    """A node calls, and loses its poller before it records the end. The next owner makes the same attempt, records and
    tells it. When the first one has the poller again, and the minute is not settled, it tells that end as well."""
    placed = Placed()
    clients = GivenClients(lambda: [client(EVENTS_CLIENT, quota=4)])
    first, second = (
        EndNotices(clients=clients, schedules=placed, writer=placed)  # type: ignore[arg-type]
        for _ in range(2)
    )
    called = claim(options=OPTIONS, kind="told")
    home = partition_of(RowOwner().client_id, called.row.schedule_id)
    definition = definition_of(home, called.row)
    for ends, status, epoch in ((first, 503, 1), (second, 410, 2)):
        answer = KeptAnswer(status=status, headers=(), body=b"")
        ends.attempt_made(
            Job(RowOwner(), called, called.row.due), result(status, answer=answer), failed(status, epoch=epoch)
        )
    asyncio.run(second.tell(definition, failed(410, epoch=2)))
    asyncio.run(first.tell(definition, failed(410, epoch=2)))
    assert [one.answer.status for one in placed.notices() if one.answer is not None] == [410]
