"""Tiny frames for transforms: rows by column name, instants as seconds after START."""

import base64
import json
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
    names = _names(schema)
    for row in rows:
        assert row.keys() <= set(names), row.keys() - set(names)
    return frame_of(spark, [tuple(row.get(name) for name in names) for row in rows], schema)


def frame_of(spark: SparkSession, rows: Sequence[Sequence[Any]], schema: str) -> DataFrame:
    """What `createDataFrame` makes of the same, several rows in two partitions. Spark reads them from JSON: that
    function would have a Python worker read them, whenever the frame is evaluated."""
    names = _names(schema)
    half = len(rows) // 2
    parts = [rows[:half], rows[half:]] if half else [rows]
    texts = F.array(*(F.lit(_json(names, part)) for part in parts))
    read = F.from_json(texts[F.col("id").cast("int")], f"array<struct<{schema}>>", {"mode": "FAILFAST"})
    return spark.range(0, len(parts), numPartitions=len(parts)).select(F.inline(read))


def _names(schema: str) -> list[str]:
    return [column.split()[0] for column in schema.split(", ")]


def _json(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    return json.dumps([dict(zip(names, row, strict=True)) for row in rows], default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    assert isinstance(value, bytes | bytearray), value
    return base64.b64encode(value).decode()


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
