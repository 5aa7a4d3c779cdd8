"""Migrations on the real server: the same schema from either source, two runs at once, interrupted runs, stale locks,
faults.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from cql.errors import MigrationFailed, ProgramOutdated, SchemaOutdated, StoreRefused, WrongHome
from cql.migrate import Migration, check_schema, load_migrations, migrate
from cql.session import Session
from cql.settings import StorageSettings
from cql.statement import read_resource, split_script
from cql.storage import open_storage
from membership.errors import StoreUnavailable
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.randomness import SystemRandomness
from tests.contract.conftest import real_settings
from tests.support.cassandra import SuiteCassandra, select_text

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.cassandra]

BOOKKEEPING = {"schema_lock", "schema_migrations", "keyspace_settings"}
FIRST = Migration(1, "first", ("CREATE TABLE IF NOT EXISTS one (a int PRIMARY KEY)",))
SECOND = Migration(
    2, "second", ("CREATE TABLE IF NOT EXISTS two (a int PRIMARY KEY)", "ALTER TABLE one ADD IF NOT EXISTS b text")
)


@pytest.fixture
def settings(cassandra: SuiteCassandra) -> StorageSettings:
    return real_settings(cassandra, f"migrate_{SystemRandomness().bits(32):08x}")


async def run(settings: StorageSettings, migrations: Sequence[Migration] | None = None, **other: Any) -> list[int]:
    applied = await migrate(
        settings, clock=SystemClock(), randomness=SystemRandomness(), migrations=migrations, **other
    )
    return [migration.version for migration in applied]


async def on(settings: StorageSettings, *script: str) -> None:
    session = await Session.open(settings, keyspace=settings.keyspace)
    await session.run_script(script)
    await session.close()


async def tables_of(settings: StorageSettings) -> dict[str, list[tuple[Any, ...]]]:
    """All properties of a table except its id."""
    session = await Session.open(settings, keyspace=None)
    found: dict[str, list[tuple[Any, ...]]] = {}
    for source in (
        "SELECT table_name, column_name, type, kind, position, clustering_order FROM system_schema.columns",
        "SELECT table_name, compaction, default_time_to_live, gc_grace_seconds, flags FROM system_schema.tables",
        "SELECT table_name, index_name FROM system_schema.indexes",
    ):
        for name, *what in await select_text(session, f"{source} WHERE keyspace_name = %s", (settings.keyspace,)):
            found.setdefault(name, []).append(tuple(map(str, what)))
    await session.close()
    return {name: sorted(what) for name, what in found.items() if name not in BOOKKEEPING}


async def test_an_empty_keyspace_gets_the_snapshot_which_the_migrations_equal(settings: StorageSettings) -> None:
    snapshot = replace(settings, keyspace=settings.keyspace + "_snapshot")
    every = [one.version for one in load_migrations()]
    assert await run(settings, load_migrations()) == await run(snapshot) == every
    replayed = await tables_of(settings)
    assert replayed == await tables_of(snapshot)
    assert len(replayed) == 35
    assert await run(snapshot) == []


async def test_tables_without_a_record_are_completed_by_the_migrations(settings: StorageSettings) -> None:
    """An interrupted first run of a program of before leaves tables in their first form, one of this program in their
    last."""
    complete = replace(settings, keyspace=settings.keyspace + "_complete")
    await run(complete)
    await run(settings, [])
    last_form = next(text for text in split_script(read_resource("schema.cql")) if " schedules (" in text)
    first_form = next(text for text in load_migrations()[0].statements if " clients (" in text)
    await on(settings, last_form, first_form)
    assert await run(settings) == [one.version for one in load_migrations()]
    assert await tables_of(settings) == await tables_of(complete)


async def test_two_processes_at_once(settings: StorageSettings) -> None:
    outcomes = await asyncio.gather(*(run(settings, [FIRST, SECOND]) for _ in range(3)))
    assert sorted(outcomes) == [[], [], [1, 2]]
    assert set(await tables_of(settings)) == {"one", "two"}
    assert await run(settings, [FIRST, SECOND]) == []


async def test_a_migration_that_was_cut_short_is_completed(settings: StorageSettings) -> None:
    broken = replace(SECOND, statements=(SECOND.statements[0], "ALTER TABLE missing ADD b text", SECOND.statements[1]))
    with pytest.raises(StoreRefused):
        await run(settings, [FIRST, broken])
    assert set(await tables_of(settings)) == {"one", "two"}
    assert await run(settings, [FIRST, SECOND]) == [2]
    assert any("b" in column for column in (await tables_of(settings))["one"])


async def test_the_lock_of_a_dead_process_is_taken_after_a_while(settings: StorageSettings) -> None:
    await run(settings, [FIRST])
    holder = SystemRandomness().uuid4()
    await on(settings, f"UPDATE schema_lock SET holder = {holder}, beat = 900 WHERE name = 'migrations' IF EXISTS")
    assert await run(settings, [FIRST, SECOND], stale_seconds=1.0) == [2]


async def test_who_lost_the_lock_stops(settings: StorageSettings) -> None:
    await run(settings, [FIRST])
    thief = SystemRandomness().uuid4()
    robbed = Migration(
        2, "robbed", (f"UPDATE schema_lock SET holder = {thief}, beat = 900 WHERE name = 'migrations' IF EXISTS", "x")
    )
    with pytest.raises(MigrationFailed, match="took over"):
        await run(settings, [FIRST, robbed])


async def test_an_edited_migration_is_noticed(settings: StorageSettings) -> None:
    await run(settings, [FIRST])
    edited = replace(FIRST, statements=("CREATE TABLE IF NOT EXISTS other (a int PRIMARY KEY)",))
    with pytest.raises(MigrationFailed, match="other contents"):
        await run(settings, [edited])


async def test_programs_refuse_a_keyspace_that_is_missing_or_behind(settings: StorageSettings) -> None:
    with pytest.raises(SchemaOutdated, match="There is no keyspace"):
        await open_storage(settings)
    await run(settings, [])
    with pytest.raises(SchemaOutdated, match=f"version 0 of {len(load_migrations())}"):
        await open_storage(settings)
    await on(settings, "DROP TABLE schema_migrations")
    with pytest.raises(SchemaOutdated, match="no tables yet"):
        await open_storage(settings)


async def test_programs_run_on_a_keyspace_that_is_ahead(settings: StorageSettings) -> None:
    ahead = Migration(len(load_migrations()) + 1, "ahead", ("ALTER TABLE clients ADD IF NOT EXISTS later text",))
    await run(settings, [*load_migrations(), ahead])
    await (await open_storage(settings)).close()


async def test_programs_refuse_a_keyspace_that_has_given_up_what_they_use(settings: StorageSettings) -> None:
    known = load_migrations()
    last = len(known)
    unused = Migration(last + 1, "later_unused", ())
    contract = Migration(last + 2, "no_later", ("ALTER TABLE clients DROP IF EXISTS later",), must_know=last + 1)
    # It is a contract only for the programs that wrote it, so that it excludes none.
    harmless = Migration(last + 3, "no_earlier", ("DROP TABLE IF EXISTS earlier",), must_know=1)
    await run(settings, [*known, unused])
    await (await open_storage(settings)).close()
    await run(settings, [*known, unused, contract, harmless])
    with pytest.raises(ProgramOutdated, match=f"knows migrations up to {last:04}, and must know {last + 1:04}"):
        await open_storage(settings)
    session = await Session.open(settings, keyspace=settings.keyspace)
    await check_schema(session, settings, needed=last + 1)
    await session.close()


async def test_there_is_one_home_data_centre(settings: StorageSettings) -> None:
    with pytest.raises(WrongHome, match="no data centre 'elsewhere'"):
        await run(replace(settings, local_dc="elsewhere"), [])
    await run(settings)
    await on(settings, "UPDATE keyspace_settings SET value = 'first-home' WHERE name = 'home_datacenter' IF EXISTS")
    for start in (open_storage(settings), run(settings)):
        with pytest.raises(WrongHome, match="first-home"):
            await start


async def test_the_keyspace_is_replicated_as_configured(settings: StorageSettings) -> None:
    with pytest.raises(StoreUnavailable, match="too-few-replicas"):
        await run(replace(settings, replication_factor=9), [])
    session = await Session.open(settings, keyspace=None)
    query = "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = %s"
    ((replication,),) = await select_text(session, query, (settings.keyspace,))
    await session.close()
    assert replication["class"].endswith("NetworkTopologyStrategy")
    assert replication[settings.local_dc] == "9"


async def test_an_unreachable_cluster_is_reported_in_a_sentence(settings: StorageSettings) -> None:
    nobody = replace(settings, contact_points=("127.0.0.1",), port=1, connect_timeout_seconds=1)
    for start in (open_storage(nobody), run(nobody)):
        with pytest.raises(StoreUnavailable, match=r"No Cassandra answers at 127\.0\.0\.1, port 1"):
            await start
