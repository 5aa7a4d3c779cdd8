"""How many rows to read at a time when their length is unknown: one call reads little more than `MAX_BYTES`, and short
rows cost few requests."""

from collections.abc import Callable
from typing import Final, TypeAlias

MAX_BYTES: Final = 4 * 1024 * 1024
"""Content that one call reads; it may exceed this by less than one step."""
FIRST_STEP_ROWS: Final = 16
"""Rows whose content is read in the first step; the number doubles with each step while rows are short."""
MAX_STEP_ROWS: Final = 128

HasRead: TypeAlias = Callable[[int, int], None]
"""Called with the number of rows read, and of bytes of content."""


def uncounted(rows: int, size: int) -> None:
    """Of a caller that charges nobody for what is read."""


def next_step(step: int, *, done: int, read: int) -> int:
    """Rows to read next, 1 at least; the last step had `step` rows, and `done` rows so far had `read` bytes in all."""
    fitting = (MAX_BYTES - read) * done // max(read, 1)
    return max(min(2 * step, MAX_STEP_ROWS, fitting), 1)
