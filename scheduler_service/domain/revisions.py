"""Revisions of a schedule's row: content and label that replace those it was created with. Pure.

The columns of a definition never change, because repeats of its create write them again. An update in place writes two
columns of its own, by a conditional write: `revised` has the content, `revision` the rest, a text:

    number made_by label          2 6f0d93c14be8a2751c,e2b7704d1f9c03568a expiry

`number` counts revisions. `made_by` names the requests that made the last ones, oldest first, so that a repeat whose
first answer was lost is recognised. Without a label the text ends before it. A row with a `revision` has both columns.

A row that is claimed, retrying or ended is never revised, so a retry row has the content of its original for good. A
writer that copies the content of a waiting row tests its `revision` in the same write (`domain.schedules.RowWrite`).
The external update of a revision changes `edits`, so an owner calls the old content or the new one (`poller_cluster`,
rule 2).
`tests.models.revisions` has all rules, and shows what goes wrong without each.
"""

import hashlib
from typing import NamedTuple
from uuid import UUID

MAKERS_KEPT = 8
"""Revisions whose requests are remembered."""
REVISED_SINCE = 21
"""The migration since which programs know revisions. Older ones call what a schedule was created with."""

_NAME_BYTES = 9


class Revision(NamedTuple):
    """Number 0 is what the schedule was created with."""

    number: int
    made_by: tuple[str, ...]
    label: str | None

    @property
    def text(self) -> str:
        told = f"{self.number} {','.join(self.made_by)}"
        return told if self.label is None else f"{told} {self.label}"

    def maker_of(self, number: int) -> str | None:
        """Who made this revision, where that is remembered."""
        behind = self.number - number
        return self.made_by[-1 - behind] if 0 <= behind < len(self.made_by) else None

    def following(self, made_by: str, *, label: str | None) -> "Revision":
        return Revision(self.number + 1, (*self.made_by, made_by)[-MAKERS_KEPT:], label)


CREATED = Revision(0, (), None)


def revision_of(text: str | None) -> Revision:
    """The revision that a row's column tells; its label counts only from number 1 on."""
    if text is None:
        return CREATED
    number, made_by, *label = text.split(" ", 2)
    return Revision(int(number), tuple(made_by.split(",")), label[0] if label else None)


def label_of(text: str) -> str | None:
    """The label in a row's column."""
    _, _, *label = text.split(" ", 2)
    return label[0] if label else None


def entity_tag(schedule_id: UUID, text: str | None) -> str:
    """Names a schedule as it is revised now (`preconditions`)."""
    return str(schedule_id) if text is None else f"{schedule_id}-{revision_of(text).number}"


def newer(text: str | None, other: str | None) -> bool:
    """Whether the one revision is later than the other of the same row."""
    return text != other and revision_of(text).number > revision_of(other).number


def maker(*asked: bytes) -> str:
    """The name of a request in `made_by`: equal for equal requests."""
    return hashlib.blake2b(b"\0".join(asked), digest_size=_NAME_BYTES).hexdigest()
