"""What a minute's machine asks before it claims a row, and tells of what it read and recorded: `minute.admission`."""

from collections.abc import Mapping, Sized
from dataclasses import dataclass
from typing import Protocol

from poller_cluster.minute.rows import Again, Judge, Line, OpenRow, Verdict
from scheduler_service.domain.schedules import Outcome, Row, SweptRow


class Admission(Judge, Protocol):
    """Judges rows by what it is told."""

    def answered(self) -> None:
        """No claim is under way any more: the rows judged to be claimed were handed out, or wait again."""

    def read(self, row: Row) -> None:
        """A row of the partition, or the original of one, as read. A row without an ordering key may be left out: order
        is all that is kept of it."""

    def swept(self, row: SweptRow) -> None:
        """A row with an outcome, as a sweep reads it; without an ordering key it may be left out. It owes nothing, or
        what it owes is known: it was recorded or read before."""

    def recorded(self, row: Row, outcome: Outcome) -> None:
        """An outcome of ours was recorded."""

    def wants_whole_read(self) -> bool:
        """Whether rows held for their keys wait for the partition to be read to its end."""

    def whole_read(self) -> None:
        """The partition was read to its end."""


@dataclass(frozen=True, slots=True)
class AdmitAll:
    """No limits but the client's."""

    def begin(self, held: Mapping[Line, Sized]) -> None:
        return

    def judge(self, entry: OpenRow, now: int) -> Verdict:
        return None

    def again(self, line: Line, first: OpenRow, now: int) -> Again:
        return Again(0)

    def answered(self) -> None:
        return

    def read(self, row: Row) -> None:
        return

    def swept(self, row: SweptRow) -> None:
        return

    def recorded(self, row: Row, outcome: Outcome) -> None:
        return

    def wants_whole_read(self) -> bool:
        return False

    def whole_read(self) -> None:
        return


ADMIT_ALL = AdmitAll()
