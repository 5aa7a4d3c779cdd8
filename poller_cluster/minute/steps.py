"""What a poller minute asks its shell to do next, one step at a time. Values only."""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from scheduler_service.domain.ids import RowKey, UnixMillis
from scheduler_service.domain.schedules import Definition, Outcome, OwnerCommit, Row


class Phase(Enum):
    """The state of a poller minute; see the table in `minute.machine`."""

    READING = "reading"
    RUNNING = "running"
    SWEEPING = "sweeping"
    SETTLED = "settled"
    DRAINED = "drained"
    LOST = "lost"


OVER = (Phase.SETTLED, Phase.DRAINED, Phase.LOST)


@dataclass(frozen=True, slots=True)
class ReadPage:
    """Read rows after `after`: all columns if `whole`, else those that calling needs; report `page_read`."""

    after: RowKey | None
    whole: bool = False


@dataclass(frozen=True, slots=True)
class SweepPage:
    """Read the columns that settling needs of the rows after `after`; report `page_swept`."""

    after: RowKey | None


@dataclass(frozen=True, slots=True)
class ReadStrays:
    """Read rows by key serially, all columns: the sweep needs more of them. Report `strays_read`."""

    keys: tuple[RowKey, ...]


@dataclass(frozen=True, slots=True)
class ReadHinted:
    """Read rows by key at quorum; report `hinted_read`."""

    keys: tuple[RowKey, ...]


@dataclass(frozen=True, slots=True)
class RecheckRows:
    """Read rows by key serially, after a commit that claimed or ended them and did not test `edits`: their outcomes,
    and the content of those that have a revision; report `rechecked`."""

    keys: tuple[RowKey, ...]


@dataclass(frozen=True, slots=True)
class CheckRows:
    """Of rows about to be claimed, read the originals of retry rows and judge the fires of crons; report
    `rows_checked`."""

    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class OpenPartition:
    """Raise claim_epoch from `expect_epoch`; report `opened`."""

    expect_epoch: int


@dataclass(frozen=True, slots=True)
class WriteCommit:
    """Write the commit; report `committed`. After Unknown the same step comes again."""

    commit: OwnerCommit


@dataclass(frozen=True, slots=True)
class WriteBalance:
    """Every row is accounted for: write the minute's balance; report `settled`."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before `until`, unless an event comes first. None: wait for an event."""

    until: UnixMillis | None


@dataclass(frozen=True, slots=True)
class Stop:
    """The minute is settled, drained or lost; see `phase`."""


Step: TypeAlias = (
    ReadPage
    | SweepPage
    | ReadStrays
    | ReadHinted
    | RecheckRows
    | CheckRows
    | OpenPartition
    | WriteCommit
    | WriteBalance
    | Wait
    | Stop
)


@dataclass(frozen=True, slots=True)
class FollowUp:
    """What a recorded outcome still requires elsewhere: the next retry row of a retrying row, the end of a retry row
    carried to its original, the dead letter of a failed one, the replacement of a rescheduled one. Idempotent; the
    minute settles only after it was acknowledged. `event`: an event tells the client of this end, after all else;
    `on_end`: a receiver of the schedule's own is told of it; `alone`: nothing else is required."""

    definition: Definition
    outcome: Outcome
    event: bool = False
    on_end: bool = False
    alone: bool = False

    @property
    def key(self) -> RowKey:
        return self.definition.key
