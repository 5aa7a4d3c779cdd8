"""Tells ends of schedules to the receivers that their `on_success` and `on_failure` name: as rows of `$events`, which
are placed as follow-ups of their outcomes (`minute.follow_ups`).

Answers of receivers are kept from the end of the attempt until the row is placed, `ANSWERS_BYTES` of them on a node;
beyond that the oldest are dropped, and their notices say that the answer is not known. The notice of an end that
another node has recorded says so, too; its row is placed only if that node had not placed it.
"""

from collections import OrderedDict
from typing import Final

from membership.errors import StoreUnavailable
from poller_cluster.clients import ServedClients
from poller_cluster.delivery.result import AttemptResult
from poller_cluster.dispatch.job import Job
from scheduler_service.domain.end_events import event_of_end
from scheduler_service.domain.end_notices import EndNotice, KeptAnswer
from scheduler_service.domain.ids import ScheduleId, key_of, partition_of
from scheduler_service.domain.notices import EVENTS_CLIENT, end_notice_row
from scheduler_service.domain.options import tells_of
from scheduler_service.domain.ports import ScheduleStore
from scheduler_service.domain.schedules import Definition, Outcome, State
from scheduler_service.usecases.schedule_writer import ScheduleWriter

ANSWERS_BYTES: Final = 33_554_432

_End = tuple[ScheduleId, int, int]
"""A schedule, the number of its last attempt, and the fence of that: another owner may have made it, too."""


class EndNotices:
    """Those of one node."""

    def __init__(self, *, clients: ServedClients, schedules: ScheduleStore, writer: ScheduleWriter) -> None:
        self.kept_bytes = 0
        """Of answers that wait for their rows."""
        self._clients = clients
        self._schedules = schedules
        self._writer = writer
        self._answers: OrderedDict[_End, KeptAnswer] = OrderedDict()

    def attempt_made(self, job: Job, result: AttemptResult, outcome: Outcome) -> None:
        """Keep the answer of an attempt that has ended its schedule."""
        row = job.claim.row
        if result.answer is None or tells_of(row.options, outcome.state) is None:
            return
        self._take(key := _end_of(row.schedule_id, outcome))
        self._answers[key] = result.answer
        self.kept_bytes += result.answer.size
        while self.kept_bytes > ANSWERS_BYTES:
            self._take(next(iter(self._answers)))

    async def tell(self, definition: Definition, outcome: Outcome) -> None:
        """Tell of a recorded end; returns when its row is placed, or was before. Raises StoreUnavailable: repeat it."""
        url = tells_of(definition.options, outcome.state)
        end = _end_of(definition.schedule_id, outcome)
        if url is None:
            self._take(end)
            return
        if (events := self._clients.get(EVENTS_CLIENT)) is None:
            raise StoreUnavailable("the built-in client of notices has not been read yet")
        answer = self._answers.get(end)
        content = EndNotice(
            client_id=definition.client_id,
            on="success" if outcome.state is State.DELIVERED else "failure",
            url=url,
            event=event_of_end(definition, outcome),
            letter_poller=definition.poller_id,
            answer=answer,
            answer_known=answer is not None or outcome.last_status is None,
        )
        row = end_notice_row(content, quota=events.quota)
        if not content.answer_known and await self._is_placed(row):
            # An earlier owner knew the answer, and the row must keep it.
            return
        await self._writer(row)
        self._take(end)

    async def _is_placed(self, row: Definition) -> bool:
        home, key = partition_of(row.client_id, row.schedule_id), key_of(row.schedule_id)
        return key in await self._schedules.find_rows(home, [key], serial=True, lean=True)

    def _take(self, end: _End) -> None:
        if (answer := self._answers.pop(end, None)) is not None:
            self.kept_bytes -= answer.size


def _end_of(schedule_id: ScheduleId, outcome: Outcome) -> _End:
    return schedule_id, outcome.attempts, outcome.fired_epoch or 0
