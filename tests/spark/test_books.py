"""Counts from rows, and their comparison with a stored balance."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark.transforms import books
from tests.spark.frames import at, found, frame

ROWS = (
    "client_id string, poller_id int, minute timestamp, kind string, created_at timestamp, state string, "
    "version bigint, edits string, settled boolean"
)
COUNTED = (
    "client_id string, poller_id int, minute timestamp, settled boolean, accepted bigint, delivered bigint, "
    "failed bigint, cancelled bigint, skipped bigint, open bigint, version bigint, edits string, stamps bigint"
)
STORED = (
    "client_id string, poller_id int, minute timestamp, accepted int, delivered int, failed int, cancelled int, "
    "skipped int, open int, version bigint, edits string"
)


def row(state: str | None, *, minute: float = 0, **other: Any) -> dict[str, Any]:
    whole = {"client_id": "shop", "poller_id": 1, "minute": at(minute), "kind": "call", "created_at": at(-9)}
    return {**whole, "state": state, "version": 7, "settled": True, **other}


def test_what_became_of_each_minute(spark: SparkSession) -> None:
    states = [None, "retrying", "delivered", "delivered", "failed", "cancelled", "skipped", "done"]
    rows = frame(
        spark,
        ROWS,
        [
            *(row(state) for state in states),
            row("delivered", kind="copy"),
            row("cancelled", kind=None, created_at=None),
            row("delivered", minute=60, version=1, settled=False),
            row("failed", minute=60, version=2, settled=False),
            row("failed", client_id="other", version=None, edits="e"),
        ],
    )
    counts = books.counted(rows)
    assert counts.columns == [column.split()[0] for column in COUNTED.split(", ")]
    assert {one[:9] for one in found(counts.where("stamps = 2"))} == {("shop", 1, 60, False, 2, 1, 1, 0, 0)}
    assert found(counts.where("stamps = 1")) == {
        ("shop", 1, 0, True, 8, 2, 1, 1, 1, 2, 7, None, 1),
        ("other", 1, 0, True, 1, 0, 1, 0, 0, 0, None, "e", 1),
    }
    assert found(books.totals(counts)) == {("shop", 10, 3, 2, 1, 1, 2), ("other", 1, 0, 1, 0, 0, 0)}


def part(minute: float, *, accepted: int = 5, delivered: int = 5, open_: int = 0, **other: Any) -> dict[str, Any]:
    counts = {"accepted": accepted, "delivered": delivered, "failed": 0, "cancelled": 0, "skipped": 0, "open": open_}
    return {"client_id": "shop", "poller_id": 1, "minute": at(minute), **counts, "version": 7, **other}


def differing(spark: SparkSession, rows: list[dict[str, Any]], balances: list[dict[str, Any]]) -> DataFrame:
    counts = [{"settled": True, "stamps": 1, **one} for one in rows]
    return books.differing(frame(spark, COUNTED, counts), frame(spark, STORED, balances))


def test_a_balance_is_compared_under_its_own_stamp_only(spark: SparkSession) -> None:
    wrong = part(0, delivered=4)
    rows = [part(60 * number) for number in range(6)]
    rows[2] |= {"settled": False}
    rows[3] |= {"stamps": 2}
    rows[4] |= {"edits": "other"}
    balances = [wrong | {"minute": at(60 * number)} for number in range(5)]
    balances[1] |= {"version": 8}
    balances.append(part(300, version=None))
    balances.append(part(360, delivered=0))
    assert found(differing(spark, rows, balances), "minute", "rows", "balance") == {
        (0, (5, 5, 0, 0, 0, 0), (5, 4, 0, 0, 0, 0))
    }


def rows_found(spark: SparkSession, *minutes: float) -> DataFrame:
    keys = [{"client_id": "shop", "poller_id": 1, "minute": at(minute)} for minute in minutes]
    return frame(spark, "client_id string, poller_id int, minute timestamp", keys)


@pytest.mark.parametrize(
    ("rows", "stranded", "lost", "explained"),
    [
        ({"delivered": 4, "open_": 1}, 1, True, True),
        ({"delivered": 3, "open_": 2}, 2, True, True),
        ({"delivered": 3, "open_": 2}, 1, True, False),
        ({"delivered": 4, "open_": 1}, 2, False, True),
        ({"accepted": 6, "open_": 1}, 1, False, True),
        ({"accepted": 7, "open_": 2}, 1, False, False),
        ({"accepted": 4, "delivered": 4}, 0, False, False),
    ],
)
def test_stranded_rows_explain_a_balance_or_mark_it_lost(
    spark: SparkSession, rows: dict[str, int], stranded: int, lost: bool, explained: bool
) -> None:
    different = differing(spark, [part(0, **rows), part(60, delivered=1)], [part(0), part(60)])
    beside = rows_found(spark, *[0] * stranded)
    assert found(books.lost(different, beside), "minute") == ({(0,)} if lost else set())
    assert found(books.explained(different, beside), "minute") == ({(0,)} if explained else set())
