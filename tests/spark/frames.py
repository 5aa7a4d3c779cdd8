"""Tiny frames for transforms: rows by column name, instants as seconds after START."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

START = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def frame(spark: SparkSession, schema: str, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """`schema` as DDL; columns that a row does not name are null."""
    names = [column.split()[0] for column in schema.split(", ")]
    for row in rows:
        assert row.keys() <= set(names), row.keys() - set(names)
    return spark.createDataFrame([tuple(row.get(name) for name in names) for row in rows], schema)


def found(frame: DataFrame, *columns: str) -> set[tuple[Any, ...]]:
    """The rows as a set of tuples, instants as seconds after START. Asserts that no two rows are equal."""
    names = columns or tuple(frame.columns)
    instants = {field.name for field in frame.schema.fields if field.dataType.typeName() == "timestamp"}
    origin = round(START.timestamp() * 1000)
    selected = frame.select(
        *((((F.unix_millis(name) - origin) / 1000) if name in instants else F.col(name)).alias(name) for name in names)
    )
    rows = [tuple(row) for row in selected.collect()]
    assert len(rows) == len(set(rows)), rows
    return set(rows)
