"""What the machine of a minute knows of its partition: the header, and how far it has been read."""

from collections.abc import Iterable
from uuid import UUID

from scheduler_service.domain.ids import Partition, RowKey, ScheduleId
from scheduler_service.domain.schedules import OwnerCommit, Page, PartitionHeader, Row, RowWrite, SweptPage

HINTED_ROWS = 1_000
"""The most rows of a minute that wait to be read by key; if there are more, the whole minute is read again."""


class KnownHeader:
    """The header of the partition as the machine knows it. `poller_cluster` has the rules.

    `fresh` is False until the header is read, or read again. `edits_known` False: there was an external update that no
    read of the whole partition has shown yet. `doubt`: ids found in `in_flight` that this machine had not claimed and
    whose outcome is not recorded yet.
    """

    __slots__ = ("claim_epoch", "doubt", "edits", "edits_known", "fresh", "version")

    def __init__(self) -> None:
        self.fresh = False
        self.claim_epoch: int | None = None
        self.version: int | None = None
        self.edits: UUID | None = None
        self.edits_known = True
        self.doubt: frozenset[ScheduleId] = frozenset()

    def read(self, header: PartitionHeader, *, ours: set[ScheduleId]) -> None:
        """The header that the first page of a scan shows. `ours`: the ids that this machine has claimed."""
        self.fresh = True
        self.claim_epoch, self.version = header.claim_epoch, header.version
        self.edits, self.edits_known = header.edits, True
        self.doubt = header.in_flight - ours

    def in_doubt(self, row: Row) -> bool:
        """Whether an earlier owner may have sent this row."""
        return bool(self.doubt) and row.schedule_id in self.doubt

    def whole_read(self, edits: UUID | None, *, in_doubt: set[ScheduleId]) -> None:
        """A scan is complete: `edits` is that of its first page, `in_doubt` are the ids in doubt that it found open."""
        self.edits, self.edits_known = edits, True
        self.doubt &= in_doubt

    def commit(
        self, partition: Partition, *, epoch: int, in_flight: set[ScheduleId], writes: tuple[RowWrite, ...]
    ) -> OwnerCommit:
        """The next commit, conditional on the header as known. Ids in doubt stay in flight until their outcome is
        recorded."""
        in_doubt = self.doubt - {write.key.schedule_id for write in writes}
        return OwnerCommit(
            partition=partition,
            epoch=epoch,
            expect_epoch=self.claim_epoch,
            version=self.version,
            edits=self.edits,
            edits_known=self.edits_known,
            in_flight=in_doubt | in_flight,
            writes=writes,
        )

    def committed(self, commit: OwnerCommit) -> None:
        self.claim_epoch = commit.epoch
        self.version = next_version(commit)
        self.settled(write.key for write in commit.writes)

    def settled(self, keys: Iterable[RowKey]) -> None:
        """These rows have an outcome, so they are not in doubt any more."""
        if self.doubt:
            self.doubt -= {key.schedule_id for key in keys}


def next_version(commit: OwnerCommit) -> int:
    """The version that this commit writes."""
    return (commit.version or 0) + 1


class PartitionScan:
    """A read of the whole partition, page by page from the start. `edits` is that of its first page."""

    __slots__ = ("after", "begun", "done", "edits")

    def __init__(self) -> None:
        self.begun = False
        self.done = False
        self.after: RowKey | None = None
        self.edits: UUID | None = None

    def begin(self, edits: UUID | None) -> None:
        self.begun, self.edits = True, edits

    def page_read(self, page: Page | SweptPage) -> None:
        if page.rows:
            self.after = page.rows[-1].key
        self.done = not page.more

    def has_passed(self, key: RowKey) -> bool:
        return self.done or (self.after is not None and key <= self.after)


class RescanThrottle:
    """Limits the whole reads of a minute that hints ask for. Requests are merged into one read, which begins at least
    `apart_ms` after the last one ended, and at least as long after it as it took: so a flood of rows keeps a minute
    reading for at most half of the time. `wanted`: a whole read was asked for, and none has begun since."""

    __slots__ = ("_apart_ms", "_began", "_rested", "wanted")

    def __init__(self, *, apart_ms: int) -> None:
        self.wanted = False
        self._apart_ms = apart_ms
        self._began: int | None = None
        self._rested: int | None = None

    def begins(self, now: int | None = None) -> None:
        """A whole read begins; `now` is given if it is one that was asked for."""
        self.wanted, self._began, self._rested = False, now, None

    def due_at(self, now: int) -> int:
        """When the next read may begin. May be called only while none is under way: the first call after a read is
        taken for its end."""
        if self._rested is None:
            took = 0 if self._began is None else now - self._began
            self._rested = now + max(self._apart_ms, took)
        return self._rested
