"""The three answers of a conditional write.

A conditional write (compare-and-set) is *applied*, *rejected* with the current value, or *unknown*: it timed out or the
connection was lost. Unknown is never read as either of the others. Callers match all three.
"""

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Applied:
    """The conditions held and every assignment of the write took effect."""


@dataclass(frozen=True, slots=True)
class Rejected(Generic[T]):
    """A condition did not hold; nothing of the write took effect. `current` is what the store holds."""

    current: T


@dataclass(frozen=True, slots=True)
class Unknown:
    """No answer came, or one that decides nothing. The write may be applied already, later, or never."""

    reason: str


Answer: TypeAlias = Applied | Rejected[T] | Unknown

APPLIED = Applied()
