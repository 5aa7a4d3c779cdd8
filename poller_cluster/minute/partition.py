"""What the machine of a minute knows of its partition's statics. Bookkeeping; the package's docstring says why it is
right."""

from collections.abc import Iterable
from uuid import UUID

from scheduler_service.domain.ids import Partition, RowKey, ScheduleId
from scheduler_service.domain.schedules import Advance, Row, RowWrite, Statics


class KnownStatics:
    """`fresh` is False until they are read, or read again. `edits_known` False: an edit came that no read of the whole
    partition has shown yet. `doubt`: ids found in `in_flight` that were not ours and are not recorded since."""

    __slots__ = ("claim_epoch", "doubt", "edits", "edits_known", "fresh", "version")

    def __init__(self) -> None:
        self.fresh = False
        self.claim_epoch: int | None = None
        self.version: int | None = None
        self.edits: UUID | None = None
        self.edits_known = True
        self.doubt: frozenset[ScheduleId] = frozenset()

    def read(self, statics: Statics, *, ours: set[ScheduleId]) -> None:
        """The first page of a pass shows them. `ours`: the ids that this machine has claimed."""
        self.fresh = True
        self.claim_epoch, self.version = statics.claim_epoch, statics.version
        self.edits, self.edits_known = statics.edits, True
        self.doubt = statics.in_flight - ours

    def in_doubt(self, row: Row) -> bool:
        """Whether an earlier owner may have sent it."""
        return bool(self.doubt) and row.schedule_id in self.doubt

    def whole_read(self, edits: UUID | None, *, in_doubt: set[ScheduleId]) -> None:
        """A pass is done: `edits` is that of its first page, `in_doubt` are the ids in doubt that it found open."""
        self.edits, self.edits_known = edits, True
        self.doubt &= in_doubt

    def advance(
        self, partition: Partition, *, epoch: int, in_flight: set[ScheduleId], writes: tuple[RowWrite, ...]
    ) -> Advance:
        """The next one, on condition of what is known. Ids in doubt stay in flight until their outcome is recorded."""
        in_doubt = self.doubt - {write.key.schedule_id for write in writes}
        return Advance(
            partition=partition,
            epoch=epoch,
            expect_epoch=self.claim_epoch,
            version=self.version,
            edits=self.edits,
            edits_known=self.edits_known,
            in_flight=in_doubt | in_flight,
            writes=writes,
        )

    def advanced(self, advance: Advance) -> None:
        self.claim_epoch = advance.epoch
        self.version = next_version(advance)
        self.settled(write.key for write in advance.writes)

    def settled(self, keys: Iterable[RowKey]) -> None:
        """These rows have an outcome: nothing of them is in doubt any more."""
        if self.doubt:
            self.doubt -= {key.schedule_id for key in keys}


def next_version(advance: Advance) -> int:
    """The version that this advance writes."""
    return (advance.version or 0) + 1
