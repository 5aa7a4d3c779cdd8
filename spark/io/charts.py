"""Charts as PNG files, drawn without a display."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

FAR = 5
"""A line this many times above the fullest minute would flatten all others: it is named in the legend, not drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Calls a minute over time, and the limits to compare them with. `minutes`: ascending instants without a zone, in
    UTC; a missing minute has no calls. `now` separates past from future."""

    file_name: str
    title: str
    minutes: Sequence[datetime]
    calls: Sequence[int]
    lines: Sequence[tuple[str, int]]
    now: datetime


def draw(charts: Sequence[Chart], directory: Path) -> list[Path]:
    """Draw one file for each chart, replaced as a whole. Raises OSError, and ImportError where matplotlib is not
    installed."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
    from matplotlib.figure import Figure

    def days(instants: Sequence[datetime]) -> list[float]:
        return [
            float(date2num(instant))  # type: ignore[no-untyped-call]
            for instant in instants
        ]

    directory.mkdir(parents=True, exist_ok=True)
    made = []
    for chart in charts:
        figure = Figure(figsize=(11, 4), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        # Bars instead of a line, because between two busy minutes there are no calls.
        axes.vlines(days(chart.minutes), 0, chart.calls, color="#1f6f8b", linewidth=1.2, label="calls")
        for (label, height), style in zip(chart.lines, ("-", "--", ":"), strict=False):
            look: dict[str, Any] = {"color": "#b03a2e", "linestyle": style, "linewidth": 1.2}
            if height > FAR * max(chart.calls, default=height):
                axes.plot([], [], label=f"{label}: {height:,}, far above", **look)
            else:
                axes.axhline(height, label=f"{label}: {height:,}", **look)
        axes.axvline(days([chart.now])[0], color="#555555", linewidth=0.8, label="now")
        locator = AutoDateLocator()  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        axes.set_title(chart.title, loc="left")
        axes.set(ylabel="calls a minute", xlabel="UTC")
        axes.set_ylim(bottom=0)
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=4, fontsize="small", frameon=False)
        path = directory / chart.file_name
        part = path.with_suffix(".part")
        figure.savefig(part, format="png", dpi=110, metadata={"Software": None})
        os.replace(part, path)
        made.append(path)
    return made
