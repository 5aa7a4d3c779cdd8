"""Each test runs over the in-memory connection (`make unit`) and over a real Cassandra (`make integration`).

On the real one, tests share a keyspace and are separated by a client_id or node_id from `names`.
"""

import itertools
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from cql.memory.connection import InMemoryConnection
from cql.migrate import migrate
from cql.settings import StorageSettings
from cql.storage import Storage, open_storage
from scheduler_service.domain.ids import ClientId
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.randomness import SystemRandomness
from tests.support.cassandra import SuiteCassandra

_serial = itertools.count()


@dataclass(frozen=True, slots=True)
class Names:
    """Names that no other test uses."""

    stem: str

    def client(self, suffix: str = "") -> ClientId:
        return ClientId(f"{self.stem}{suffix}")


def real_settings(cassandra: SuiteCassandra, keyspace: str) -> StorageSettings:
    return StorageSettings(
        contact_points=cassandra.contact_points,
        port=cassandra.port,
        local_dc=cassandra.datacenter,
        keyspace=keyspace,
        request_timeout_seconds=10,
    )


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def real_storage(cassandra: SuiteCassandra) -> AsyncIterator[Storage]:
    randomness = SystemRandomness()
    settings = real_settings(cassandra, f"contract_{randomness.bits(32):08x}")
    await migrate(settings, clock=SystemClock(), randomness=randomness)
    storage = await open_storage(settings)
    yield storage
    await storage.close()


@pytest.fixture(params=["memory", pytest.param("cassandra", marks=pytest.mark.cassandra)])
def storage(request: pytest.FixtureRequest) -> Iterator[Storage]:
    if request.param == "memory":
        yield Storage.over(InMemoryConnection())
    else:
        yield request.getfixturevalue("real_storage")


@pytest.fixture
def names() -> Names:
    return Names(f"t{SystemRandomness().bits(32):08x}-{next(_serial)}")
