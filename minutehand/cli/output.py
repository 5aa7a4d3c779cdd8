"""Output of commands: tables for people, JSON for programs, one sentence for errors.

Labels, receivers' answers and error details come from third parties. All output goes through `printable`, so that no
escape sequence in them reaches the terminal.

Every command imports this module, also for its help: what is slow to import is imported where it is used.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence, Set
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import typer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

T = TypeVar("T")

_UNBOUNDED = 10_000
_UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
_KEPT = "\t\n"
_CONTROLS = (
    *(code for code in range(0x20) if chr(code) not in _KEPT),
    *range(0x7F, 0xA0),  # DEL and the C1 set, which some terminals interpret like escape sequences
    *(0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)),  # line separators, bidirectional controls
)
_ESCAPES = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _CONTROLS}
_JSON_ESCAPES = {code: f"\\u{code:04x}" for code in _CONTROLS}


def printable(text: str) -> str:
    """The text with control characters, other than tab and newline, as visible escapes."""
    return text.translate(_ESCAPES)


def fail(sentence: str) -> NoReturn:
    """Say why and exit with 1."""
    typer.echo(printable(sentence), err=True)
    raise typer.Exit(1)


def at_most(limit: int, found: Iterable[T]) -> tuple[list[T], bool]:
    """The first `limit` items, and whether there are more."""
    listed = list(islice(found, limit + 1))
    return listed[:limit], len(listed) > limit


def print_json(value: Any, *, more: bool = False) -> None:
    """Print one JSON document, with instants in UTC with milliseconds, as the API answers them. JSON permits raw
    control characters from U+007F on in strings: they are escaped too."""
    _echo_json(value, indent=2)
    _say_whether(more)


def print_json_line(value: Any) -> None:
    """Print one JSON document on a line of its own, in the form of `print_json`: one of a stream of them."""
    _echo_json(value, indent=-1)


def _echo_json(value: Any, *, indent: int) -> None:
    import msgspec

    plain = _plain(msgspec.to_builtins(value, builtin_types=(datetime,)))
    typer.echo(msgspec.json.format(msgspec.json.encode(plain), indent=indent).decode().translate(_JSON_ESCAPES))


def _plain(value: Any) -> Any:
    """A value of msgspec's built-in types with its instants as text."""
    match value:
        case dict():
            return {name: _plain(item) for name, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case datetime():
            return _in_utc(value, separator="T")
        case _:
            return value


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    yielding: Set[str] = frozenset(),
    more: bool = False,
) -> None:
    """Print a table; without rows, its head and `none`. `more`: it ends at a limit, and there are more."""
    from minutehand.cli.tables import RowTable

    table = RowTable(columns, rows, yielding=yielding)
    console = make_console()
    _print(console, table)
    if not table.rows:
        console.print("none")
    _say_whether(more)


def _say_whether(more: bool) -> None:
    if more:
        typer.echo("There are more: see --limit.", err=True)


def print_fields(fields: Iterable[tuple[str, Any]]) -> None:
    """Print names and values line by line, lists with an item a line; fields of None are left out."""
    from minutehand.cli.tables import FieldLines

    console = make_console()
    # Programs that read a pipe get the instant alone, as they do from tables.
    now = _now() if console.is_terminal else None
    _print(console, FieldLines([(name, _field(value, now)) for name, value in fields if value is not None]))


def _print(console: "Console", what: "RenderableType") -> None:
    """Print without the blanks that fill a column: a file or a pipe would keep them."""
    with console.capture() as captured:
        console.print(what)
    lines = captured.get().split("\n")
    typer.echo("\n".join(line.rstrip() for line in lines), nl=False)


def _now() -> datetime:
    from scheduler_service.runtime.clock import SystemClock

    return datetime.fromtimestamp(SystemClock().wall_ms() / 1000, UTC)


def _field(value: Any, now: datetime | None) -> str:
    if isinstance(value, datetime) and now is not None:
        return f"{show(value)} ({', '.join(_beside(value, now))})"
    return "\n".join(map(show, value)) if isinstance(value, (list, tuple)) else show(value)


def progress(sentence: str) -> None:
    """Say on standard error how far a long command is, where somebody looks on."""
    if sys.stderr.isatty():
        typer.echo(printable(sentence), err=True)


def say(sentence: str) -> None:
    """Print one line of text."""
    typer.echo(printable(sentence))


def are(count: int, *, past: bool = False) -> str:
    """A number of things with its verb: 1 is, 2 are; 1 was, 2 were."""
    one, several = ("was", "were") if past else ("is", "are")
    return f"{count:,} {one if count == 1 else several}"


def show(value: Any) -> str:
    """A value as people read it."""
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return _in_utc(value, separator=" ")
    if isinstance(value, bool):
        return "yes" if value else "no"
    return printable(str(value)).replace("\n", "\\n")


def _in_utc(instant: datetime, *, separator: str) -> str:
    return instant.astimezone(UTC).isoformat(sep=separator, timespec="milliseconds").replace("+00:00", "Z")


def _beside(instant: datetime, now: datetime) -> Iterator[str]:
    """How far the instant is away, and the clock's time here, where that is not UTC."""
    away = (instant - now).total_seconds()
    yield f"in {span(away)}" if away >= 0 else f"{span(-away)} ago"
    local = instant.astimezone()
    if local.utcoffset():
        yield local.strftime("%a %H:%M:%S %Z here")


def span(seconds: float) -> str:
    """A length of time in its largest two units, cut to whole ones: 2 h 5 min."""
    left, parts = int(seconds), list[str]()
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count or (unit == "s" and not parts):
            parts.append(f"{count} {unit}")
        elif parts:
            break
    return " ".join(parts[:2])


def make_console() -> "Console":
    """A console as wide as the terminal; unbounded for a file or a pipe."""
    from rich.console import Console

    console = Console(soft_wrap=True, highlight=False)
    if not console.is_terminal:
        console.width = _UNBOUNDED
    return console
