"""Output of commands: tables for people, JSON for programs, one sentence for errors.

Labels, receivers' answers and error details come from third parties. All output goes through `printable`, so that no
escape sequence in them reaches the terminal.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NoReturn, TypeVar

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

T = TypeVar("T")

_UNBOUNDED = 10_000
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
    """Print one JSON document. JSON permits raw control characters from U+007F on in strings: they are escaped too."""
    typer.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode().translate(_JSON_ESCAPES))
    _say_whether(more)


def make_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """A table without borders."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(show(value)) for value in row))
    return table


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, more: bool = False) -> None:
    """Print a table; without rows, its head and `none`. `more`: it ends at a limit, and there are more."""
    table = make_table(columns, rows)
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
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fields:
        if value is None:
            continue
        text = "\n".join(map(show, value)) if isinstance(value, (list, tuple)) else show(value)
        table.add_row(Text(name, style="bold"), Text(text))
    make_console().print(table)


def say(sentence: str) -> None:
    """Print one line of text."""
    make_console().print(Text(printable(sentence)))


def show(value: Any) -> str:
    """A value as people read it."""
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, bool):
        return "yes" if value else "no"
    return printable(str(value)).replace("\n", "\\n")


def make_console() -> Console:
    """A console as wide as the terminal; unbounded for a file or a pipe."""
    console = Console(soft_wrap=True, highlight=False)
    if not console.is_terminal:
        console.width = _UNBOUNDED
    return console
