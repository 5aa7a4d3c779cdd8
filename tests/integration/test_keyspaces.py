"""Keyspaces of tests that are used again: empty, and with the form that migrations gave them."""

import asyncio

from cql.migrate import migrate
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.randomness import SystemRandomness
from tests.contract.conftest import real_settings
from tests.support.cassandra import SuiteCassandra, session_of
from tests.support.keyspaces import empty, form_of
from tests.support.processes import drop_keyspace


def test_a_keyspace_is_emptied_whatever_the_time_of_its_rows_and_only_as_migrations_left_it(
    cassandra: SuiteCassandra,
) -> None:
    keyspace = f"used_{SystemRandomness().bits(32):08x}"
    storage = real_settings(cassandra, keyspace)
    asyncio.run(migrate(storage, clock=SystemClock(), randomness=SystemRandomness()))
    form = form_of(storage)
    with session_of(storage.contact_points[0], storage.port) as session:
        session.set_keyspace(keyspace)
        row = "INSERT INTO reconciliation_slots (bucket, client_id, slot) VALUES (1, 'shop', 1)"
        session.execute(f"{row} USING TIMESTAMP {1 << 60}")
        session.execute(f"DELETE FROM pollers USING TIMESTAMP {1 << 60} WHERE client_id = 'shop'")
        assert empty(storage, form)
        assert not list(session.execute("SELECT * FROM reconciliation_slots"))
        session.execute("INSERT INTO pollers (client_id, poller_id) VALUES ('shop', 0)")
        assert list(session.execute("SELECT * FROM pollers"))
        assert form_of(storage) == form
        for change in (
            "DELETE FROM schema_migrations WHERE series = 'minutehand' AND version = 1",
            "ALTER TABLE pollers ADD seen int",
            "ALTER TABLE nodes WITH gc_grace_seconds = 7",
        ):
            session.execute(change)
            assert not empty(storage, form), change
            assert list(session.execute("SELECT * FROM pollers"))
            form = form_of(storage)
    drop_keyspace(storage)
