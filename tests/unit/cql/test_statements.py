"""The named statements: their files, and the in-memory connection's ability to run every one of them."""

import re
from pathlib import Path

import pytest

import cql
from cql.memory.connection import InMemoryConnection, parse_statement
from cql.memory.grammar import Parser
from cql.migrate import bookkeeping_script, load_migrations
from cql.statement import Statement, load_statements, parse_statements, read_resource, split_script

NAMES = sorted(load_statements())


def test_every_statement_runs_in_memory() -> None:
    assert InMemoryConnection().names == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_statement_is_used(name: str) -> None:
    """A statement that no module uses must be removed."""
    sources = [path.read_text() for path in Path(cql.__file__).parent.glob("*.py")]
    assert any(f'"{name}"' in text for text in sources)


def test_sections_and_comments() -> None:
    found = parse_statements(
        "-- a file\n\n-- name: a.b\n-- why\nSELECT x\n  FROM t;\n-- name: c\nUPDATE t SET a = ? WHERE b = ? IF a = ?;\n"
    )
    assert found == [Statement("a.b", "SELECT x FROM t"), Statement("c", "UPDATE t SET a = ? WHERE b = ? IF a = ?")]
    assert [one.parameters for one in found] == [0, 3]
    assert [one.conditional for one in found] == [False, True]


@pytest.mark.parametrize(
    "source", ["SELECT 1;", "-- name: a\nSELECT 1", "-- name: a\n-- name: b\nSELECT 1;", "-- name: a\nX;\nY;"]
)
def test_unfinished_or_nameless_text_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match=r"semicolon|section"):
        parse_statements(source)


def test_no_statement_filters_or_deletes_rows_of_schedules() -> None:
    for statement in load_statements().values():
        assert "ALLOW FILTERING" not in statement.text
    deletes = [text for text in (one.text for one in load_statements().values()) if text.startswith("DELETE FROM sch")]
    assert deletes == ["DELETE FROM schedules WHERE client_id = ? AND poller_id = ? AND minute = ?"]


def test_outcome_columns_are_only_updated_and_definition_columns_only_inserted() -> None:
    table = {name: Parser(text.text).statement() for name, text in load_statements().items() if "schedules" in name}
    inserted: set[str] = set()
    updated: set[str] = set()
    for name, parsed in table.items():
        if name.startswith("schedules.") and hasattr(parsed, "insert"):
            (inserted if parsed.insert else updated).update(parsed.values)
    assert not inserted & updated
    assert {"state", "claim_epoch", "edits", "in_flight", "version", "rescheduled_to"} <= updated
    assert {"created_at", "body", "origin_due"} <= inserted


def test_every_schema_statement_can_be_repeated() -> None:
    for script in (split_script(read_resource("schema.cql")), *(one.statements for one in load_migrations())):
        assert all(" IF NOT EXISTS " in text or re.match(r"ALTER TABLE \w+ WITH ", text) for text in script)


def test_bookkeeping_tables_have_ids_of_their_keyspace() -> None:
    assert bookkeeping_script("a") == bookkeeping_script("a")
    ids = [text.split("WITH id = ")[1] for keyspace in ("a", "b") for text in bookkeeping_script(keyspace)]
    assert len(set(ids)) == 6


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM t WHERE b = ? ALLOW FILTERING",
        "SELECT COUNT(*) FROM t",
        "INSERT INTO t (a, b) VALUES (?)",
        "TRUNCATE t",
        "UPDATE t SET a = ? WHERE b LIKE ?",
        "SELECT a FROM t WHERE b = ? ORDER BY c",
        "SELECT a FROM t; SELECT b FROM t",
    ],
)
def test_other_forms_of_cql_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|can't read"):
        parse_statement(Statement("x", text))
