"""An admission that holds back no row."""

from collections.abc import Mapping, Sized
from dataclasses import dataclass

from poller_cluster.minute.rows import Again, PendingRow, Verdict, WaitQueue
from scheduler_service.domain.ids import ScheduleId
from scheduler_service.domain.schedules import Outcome, Row, SweptRow


@dataclass(frozen=True, slots=True)
class AdmitAll:
    """An `Admission` that claims every row."""

    def begin(self, held: Mapping[WaitQueue, Sized]) -> None:
        return

    def judge(self, entry: PendingRow, now: int) -> Verdict:
        return None

    def again(self, queue: WaitQueue, first: PendingRow, now: int) -> Again:
        return Again(0)

    def end_of_word(self, entry: PendingRow, now: int) -> Outcome | None:
        return None

    def answered(self) -> None:
        return

    def read(self, row: Row) -> None:
        return

    def in_doubt(self, row: Row) -> None:
        return

    def runs_ahead(self, key: str, schedule_id: ScheduleId, *, limit: int) -> list[ScheduleId]:
        return []

    def is_under_way(self, key: str, schedule_id: ScheduleId, *, at: int) -> None:
        return

    def is_over(self, key: str, schedule_id: ScheduleId, *, redelivered_at: int) -> None:
        return

    def swept(self, row: SweptRow) -> None:
        return

    def recorded(self, row: Row, outcome: Outcome) -> None:
        return

    def waits_for_others(self) -> bool:
        return True

    def wants_whole_read(self) -> bool:
        return False

    def whole_read(self) -> None:
        return
