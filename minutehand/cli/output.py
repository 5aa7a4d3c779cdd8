"""Output of commands: tables for people, JSON for programs, one sentence for errors.

Ids, instants and numbers are copied from tables, so they are never wrapped or cut. On a narrow terminal the columns
that a table names as `yielding` wrap at words; where that is not enough, each row is printed a field a line. Where even
a name and an id don't fit side by side, values are below their names, and what is wider than the terminal is folded. A
file or a pipe gets the whole table, a row a line.

Labels, receivers' answers and error details come from third parties. All output goes through `printable`, so that no
escape sequence in them reaches the terminal.
"""

from collections.abc import Iterable, Iterator, Sequence, Set
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any, NoReturn, TypeVar

import msgspec
import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

T = TypeVar("T")

_UNBOUNDED = 10_000
_GAP = 2
_INSTANT_WIDTH = len("2026-11-21 09:30:15.250Z")
_UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
_WORD_WIDTH = 56
"""Longer words are wrapped where they have to be. `reconciliation_id=` and an id are shorter."""
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
    Console(stderr=True, soft_wrap=True, highlight=False).print(Text(printable(sentence)))
    raise typer.Exit(1)


def at_most(limit: int, found: Iterable[T]) -> tuple[list[T], bool]:
    """The first `limit` items, and whether there are more."""
    listed = list(islice(found, limit + 1))
    return listed[:limit], len(listed) > limit


def print_json(value: Any, *, more: bool = False) -> None:
    """Print one JSON document, with instants in UTC with milliseconds, as the API answers them. JSON permits raw
    control characters from U+007F on in strings: they are escaped too."""
    plain = _plain(msgspec.to_builtins(value, builtin_types=(datetime,)))
    typer.echo(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode().translate(_JSON_ESCAPES))
    _say_whether(more)


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


class RowTable:
    """Rows without borders. Where the console is too narrow for all columns, a field a line, with rows set apart."""

    def __init__(
        self, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, yielding: Set[str] = frozenset()
    ) -> None:
        self._columns = columns
        self.rows = [[Text(show(value)) for value in row] for row in rows]
        cells = list(zip(columns, *([str(text) for text in row] for row in self.rows), strict=True))
        self._full = [max(map(cell_len, column)) for column in cells]
        self._least = [
            max(map(_least, column)) if column[0] in yielding else full
            for column, full in zip(cells, self._full, strict=True)
        ]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        spare = options.max_width - sum(self._least) - _GAP * (len(self._columns) - 1)
        if spare >= 0:
            yield self._table(spare)
            return
        for number, row in enumerate(self.rows):
            if number:
                yield Text()
            yield FieldLines(list(zip(self._columns, row, strict=True)))

    def _table(self, spare: int) -> Table:
        """`spare`: columns of the terminal beyond the least widths; those that need the fewest get theirs first."""
        widths = list(self._least)
        needs = sorted((full - least, at) for at, (full, least) in enumerate(zip(self._full, widths, strict=True)))
        for done, (need, at) in enumerate(needs):
            given = min(need, spare // (len(needs) - done))
            widths[at] += given
            spare -= given
        table = Table(box=None, header_style="bold", pad_edge=False)
        for name, width in zip(self._columns, widths, strict=True):
            table.add_column(name, overflow="fold", width=width)
        for row in self.rows:
            table.add_row(*row)
        return table


class FieldLines:
    """Names and values, side by side where the console is wide enough, else the one below the other."""

    def __init__(self, fields: Sequence[tuple[str, Text]]) -> None:
        self._fields = [(Text(name, style="bold"), value) for name, value in fields]
        self._names = max((cell_len(name) for name, _ in fields), default=0)
        self._least = max((_least(str(value)) for _, value in fields), default=0)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        lines = Table.grid(padding=(0, _GAP))
        if self._names + _GAP + self._least <= options.max_width:
            lines.add_column(no_wrap=True)
            lines.add_column(overflow="fold")
            for name, value in self._fields:
                lines.add_row(name, value)
        else:
            lines.add_column(overflow="fold")
            for line in chain.from_iterable(self._fields):
                lines.add_row(line)
        yield lines


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    yielding: Set[str] = frozenset(),
    more: bool = False,
) -> None:
    """Print a table; without rows, its head and `none`. `more`: it ends at a limit, and there are more."""
    table = RowTable(columns, rows, yielding=yielding)
    console = make_console()
    console.print(table)
    if not table.rows:
        console.print("none")
    _say_whether(more)


def _say_whether(more: bool) -> None:
    if more:
        typer.echo("There are more: see --limit.", err=True)


def print_fields(fields: Iterable[tuple[str, Any]]) -> None:
    """Print names and values line by line, lists with an item a line; fields of None are left out."""
    console = make_console()
    # Programs that read a pipe get the instant alone, as they do from tables.
    now = _now() if console.is_terminal else None
    console.print(FieldLines([(name, _field(value, now)) for name, value in fields if value is not None]))


def _now() -> datetime:
    from scheduler_service.runtime.clock import SystemClock

    return datetime.fromtimestamp(SystemClock().wall_ms() / 1000, UTC)


def _field(value: Any, now: datetime | None) -> Text:
    if isinstance(value, datetime) and now is not None:
        return Text(f"{show(value)} ({', '.join(_beside(value, now))})")
    return Text("\n".join(map(show, value)) if isinstance(value, (list, tuple)) else show(value))


def _least(text: str) -> int:
    """The width at which neither an instant nor a word of the text is wrapped."""
    longest_word = max(map(cell_len, text.split()), default=0)
    return min(cell_len(text), max(_INSTANT_WIDTH, min(longest_word, _WORD_WIDTH)))


def progress(sentence: str) -> None:
    """Say on standard error how far a long command is, where somebody looks on."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    if console.is_terminal:
        console.print(Text(printable(sentence)))


def say(sentence: str) -> None:
    """Print one line of text."""
    make_console().print(Text(printable(sentence)))


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


def make_console() -> Console:
    """A console as wide as the terminal; unbounded for a file or a pipe."""
    console = Console(soft_wrap=True, highlight=False)
    if not console.is_terminal:
        console.width = _UNBOUNDED
    return console
