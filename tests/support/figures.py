"""Measured figures of tests, printed at the end of the run."""

from collections.abc import Callable

import pytest

FIGURES = "figures"


@pytest.fixture
def show(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """Prints lines of measured figures at the end of the run, also from an xdist worker, whose output is not shown."""
    return lambda *lines: record_property(FIGURES, "\n".join(lines))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in (*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")):
        for name, figures in report.user_properties if report.when == "call" else ():
            if name == FIGURES:
                terminalreporter.write_sep("-", report.nodeid)
                terminalreporter.write_line(figures)
