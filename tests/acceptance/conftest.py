"""What acceptance tests stand on: whole processes over the session's Cassandra."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cassandra import SuiteCassandra
from tests.support.processes import Deployment, deployment


@pytest.fixture
def cluster(cassandra: SuiteCassandra, tmp_path: Path) -> Iterator[Deployment]:
    """A keyspace of one's own and a receiver; API and nodes are the test's to start."""
    with deployment(cassandra, tmp_path) as built:
        yield built
