"""The real server accepts every named statement, and our encoding of its values equals the driver's."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio
from cassandra.cluster import ResponseFuture
from cassandra.cqltypes import UUIDType

from cql.connection import UNSET, Item
from cql.memory.connection import InMemoryConnection
from cql.migrate import migrate
from cql.schedule_rows import definition_bytes, definition_item
from cql.session import Session
from cql.settings import StorageSettings
from cql.statement import load_statements
from scheduler_service.domain.errors import ContentTooLarge
from scheduler_service.domain.ids import MINUTE_MS
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.randomness import SystemRandomness
from tests.contract.builders import START, definition
from tests.contract.conftest import real_settings
from tests.support.cassandra import SuiteCassandra, select_text

pytestmark = pytest.mark.asyncio(loop_scope="session")

SAMPLES: dict[str, list[Any]] = {
    "varchar": ["", "plain", "é☃\U0001f600", "x" * 70_000],
    "int": [0, -1, 2**31 - 1, -(2**31)],
    "bigint": [0, -1, 2**63 - 1, -(2**63)],
    "timestamp": [0, -1, 1_700_000_000_123, (1 << 48) - 1],
    "uuid": [UUID(int=0), UUID(int=(1 << 128) - 1)],
    "blob": [b"", bytes(range(256))],
    "boolean": [True, False],
    "double": [0.0, -1.5],
}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def session(cassandra: SuiteCassandra) -> AsyncIterator[Session]:
    randomness = SystemRandomness()
    settings = real_settings(cassandra, f"binding_{randomness.bits(32):08x}")
    await migrate(settings, clock=SystemClock(), randomness=randomness)
    session = await Session.open(settings, keyspace=settings.keyspace)
    await session.prepare(list(load_statements()))
    yield session
    await session.close()


async def test_our_bytes_are_the_drivers(session: Session) -> None:
    compared = 0
    for name, binder in session._binders.items():
        prepared = binder._prepared
        columns = prepared.column_metadata
        assert len(columns) == load_statements()[name].parameters, name
        if any(column.type.typename not in SAMPLES for column in columns):
            continue
        for index in range(4):
            values = tuple((SAMPLES[column.type.typename] * 4)[index] for column in columns)
            bound = prepared.bind(values)
            assert binder.values(values) == bound.values, name
            if index < 3:  # the last text is too long for a key
                assert binder.routing_key(values) == bound.routing_key, name
            compared += 1
    assert compared > 200


async def test_uuids_of_answers_are_made_without_the_drivers_checks(session: Session) -> None:
    answers = [binder._prepared.result_metadata or () for binder in session._binders.values()]
    uuids = {kind.__name__ for columns in answers for *_, kind in columns if issubclass(kind, UUIDType)}
    assert uuids == {"_QuickUuid"}


async def test_none_and_unset_values_are_bound_unchanged(session: Session) -> None:
    binder = session._binders["attempts.insert"]
    values = binder.values(("shop", 0, 0, UUID(int=1), 1, 0, None, UNSET, 1, "x"))
    assert values[6:8] == [None, UNSET]


@pytest.mark.parametrize("wrong", ["text", b"bytes", 1 << 31, 0.5])
async def test_wrong_values_are_refused(session: Session, wrong: object) -> None:
    with pytest.raises(TypeError, match="poller_id int"):
        session._binders["occupied_minutes.delete"].values(("shop", 0, 0, wrong))


async def test_a_wrong_number_of_values_is_refused(session: Session) -> None:
    for values in (("shop",), ("shop", 0, 0, 0, 0)):
        with pytest.raises(ValueError, match="zip"):
            session._binders["occupied_minutes.delete"].bind(values)


async def test_the_memory_tables_have_the_servers_columns(session: Session) -> None:
    rows = await select_text(
        session,
        "SELECT table_name, column_name, type, kind, position FROM system_schema.columns WHERE keyspace_name = %s",
        (session._driver.keyspace,),
    )
    memory = InMemoryConnection().tables
    assert {table for table, *_ in rows} == set(memory)
    for table, column, kind, role, position in rows:
        definition = memory[table].definition
        assert definition.types[column] == kind
        assert (column in definition.statics) == (role == "static")
        keys = {"partition_key": definition.partition_key, "clustering": definition.clustering}
        if role in keys:
            assert keys[role][position] == column


def _batch(rows: int, size: int, pollers: int) -> list[Item]:
    every = {"label": "l", "ordering_key": "k", "cron_id": "c", "nominal_due": START, "origin_due": START}
    definitions = [
        definition("sizes", offset=number, tail=number, poller_id=number % pollers, body=bytes(size), **every)
        for number in range(rows)
    ]
    assert sum(map(definition_bytes, definitions)) <= StorageSettings().group_commit_bytes or pollers == 1
    return [definition_item(one) for one in definitions]


@pytest.mark.parametrize(("rows", "size"), [(90, 0), (50, 400), (9, 4000)])
async def test_a_full_request_over_partitions_is_within_the_servers_limit(
    session: Session, rows: int, size: int
) -> None:
    await session.write_batch(_batch(rows, size, StorageSettings().group_commit_partitions))


async def test_the_largest_write_is_within_the_servers_limit(session: Session) -> None:
    await session.write_batch(_batch(8, 1_000_000, 1))


async def test_a_request_too_large_for_the_server_has_an_error_of_its_own(session: Session) -> None:
    many = [*_batch(90, 0, 10), *_batch(50, 400, 10)]
    huge = _batch(17, 1_000_000, 1)
    for items in (many, huge):
        with pytest.raises(ContentTooLarge):
            await session.write_batch(items)


async def test_an_answer_of_several_pages_is_whole(session: Session) -> None:
    """The driver returns 5,000 rows at a time."""
    wanted = [(minute * MINUTE_MS, poller_id) for minute in range(6) for poller_id in range(1024)]
    for start in range(0, len(wanted), 512):
        rows = wanted[start : start + 512]
        await session.write_batch([("occupied_minutes.insert", ("pages", 0, *row)) for row in rows])
    assert await session.select("occupied_minutes.read", ("pages", 0, 0, 9 * MINUTE_MS)) == wanted
    assert await session.select("occupied_minutes.read", ("pages", 0, 0, MINUTE_MS)) == wanted[:2048]


async def test_finished_requests_leave_no_garbage_cycles(session: Session) -> None:
    """Not even the driver's timers keep them, which run for seconds after the answer."""

    async def one_of_each() -> None:
        await session.write_batch(_batch(2, 0, 2))
        await session.select("occupied_minutes.read", ("kept", 0, 0, MINUTE_MS))
        await session.conditional([("clients.update", (2, 2, "active", "{}", 2, 0, False, "kept", 1))])
        with pytest.raises(ContentTooLarge):
            await session.write_batch(_batch(17, 1_000_000, 1))

    gc.collect()
    gc.disable()
    try:
        for _ in range(8):
            await one_of_each()
        deadline = time.monotonic() + 0.9 * StorageSettings().request_timeout_seconds
        # The driver's thread may still hold the last one.
        while (left := [one for one in gc.get_objects() if type(one) is ResponseFuture]) and (
            time.monotonic() < deadline
        ):
            left.clear()
            await asyncio.sleep(0.01)
        assert left == []
    finally:
        gc.enable()


async def test_the_servers_of_a_partition_are_known(session: Session) -> None:
    one, other = (session.replicas(*definition_item(definition("home", poller_id=poller))) for poller in (0, 1))
    assert one
    if session._cluster.metadata.all_hosts()[1:] == []:
        assert one == other, "one server holds everything"
