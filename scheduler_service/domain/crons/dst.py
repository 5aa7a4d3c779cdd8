"""What a cron does where clocks change: the choices of `domain.crons`."""

from dataclasses import dataclass
from typing import Literal

from scheduler_service.domain.errors import InvalidRule

Gap = Literal["shift", "skip"]
Fold = Literal["first", "both"]


@dataclass(frozen=True, slots=True)
class Dst:
    """How to handle fixed times that a change of clocks skips (`gap`) or repeats (`fold`)."""

    gap: Gap = "shift"
    fold: Fold = "first"

    def __post_init__(self) -> None:
        if self.gap not in ("shift", "skip"):
            raise InvalidRule("dst", f"gap is shift or skip, not {self.gap!r:.40}")
        if self.fold not in ("first", "both"):
            raise InvalidRule("dst", f"fold is first or both, not {self.fold!r:.40}")


DEFAULT_DST = Dst()
