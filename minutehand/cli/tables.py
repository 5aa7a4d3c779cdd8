"""Tables as wide as the terminal.

Ids, instants and numbers are copied from tables, so they are never wrapped or cut. On a narrow terminal the columns
that a table names as `yielding` wrap at words; where that is not enough, each row is printed a field a line. Where even
a name and an id don't fit side by side, values are below their names, and what is wider than the terminal is folded. A
file or a pipe gets the whole table, a row a line.
"""

from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import chain
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from minutehand.cli.output import show

_GAP = 2
_INSTANT_WIDTH = len("2026-11-21 09:30:15.250Z")
_WORD_WIDTH = 56
"""Longer words are wrapped where they have to be. `reconciliation_id=` and an id are shorter."""


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
            yield FieldLines(list(zip(self._columns, map(str, row), strict=True)))

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

    def __init__(self, fields: Sequence[tuple[str, str]]) -> None:
        self._fields = [(Text(name, style="bold"), Text(value)) for name, value in fields]
        self._names = max((cell_len(name) for name, _ in fields), default=0)
        self._least = max((_least(value) for _, value in fields), default=0)

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


def _least(text: str) -> int:
    """The width at which neither an instant nor a word of the text is wrapped."""
    longest_word = max(map(cell_len, text.split()), default=0)
    return min(cell_len(text), max(_INSTANT_WIDTH, min(longest_word, _WORD_WIDTH)))
