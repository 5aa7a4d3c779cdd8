"""Pictures of numbers over time, as SVG without scripts. Pure.

Each picture is drawn from `Bars`, and the template shows the same numbers as a table. Colours are classes of the style
sheet, so they follow light and dark.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

CHART_WIDTH: Final = 720
HEIGHT: Final = 160
MOST_BARS: Final = 200
"""Of so many, each has its own title; of more, their parts are areas."""
_BELOW: Final = 18
_ROOM: Final = HEIGHT - _BELOW - 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """A stacked bar for each step of time. `names`: of the parts, from below, each with a colour by its meaning.
    `values`: for each bar one number a part. `labels`: what each bar is. `marks`: labels shown below some of them, by
    their position. `line`: a limit to draw, with its name. `title`: what a reader who does not see it is told."""

    title: str
    names: Sequence[str]
    colours: Sequence[str] = ("delivered", "failed", "cancelled", "skipped", "open")
    labels: Sequence[str]
    values: Sequence[Sequence[int]]
    marks: Sequence[tuple[int, str]] = ()
    line: tuple[str, int] | None = None

    @property
    def most(self) -> int:
        return max((sum(bar) for bar in self.values), default=0)

    @property
    def top(self) -> int:
        """The value at the upper edge: the highest bar, and the line where it is near. Looks at all bars."""
        near = self.line is not None and self.line[1] <= 3 * max(self.most, 1)
        return max(self.most, self.line[1] if near and self.line is not None else 0, 1)

    @property
    def rows(self) -> list[tuple[str, Sequence[int]]]:
        """The numbers of the bars that are not empty, for the table."""
        return [(label, bar) for label, bar in zip(self.labels, self.values, strict=True) if any(bar)]


def svg(bars: Bars) -> Markup:
    """A picture of 720 to 160, or as wide as it has bars: it is never shown smaller, so that its words stay legible."""
    count = max(len(bars.values), 1)
    wide = max(CHART_WIDTH, count)
    step = wide / count
    width = max(step * 0.8, min(step, 1.0))
    long = " long" if wide > CHART_WIDTH else ""
    size = f'viewBox="0 0 {wide} {HEIGHT}" role="img"'
    top = bars.top
    parts = [f'<svg class="chart{long}" {size} aria-label="{escape(bars.title)}">']
    if count > MOST_BARS:
        parts += _areas(bars, top, step)
    else:
        for at in range(len(bars.values)):
            parts += _stack(bars, top, at, at * step + (step - width) / 2, width)
    if bars.line is not None and bars.line[1] <= top:
        y = HEIGHT - _BELOW - bars.line[1] / top * _ROOM
        parts.append(f'<line class="limit" x1="0" x2="{wide}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{wide}" y="{max(y - 3, 10):.1f}" text-anchor="end">{escape(bars.line[0])}</text>')
    parts.append(f'<line class="ground" x1="0" x2="{wide}" y1="{HEIGHT - _BELOW}" y2="{HEIGHT - _BELOW}"/>')
    for at, text in bars.marks:
        x = min(max((at + 0.5) * step, 16), wide - 16)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 4}" text-anchor="middle">{escape(text)}</text>')
    return Markup("".join([*parts, "</svg>"]))  # noqa: S704 - all texts are escaped above


def _areas(bars: Bars, top: int, step: float) -> list[str]:
    """Many bars as one path for each part. Neighbours of one height are one piece."""
    pieces: list[list[str]] = [[] for _ in bars.names]
    last: list[tuple[float, float, float, float] | None] = [None] * len(bars.names)

    def end(part: int) -> None:
        if (piece := last[part]) is not None:
            x, width, low, high = piece
            pieces[part].append(f"M{x:.4g} {low:.4g}V{high:.4g}h{width:.4g}V{low:.4g}z")
            last[part] = None

    for at, bar in enumerate(bars.values):
        y = float(HEIGHT - _BELOW)
        for part, value in enumerate(bar):
            low, y = y, y - value / top * _ROOM
            # What is there is seen, however little it is.
            shape = (low, min(y, low - 0.75))
            before = last[part]
            if value and before is not None and before[2:] == shape:
                last[part] = (before[0], before[1] + step, *shape)
                continue
            end(part)
            if value:
                last[part] = (at * step, step, *shape)
    for part in range(len(bars.names)):
        end(part)
    return [
        f'<path class="of-{bars.colours[part]}" d="{"".join(found)}"><title>{escape(bars.names[part])}</title></path>'
        for part, found in enumerate(pieces)
        if found
    ]


def _stack(bars: Bars, top: int, at: int, x: float, width: float) -> list[str]:
    bar = bars.values[at]
    if not any(bar):
        return []
    y, rects = float(HEIGHT - _BELOW), []
    for part, value in enumerate(bar):
        high = value / top * _ROOM
        y -= high
        if value:
            size = f'width="{width:.2f}" height="{max(high, 0.75):.2f}"'
            rects.append(f'<rect class="of-{bars.colours[part]}" x="{x:.2f}" y="{y:.2f}" {size}/>')
    said = ", ".join(f"{name} {value:,}" for name, value in zip(bars.names, bar, strict=True) if value)
    return [f"<g><title>{escape(bars.labels[at])}: {escape(said)}</title>", *rects, "</g>"]
