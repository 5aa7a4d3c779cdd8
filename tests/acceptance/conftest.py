"""Fixtures of the acceptance tests: whole processes over the session's Cassandra.

Most of their time is waiting, so three workers run them. Tests that bound lateness by a second or two, and tests that
kill what others need, share one worker (`PUNCTUAL`), so that no two of them run at the same time. That worker is the
last to end: a test that needs neither does not belong to it.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler.loadscope import LoadScopeScheduling

from tests.support.cassandra import SuiteCassandra
from tests.support.processes import Deployment, deployment

PUNCTUAL = (
    "test_calls.py::test_ten_thousand_over_two_minutes_all_come_once_and_in_time",
    "test_cluster.py",
    "test_crons.py",
    "test_drain.py",
)
LONG = (
    "test_receivers_down.py",
    "test_three_cassandras.py",
    "test_calls.py",
    "test_secured.py",
    "test_demo.py",
    "test_upgrade.py",
    "test_pages.py",
)
"""Files whose tests take minutes: if begun last, they would run alone."""


def _exists(listed: str) -> bool:
    file, _, test = listed.partition("::")
    path = Path(__file__).with_name(file)
    return path.exists() and (not test or f"\ndef {test}(" in path.read_text(encoding="utf-8"))


assert all(map(_exists, (*PUNCTUAL, *LONG))), "a file or a test has another name by now"


def _is_punctual(nodeid: str) -> bool:
    file, _, test = nodeid.rpartition("/")[2].partition("::")
    return file in PUNCTUAL or f"{file}::{test}" in PUNCTUAL


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = [*(listed.partition("::")[0] for listed in PUNCTUAL), *LONG]

    def turn(item: pytest.Item) -> int:
        file = item.path.name
        return order.index(file, 0 if _is_punctual(item.nodeid) else len(PUNCTUAL)) if file in order else len(order)

    items.sort(key=turn)


class Turns(LoadScopeScheduling):
    """One worker runs all tests of a file, and one worker all punctual tests."""

    def _split_scope(self, nodeid: str) -> str:
        return "punctual" if _is_punctual(nodeid) else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Turns:
    return Turns(config, log)


@pytest.fixture
def cluster(cassandra: SuiteCassandra, tmp_path: Path) -> Iterator[Deployment]:
    """A new keyspace and a receiver; the test starts the API and nodes."""
    with deployment(cassandra, tmp_path) as built:
        yield built
