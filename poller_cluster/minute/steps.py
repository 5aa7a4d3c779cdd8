"""What a poller minute asks its shell to do next, one step at a time. Values only."""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from scheduler_service.domain.ids import RowKey, UnixMillis
from scheduler_service.domain.schedules import Definition, Outcome, OwnerCommit, Row


class Phase(Enum):
    """Where a poller minute is."""

    READING = "reading"
    RUNNING = "running"
    SWEEPING = "sweeping"
    SETTLED = "settled"
    DRAINED = "drained"
    LOST = "lost"


OVER = (Phase.SETTLED, Phase.DRAINED, Phase.LOST)


@dataclass(frozen=True, slots=True)
class ReadPage:
    """Read rows behind `after`, `whole` or as far as calling takes them; report `page_read`."""

    after: RowKey | None
    whole: bool = False


@dataclass(frozen=True, slots=True)
class SweepPage:
    """Read what settling takes of the rows behind `after`; report `page_swept`."""

    after: RowKey | None


@dataclass(frozen=True, slots=True)
class ReadStrays:
    """Read rows by key serially and whole: the sweep needs more of them. Report `strays_read`."""

    keys: tuple[RowKey, ...]


@dataclass(frozen=True, slots=True)
class ReadHinted:
    """Read rows by key at quorum; report `hinted_read`."""

    keys: tuple[RowKey, ...]


@dataclass(frozen=True, slots=True)
class RecheckClaimed:
    """Read rows by key serially, after a claim that did not test `edits`; report `claims_rechecked`."""

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
    """Write it; report `advanced`. After Unknown the very same step comes again."""

    commit: OwnerCommit


@dataclass(frozen=True, slots=True)
class WriteBalance:
    """Every row is accounted for: write the minute's balance; report `settled`."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before `until`, unless an event comes first. None: only an event can help."""

    until: UnixMillis | None


@dataclass(frozen=True, slots=True)
class Stop:
    """The minute is settled, drained or lost; see `phase`."""


Step: TypeAlias = (
    ReadPage
    | SweepPage
    | ReadStrays
    | ReadHinted
    | RecheckClaimed
    | CheckRows
    | OpenPartition
    | WriteCommit
    | WriteBalance
    | Wait
    | Stop
)


@dataclass(frozen=True, slots=True)
class FollowUp:
    """What a recorded outcome still owes other partitions: the next retry row of a retrying one, for a retry row the
    news to its original, a dead letter for what failed, for a rescheduled row the one that replaces it. Repeatable; the
    minute settles only after it was acknowledged."""

    definition: Definition
    outcome: Outcome

    @property
    def key(self) -> RowKey:
        return self.definition.key
