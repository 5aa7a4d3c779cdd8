"""How far a read of a whole partition has come."""

from uuid import UUID

from scheduler_service.domain.ids import RowKey
from scheduler_service.domain.schedules import Page


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

    def page_read(self, page: Page) -> None:
        if page.rows:
            self.after = page.rows[-1].key
        self.done = not page.more

    def has_passed(self, key: RowKey) -> bool:
        return self.done or (self.after is not None and key <= self.after)
