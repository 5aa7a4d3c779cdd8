"""Fixtures of the acceptance tests: whole processes over the session's Cassandra.

Most of their time is waiting, so three workers run them. Tests that bound lateness by a second or two, and tests that
kill what others need, share one worker (`PUNCTUAL`), so that no two of them run at the same time.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler.loadscope import LoadScopeScheduling

from tests.support.cassandra import SuiteCassandra
from tests.support.processes import Deployment, deployment

PUNCTUAL = ("test_calls.py", "test_cluster.py", "test_crons.py", "test_drain.py")
LONG = ("test_receivers_down.py", "test_three_cassandras.py")
"""Files with one test that takes minutes: if begun last, it would run alone."""
FIGURES = "figures"
assert all(Path(__file__).with_name(name).exists() for name in (*PUNCTUAL, *LONG)), "a file has another name by now"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = (*PUNCTUAL, *LONG)
    items.sort(key=lambda item: order.index(item.path.name) if item.path.name in order else len(order))


class Turns(LoadScopeScheduling):
    """One worker runs all tests of a file, and one worker those of all punctual files."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "punctual" if Path(file).name in PUNCTUAL else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Turns:
    return Turns(config, log)


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


@pytest.fixture
def cluster(cassandra: SuiteCassandra, tmp_path: Path) -> Iterator[Deployment]:
    """A new keyspace and a receiver; the test starts the API and nodes."""
    with deployment(cassandra, tmp_path) as built:
        yield built
