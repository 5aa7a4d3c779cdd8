"""The in-memory connection refuses what the real one would refuse, so that tests on it are valid."""

from typing import Any
from uuid import UUID

import pytest

from cql.connection import UNSET, Item
from cql.memory.connection import InMemoryConnection
from membership.conditional import APPLIED, Rejected

KEY = ("shop", 0, 60_000)
ROW = (*KEY, 60_001, UUID(int=1))
NOTHING = (UNSET,) * 13
OPEN: Item = ("schedules.open", (1, *KEY, None))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("occupied_minutes.insert", ("shop", 0, 0, 1 << 31)),
        ("occupied_minutes.insert", ("shop", 0, 0, True)),
        ("occupied_minutes.insert", (b"shop", 0, 0, 0)),
        ("occupied_minutes.insert", ("shop", 0.5, 0, 0)),
        ("nodes.write", ("c", "n", 1, 1, "live", "a", 1, "v", 1, 1, 1, 1)),
        ("api_keys.insert", ("k", "o", False, "text", 1)),
        ("api_keys.revoke", (1 << 63, "k")),
    ],
)
async def test_values_of_the_wrong_type(name: str, parameters: tuple[Any, ...]) -> None:
    connection = InMemoryConnection()
    with pytest.raises(TypeError, match="can't hold"):
        await connection.write(name, parameters)
    assert not any(connection.rows(table) for table in connection.tables)


@pytest.mark.parametrize("missing", [None, UNSET])
async def test_keys_are_never_null(missing: object) -> None:
    with pytest.raises(ValueError, match="null"):
        await InMemoryConnection().write("occupied_minutes.insert", ("shop", missing, 0, 0))


async def test_unknown_statements() -> None:
    with pytest.raises(KeyError):
        await InMemoryConnection().select("schedules.read_everything", ())


async def test_conditional_and_plain_writes_are_not_mixed_up() -> None:
    connection = InMemoryConnection()
    with pytest.raises(ValueError, match="calls of their own"):
        await connection.write(*OPEN)
    with pytest.raises(ValueError, match="calls of their own"):
        await connection.write_batch([OPEN])
    with pytest.raises(ValueError, match="calls of their own"):
        await connection.conditional([("schedules.delete_partition", KEY)])
    with pytest.raises(ValueError, match="writes nothing"):
        await connection.write("schedules.read_header", KEY)
    with pytest.raises(ValueError, match="not a SELECT"):
        await connection.select("schedules.delete_partition", KEY)


async def test_a_conditional_batch_has_one_partition() -> None:
    connection = InMemoryConnection()
    elsewhere: Item = ("schedules.open", (1, "shop", 1, 60_000, None))
    with pytest.raises(ValueError, match="one partition"):
        await connection.conditional([OPEN, elsewhere])
    assert connection.rows("schedules") == []


async def test_a_bad_value_late_in_a_batch_leaves_nothing_behind() -> None:
    connection = InMemoryConnection()
    bad: Item = ("schedules.write_outcome", (*NOTHING[:10], "not a uuid", *NOTHING[11:], *ROW))
    with pytest.raises(TypeError):
        await connection.conditional([OPEN, bad])
    assert await connection.select("schedules.read_header", KEY) == []


async def test_conditions_are_not_unset() -> None:
    with pytest.raises(ValueError, match="unset"):
        await InMemoryConnection().conditional([("schedules.open", (1, *KEY, UNSET))])


async def test_a_row_without_marker_ends_with_its_last_cell() -> None:
    connection = InMemoryConnection()
    names = ("schedules.write_outcome_if_state", "schedules.write_outcome_if_pointing_at")
    assert await connection.conditional([(names[0], ("retrying", *NOTHING[1:], *ROW, None))]) == APPLIED
    assert len(connection.rows("schedules")) == 1
    assert await connection.conditional([(names[0], (None, *NOTHING[1:], *ROW, "retrying"))]) == APPLIED
    assert connection.rows("schedules") == []


async def test_a_rejection_shows_tested_columns_only() -> None:
    connection = InMemoryConnection()
    assert await connection.conditional([OPEN]) == APPLIED
    met = {"claim_epoch": 1, "version": None, "edits": None, "in_flight": None}
    assert await connection.conditional([OPEN]) == Rejected([met])
    renewal: Item = ("lives.renew", (1, "n", 1, 0))
    assert await connection.conditional([renewal]) == Rejected([])
