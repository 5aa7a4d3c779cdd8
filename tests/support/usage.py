"""Rows of `usage_by_day` as the Spark job writes them; no other program does."""

import json

import msgspec

from cql.connection import Connection
from cql.cron_rows import months
from cql.memory.connection import InMemoryConnection
from cql.session import Session
from scheduler_service.domain.usage import DayUsage


async def put_usage(connection: Connection, usage: DayUsage) -> None:
    """Write one day, on the in-memory connection or the driver's."""
    columns = msgspec.to_builtins(usage)
    columns |= {name: json.dumps(columns[name]) for name in ("failing_hosts", "hours")}
    columns["month"] = next(months(usage.day, usage.day))
    if isinstance(connection, InMemoryConnection):
        table = connection.tables["usage_by_day"]
        keys = [(*map(columns.pop, names),) for names in (table.definition.partition_key, table.definition.clustering)]
        cells = [(table.regular_position[name], table.check(name, value)) for name, value in columns.items()]
        table.write(*keys, statics=(), cells=cells, marker=True)
        return
    assert isinstance(connection, Session)
    await connection.run_script([f"INSERT INTO usage_by_day JSON '{json.dumps(columns)}'"])
