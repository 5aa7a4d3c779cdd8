"""Migrations only expand: the release before runs on their schema. One that removes something names the migration to
know.

The grammar here is complete for migrations.
"""

import re
from collections.abc import Iterable

import pytest

from cql.migrate import Migration, load_migrations, parse_migration

COLUMN = r"[a-z_]+ [a-z]+(<[a-z, ]+>)?"
EXPANDS = (
    re.compile(r"CREATE TABLE IF NOT EXISTS [a-z_]+ \(.+\)( WITH .+)?"),
    re.compile(rf"ALTER TABLE [a-z_]+ ADD IF NOT EXISTS ({COLUMN}|\({COLUMN}(, {COLUMN})*\))"),
    re.compile(r"ALTER TABLE [a-z_]+ WITH [a-z_]+ = .+"),
)
CONTRACTS = (
    *EXPANDS,
    re.compile(r"DROP TABLE IF EXISTS [a-z_]+"),
    re.compile(r"ALTER TABLE [a-z_]+ DROP IF EXISTS ([a-z_]+|\([a-z_, ]+\))"),
)


def faults(migrations: Iterable[Migration]) -> list[str]:
    """Statements that a migration may not have."""
    return [
        f"{one.version:04} {one.name}: {statement}"
        for one in migrations
        for statement in one.statements
        if not any(form.fullmatch(statement) is not None for form in (EXPANDS if one.must_know is None else CONTRACTS))
    ]


def test_migrations_only_expand() -> None:
    assert faults(load_migrations()) == []


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE IF EXISTS crons",
        "ALTER TABLE crons DROP IF EXISTS wake_at",
        "ALTER TABLE crons RENAME wake_at TO woken_at",
        "ALTER TABLE crons ALTER wake_at TYPE bigint",
        "ALTER TABLE crons ADD wake_at timestamp",
        "CREATE TABLE crons (name text PRIMARY KEY)",
        "TRUNCATE crons",
        "INSERT INTO crons (name) VALUES ('a')",
        "CREATE INDEX IF NOT EXISTS ON crons (wake_at)",
        "DROP KEYSPACE minutehand",
    ],
)
def test_what_does_not_expand_or_cannot_be_repeated_is_found(statement: str) -> None:
    assert faults([parse_migration(9, "narrow", f"-- Why.\n{statement};")]) == [f"0009 narrow: {statement}"]


def test_a_removing_migration_names_the_one_that_programs_must_know() -> None:
    source = "-- Nobody has read it since 0007.\n-- contract: programs must know 0007\nDROP TABLE IF EXISTS crons;"
    migration = parse_migration(9, "no_crons", source)
    assert migration.must_know == 7
    assert faults([migration]) == []
    assert faults([parse_migration(9, "worse", "-- contract: programs must know 0007\nTRUNCATE crons;")])
    with pytest.raises(ValueError, match="must name an earlier one"):
        parse_migration(9, "too_soon", source.replace("0007", "0009"))
