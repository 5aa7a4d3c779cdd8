"""How many rows are read at a time where nobody knows how long they are: so that one call reads `MAX_BYTES` and little
more, and short rows cost few requests."""

from collections.abc import Callable
from typing import Final, TypeAlias

MAX_BYTES: Final = 4 * 1024 * 1024
"""Of content that one call reads: what goes beyond is less than one step of it."""
FIRST_STEP_ROWS: Final = 16
"""Whose content is read at once to begin with; twice as many each time, while they are short."""
MAX_STEP_ROWS: Final = 128

Told: TypeAlias = Callable[[int, int], None]
"""Is told how many rows were looked at, and how many bytes of content were read."""


def next_step(step: int, *, done: int, read: int) -> int:
    """Rows to read next, 1 at least: the last step was of `step` rows, `done` rows so far had `read` bytes together."""
    fitting = (MAX_BYTES - read) * done // max(read, 1)
    return max(min(2 * step, MAX_STEP_ROWS, fitting), 1)
