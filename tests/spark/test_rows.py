"""The values of packed cells appear in their columns, whichever of the two a row has."""

import pytest
from pyspark.sql import SparkSession

from cql.packed import FORM, UNREADABLE, pack_content, pack_delivery, unpack_content
from scheduler_service.domain.ids import UnixMillis
from scheduler_service.domain.schedules import Outcome, State
from spark.transforms.archive import READS
from spark.transforms.rows import packed_in, unpacked
from tests.spark.frames import at, found, frame

PACKED = f"2 {round(at(1.25).timestamp() * 1000)} 204 7 a node@1763836790000"
TO_A_TARGET = Outcome(
    state=State.DELIVERED,
    attempts=1,
    first_attempt_at=UnixMillis(round(at(1.25).timestamp() * 1000)),
    finished_at=UnixMillis(round(at(2).timestamp() * 1000)),
    fired_epoch=7,
    fired_by="a node@1763836790000",
)
COLUMNS = (
    "schedule_id string, attempts int, first_attempt_at timestamp, last_status int, fired_epoch bigint, "
    "fired_by string, delivery string"
)


def test_a_row_says_the_same_in_either_form(spark: SparkSession) -> None:
    rows = [
        {"schedule_id": "packed", "delivery": PACKED},
        {"schedule_id": "to a target", "delivery": pack_delivery(TO_A_TARGET)},
        {"schedule_id": "new"},
        {"schedule_id": "columns", "attempts": 3, "first_attempt_at": at(9), "last_status": 500, "fired_by": "b@1"},
        {"schedule_id": "redelivered", "attempts": 2, "delivery": PACKED},
    ]
    whole = unpacked(frame(spark, COLUMNS, rows))
    assert "delivery" not in whole.columns
    assert found(whole) == {
        ("packed", 2, 1.25, 204, 7, "a node@1763836790000"),
        ("to a target", 1, 1.25, None, 7, "a node@1763836790000"),
        ("new", None, None, None, None, None),
        ("columns", 3, 9.0, 500, None, "b@1"),
        ("redelivered", 2, 1.25, None, 7, "a node@1763836790000"),
    }


def test_unpacking_adds_only_the_selected_columns(spark: SparkSession) -> None:
    rows = frame(spark, COLUMNS, [{"schedule_id": "packed", "delivery": PACKED}])
    few = unpacked(rows.select("schedule_id", "attempts", "delivery"))
    assert [tuple(one) for one in few.collect()] == [("packed", 2)]


CONTENT = (
    "schedule_id string, method string, url string, headers string, body binary, options string, label string, "
    "content binary, revised binary, revision string"
)
TEXTS = "POST", "https://a.example/\u00e9\u2603", '[["x","\u00e9"]]'


def test_content_is_read_as_the_other_programs_read_it(spark: SparkSession) -> None:
    blobs = {
        "ordinary": pack_content(*TEXTS, b"body \x00\xff", "{}"),
        "empty": pack_content("GET", "", "", b"", ""),
        "long": pack_content("POST", "https://a.example/" + "p" * 3_000, f'[["x","{"y" * 70_000}"]]', b"z" * 9, "{}"),
        "of a later program": bytes([FORM + 1]) + bytes(16) + b"?",
        "nothing": b"",
        "short": bytes([FORM]) + bytes(15),
        "torn": pack_content(*TEXTS, b"", "{}")[:-1],
        "too long": bytes([FORM]) + b"\xff" * 16 + b"longer than there is",
        "no text": bytes([FORM]) + b"\x00\x00\x00\x01" * 4 + b"\xff{[{",
    }
    rows = frame(spark, CONTENT, [{"schedule_id": name, "content": blob} for name, blob in blobs.items()])
    shown = {one.schedule_id: one for one in unpacked(rows).collect()}
    for name, blob in blobs.items():
        method, url, headers, body, options = unpack_content(blob)
        one = shown[name]
        assert (one.method, one.url, one.headers, bytes(one.body), one.options) == (method, url, headers, body, options)
    assert shown["torn"].headers == shown["of a later program"].options == UNREADABLE


def test_rows_without_packed_cells_keep_their_columns(spark: SparkSession) -> None:
    one = {
        "schedule_id": "plain",
        "method": "PUT",
        "url": "u",
        "headers": "[]",
        "body": bytearray(b"b"),
        "options": "{}",
    }
    rows = frame(spark, CONTENT, [one, {"schedule_id": "pointer"}])
    assert found(unpacked(rows), "schedule_id", "method", "url", "headers", "options") == {
        ("plain", "PUT", "u", "[]", "{}"),
        ("pointer", None, None, None, None),
    }


def test_a_revision_replaces_content_and_label(spark: SparkSession) -> None:
    old, new = pack_content(*TEXTS, b"old", "{}"), pack_content("PUT", "new", "[]", b"new", "{}")
    rows = [
        {"schedule_id": "as created", "content": old, "label": "old"},
        {"schedule_id": "revised", "content": old, "label": "old", "revised": new, "revision": "2 a,b two words"},
        {"schedule_id": "unlabelled", "url": "u", "label": "old", "revised": new, "revision": "1 a"},
    ]
    shown = unpacked(frame(spark, CONTENT, rows))
    assert found(shown, "schedule_id", "method", "url", "label") == {
        ("as created", TEXTS[0], TEXTS[1], "old"),
        ("revised", "PUT", "new", "two words"),
        ("unlabelled", "PUT", "new", None),
    }
    assert not {"content", "revised", "revision"}.intersection(shown.columns)


def test_unset_columns_of_defined_rows_are_reported(spark: SparkSession) -> None:
    rows = [
        {"schedule_id": "call", "created_at": at(1)},
        {"schedule_id": "copy", "created_at": at(1), "kind": "copy", "attempt_base": 2},
        {"schedule_id": "pointer"},
    ]
    read = frame(spark, "schedule_id string, kind string, attempt_base int, created_at timestamp", rows)
    assert found(unpacked(read), "schedule_id", "kind", "attempt_base") == {
        ("call", "call", 0),
        ("copy", "copy", 2),
        ("pointer", None, None),
    }


@pytest.mark.parametrize(
    ("columns", "beside"),
    [
        (("state", "due"), ()),
        (("state", "attempts"), ("delivery",)),
        (("body",), ("content", "revised")),
        (("label",), ("revision",)),
        (("kind",), ("created_at",)),
        (READS, ("delivery", "content", "revised", "revision")),
    ],
)
def test_packed_cells_are_read_where_they_are_needed(columns: tuple[str, ...], beside: tuple[str, ...]) -> None:
    assert packed_in(columns) == beside
