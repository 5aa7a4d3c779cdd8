"""A stretch of whole UTC hours that a job looks at. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Window:
    """From `start` up to and without `end`, both at the full hour, in UTC."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        for instant in (self.start, self.end):
            if instant.utcoffset() != timedelta(0) or instant != instant.replace(minute=0, second=0, microsecond=0):
                raise ValueError(f"{instant.isoformat()} is not a full hour in UTC")
        if self.start >= self.end:
            raise ValueError("a window ends after it starts")

    def hours(self) -> Iterator[datetime]:
        """Each hour's first instant."""
        hour = self.start
        while hour < self.end:
            yield hour
            hour += HOUR

    @classmethod
    def of_day(cls, at: float) -> "Window":
        """The day in UTC that begins at `at`, Unix seconds. Raises ValueError where none does."""
        start = datetime.fromtimestamp(at, UTC)
        return cls(start, start + timedelta(days=1))
