"""Draws the curves of the phase `scale` into a PNG file, without a display."""

import os
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.bench.phases import Figures
from tests.bench.show import cost_of

LINES = (("creates", "#1f6f8b"), ("calls", "#b03a2e"))


def draw(found: Figures, path: Path) -> None:
    """CPU of all processes per 1,000, as in the table, one panel for each axis; the file is replaced as a whole. Raises
    ImportError where matplotlib, which comes with the Spark jobs' requirements, is not installed.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    axes = [(axis, list(points)) for axis, points in groupby(found["points"], key=lambda point: point["axis"])]
    figure = Figure(figsize=(3.2 * len(axes), 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    panels: Any = figure.subplots(1, len(axes), sharey=True, squeeze=False)[0]
    for panel, (axis, points) in zip(panels, axes, strict=True):
        # Sizes grow by factors: each step has the same width, as on a logarithmic scale.
        steps = range(len(points))
        for kind, colour in LINES:
            heights = [cost_of(point, kind) for point in points]
            panel.plot(steps, heights, color=colour, marker="o", markersize=3, linewidth=1.2, label=kind)
        panel.set_xticks(list(steps), [point["name"] for point in points])
        panel.set_title(axis, loc="left")
    panels[0].set_ylabel("CPU seconds per 1,000,\nwithout compiling")
    panels[0].set_ylim(bottom=0)
    panels[0].legend(frameon=False, fontsize="small")
    part = path.with_suffix(".part")
    figure.savefig(part, format="png", dpi=110, metadata={"Software": None})
    os.replace(part, path)
