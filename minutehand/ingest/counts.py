"""What one ingest process counts, as plain numbers; `metrics` shows them."""

from dataclasses import dataclass, field
from typing import NamedTuple


class Waiting(NamedTuple):
    """Records wait, `since` then (monotonic seconds), for an answer that decides. `denied`: why there will be none
    before somebody acts."""

    since: float
    denied: str | None


@dataclass(slots=True)
class IngestCounts:
    """Since the start. `records`: by what became of them."""

    records: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("created", "cancelled", "nothing-to-cancel", "dead-letter"), 0)
    )
    repeated_plans: int = 0
    later: dict[str, int] = field(default_factory=lambda: {"denied": 0, "passing": 0})
    assigned: int = 0
    held_bytes: int = 0
    lag: int = 0
    missing_topics: tuple[str, ...] = ()
    """Those that the brokers do not have, by the last look."""
    waiting: dict[str, Waiting] = field(default_factory=dict)
    """By partition."""

    def waiting_now(self) -> dict[str, int]:
        """How many wait, by why."""
        denied = sum(one.denied is not None for one in self.waiting.values())
        return {"denied": denied, "passing": len(self.waiting) - denied}
