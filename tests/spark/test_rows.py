"""What `delivery` stands for is in its columns, whichever of the two a row has."""

from pyspark.sql import SparkSession

from spark.transforms.rows import unpacked
from tests.spark.frames import at, found, frame

PACKED = f"2 {round(at(1.25).timestamp() * 1000)} 204 7 a node@1763836790000"
COLUMNS = (
    "schedule_id string, attempts int, first_attempt_at timestamp, last_status int, fired_epoch bigint, "
    "fired_by string, delivery string"
)


def test_a_row_says_the_same_in_either_form(spark: SparkSession) -> None:
    rows = [
        {"schedule_id": "packed", "delivery": PACKED},
        {"schedule_id": "new"},
        {"schedule_id": "columns", "attempts": 3, "first_attempt_at": at(9), "last_status": 500, "fired_by": "b@1"},
        {"schedule_id": "redelivered", "attempts": 2, "delivery": PACKED},
    ]
    whole = unpacked(frame(spark, COLUMNS, rows))
    assert "delivery" not in whole.columns
    assert found(whole) == {
        ("packed", 2, 1.25, 204, 7, "a node@1763836790000"),
        ("new", None, None, None, None, None),
        ("columns", 3, 9.0, 500, None, "b@1"),
        ("redelivered", 2, 1.25, None, 7, "a node@1763836790000"),
    }


def test_only_what_was_read_is_made(spark: SparkSession) -> None:
    rows = frame(spark, COLUMNS, [{"schedule_id": "packed", "delivery": PACKED}])
    few = unpacked(rows.select("schedule_id", "attempts", "delivery"))
    assert [tuple(one) for one in few.collect()] == [("packed", 2)]
