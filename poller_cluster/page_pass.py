"""How far a read of a whole partition has come, and when the next one may begin."""

from uuid import UUID

from scheduler_service.domain.ids import RowKey
from scheduler_service.domain.schedules import Page, SweptPage

HINTED_ROWS = 1_000
"""Rows of a minute that wait to be read by key; where there would be more, it is read anew."""


class Pass:
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


class Anew:
    """A whole read that was asked for on top of those every minute has. However often it is asked for, it is one; and
    it begins no sooner than `apart_ms` after the last one has ended, or as long as that one took: so a flood of rows
    costs at most half of a minute's time in reads. `wanted` is False once any whole read has begun since."""

    __slots__ = ("_apart_ms", "_began", "_rested", "wanted")

    def __init__(self, *, apart_ms: int) -> None:
        self.wanted = False
        self._apart_ms = apart_ms
        self._began: int | None = None
        self._rested: int | None = None

    def begins(self, now: int | None = None) -> None:
        """A whole read begins, at `now` where it is one that was asked for."""
        self.wanted, self._began, self._rested = False, now, None

    def due_at(self, now: int) -> int:
        """When the next one may begin. Asked only while none is under way: the last one has ended when it is asked
        first."""
        if self._rested is None:
            took = 0 if self._began is None else now - self._began
            self._rested = now + max(self._apart_ms, took)
        return self._rested
