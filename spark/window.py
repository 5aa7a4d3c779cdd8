"""A window of whole UTC hours, and the arguments that several jobs share. Pure."""

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Window:
    """From `start` to before `end`, both at the full hour, in UTC."""

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
        """The day in UTC that begins at `at`, Unix seconds. Raises ValueError unless a day begins there."""
        start = datetime.fromtimestamp(at, UTC)
        return cls(start, start + timedelta(days=1))


def add_window(parser: ArgumentParser) -> None:
    """`--from` and `--to`: full hours in UTC. Read them with `spark.window.Window`."""
    parser.add_argument("--from", dest="start", type=hour, required=True, metavar="HOUR", help="first hour, RFC 3339")
    parser.add_argument("--to", dest="end", type=hour, required=True, metavar="HOUR", help="end, exclusive")


def add_clients(parser: ArgumentParser) -> None:
    """`--client`, repeatable; none: all of them."""
    parser.add_argument("--client", dest="clients", action="append", default=[], metavar="ID", help="only this one")


def hour(text: str) -> datetime:
    """The full hour that `text` names, in UTC. A date alone is its first hour."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} is no instant; write 2026-11-21T09:00Z") from error
    instant = instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)
    if instant != instant.replace(minute=0, second=0, microsecond=0):
        raise ArgumentTypeError(f"{text!r} is no full hour")
    return instant


def day(text: str) -> datetime:
    """The first instant of a day in UTC."""
    instant = hour(text)
    if instant - instant.replace(hour=0) != timedelta(0):
        raise ArgumentTypeError(f"{text!r} is no day; write 2026-11-21")
    return instant
