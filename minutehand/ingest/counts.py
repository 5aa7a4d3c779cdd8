"""What one ingest process counts, as plain numbers; `metrics` shows them."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class IngestCounts:
    """Since the start. `records`: by what became of them."""

    records: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("created", "cancelled", "nothing-to-cancel", "dead-letter"), 0)
    )
    repeated_plans: int = 0
    later: dict[str, int] = field(default_factory=lambda: {"denied": 0, "passing": 0})
    assigned: int = 0
    held_records: int = 0
    held_bytes: int = 0
    lag: int = 0
    denied: str | None = None
    """Why the API refuses everything now, if it does."""
    away_since: float | None = None
    """Since when the API has decided nothing, monotonic; None: it does."""
