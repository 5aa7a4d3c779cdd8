"""Keyspaces that tests on one server use one after another.

To make and drop one costs a server 3 CPU seconds, to empty one a tenth of that. What a test may notice is the same: an
empty keyspace that nobody else uses, with the schema and the records that its migrations left.
"""

from collections.abc import Sequence
from typing import Any

from cql.settings import StorageSettings
from tests.support.cassandra import session_of

BOOKKEEPING = frozenset({"schema_migrations", "schema_lock", "keyspace_settings"})
"""Tables of `bookkeeping.cql`: migrations fill them."""
_FORM = (
    *(f"SELECT * FROM system_schema.{kind} WHERE keyspace_name = %s" for kind in ("keyspaces", "tables", "columns")),
    *(f"SELECT * FROM system_schema.{kind} WHERE keyspace_name = %s" for kind in ("indexes", "views", "types")),
)
_RECORDS = ("schema_migrations", "keyspace_settings")

Form = Sequence[str]
"""A keyspace's schema and the records of its migrations, to be compared with an earlier form of the same keyspace."""


def form_of(storage: StorageSettings) -> Form:
    with session_of(storage.contact_points[0], storage.port) as session:
        return _form(session, storage.keyspace)


def empty(storage: StorageSettings, form: Form) -> bool:
    """Delete all rows that migrations have not written. False, and nothing is done, if the form is another by now."""
    with session_of(storage.contact_points[0], storage.port) as session:
        if _form(session, storage.keyspace) != form:
            return False
        text = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s"
        for table in {row.table_name for row in session.execute(text, (storage.keyspace,))} - BOOKKEEPING:
            session.execute(f"TRUNCATE {storage.keyspace}.{table}")
        return True


def _form(session: Any, keyspace: str) -> Form:
    schema = [row for text in _FORM for row in session.execute(text, (keyspace,))]
    records = [row for table in _RECORDS for row in session.execute(f"SELECT * FROM {keyspace}.{table}")]
    return [str(row) for row in (*schema, *records)]
