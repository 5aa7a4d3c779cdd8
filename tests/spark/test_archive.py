"""The archive: each transform on rows made by the test, and the choice of days."""

import csv
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from scheduler_service.domain.archives import RUN_CLOCKS_MS, ArchivedDay
from scheduler_service.domain.clients import ClientState
from scheduler_service.domain.ids import DAY_MS, ClientId, UnixMillis
from spark.io.export import write_file
from spark.io.members import Pollers
from spark.jobs.archive_days import Plan, plan
from spark.jobs.clients import KnownClient
from spark.jobs.job import JobRefused
from spark.transforms.archive import COLUMNS, SCHEMA, archived, by_state, contents, merged, schedules
from tests.spark.frames import frame_of

DAY = datetime(2026, 11, 21, tzinfo=UTC)
AT = 1_795_219_200_000
TODAY = DAY + timedelta(days=1)


def row(number: int = 1, client_id: str = "shop", **other: Any) -> dict[str, Any]:
    at = DAY + timedelta(minutes=number)
    given = {"poller_id": 0, "minute": at, "due": at, "schedule_id": str(UUID(int=number)), "kind": "call"}
    given |= {"created_at": DAY, "body": b"\x00\xff", "state": "delivered", "finished_at": at, "client_id": client_id}
    return {**dict.fromkeys(COLUMNS), "day": "2026-11-21", **given, **other}


def frame(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    return frame_of(spark, [tuple(one[name] for name in COLUMNS) for one in rows], SCHEMA)


def told(found: DataFrame, *columns: str) -> set[tuple[Any, ...]]:
    return {tuple(one) for one in found.select(*columns).collect()}


def test_rows_as_they_are_archived(spark: SparkSession) -> None:
    header_only = row() | {"schedule_id": None, "due": None}
    late = row(2) | {"minute": DAY + timedelta(hours=23, minutes=59)}
    source = frame(spark, row(), header_only, late).drop("day")
    found = archived(source)
    assert tuple(found.columns) == COLUMNS
    assert {name: kind for name, kind in found.dtypes if name != "day"} == dict(source.dtypes)
    assert told(found.withColumn("body", F.hex("body")), "day", "schedule_id", "body") == {
        ("2026-11-21", str(UUID(int=number)), "00FF") for number in (1, 2)
    }


@pytest.mark.parametrize(
    ("other", "is_open"),
    [
        ({"state": None}, 1),
        ({"state": "retrying"}, 1),
        ({"state": "retrying", "kind": None, "created_at": None}, 1),
        ({"state": "retrying", "kind": "copy"}, 0),
        ({"state": None, "kind": "copy"}, 1),
        *(({"state": state}, 0) for state in ("delivered", "failed", "cancelled", "skipped")),
    ],
)
def test_unfinished_rows_count_as_open(spark: SparkSession, other: dict[str, Any], is_open: int) -> None:
    (found,) = contents(frame(spark, row(**other))).collect()
    assert (found.rows, found.open) == (1, is_open)


def test_contents(spark: SparkSession) -> None:
    rows = [row(1), row(2, redelivered_at=DAY + timedelta(hours=3)), row(3, finished_at=None)]
    found = contents(frame(spark, *rows, row(1, "other", finished_at=None)))
    assert found.columns == ["day", "client_id", "rows", "open", "newest", "digest"]
    assert told(found, "day", "client_id", "rows", "open", "newest") == {
        ("2026-11-21", "shop", 3, 0, AT + 3 * 3_600_000),
        ("2026-11-21", "other", 1, 0, 0),
    }


def test_a_digest_knows_what_rows_there_are(spark: SparkSession) -> None:
    def digest(*rows: dict[str, Any]) -> str:
        (found,) = contents(frame(spark, *rows)).collect()
        return str(found.digest)

    whole = digest(row(1), row(2))
    assert whole == digest(row(2), row(1))
    others = [digest(row(1)), digest(row(1), row(1)), digest(row(1), row(3)), digest(row(1), row(2, body=b"\x00\xfe"))]
    assert len({whole, *others}) == 5


def test_what_retention_has_deleted_stays_archived(spark: SparkSession) -> None:
    before = frame(spark, row(1), row(2), row(3, "other"))
    now = frame(spark, row(2, state="failed"), row(4))
    found = merged(before, now)
    assert tuple(found.columns) == COLUMNS
    assert told(found, "client_id", "schedule_id", "state") == {
        ("shop", str(UUID(int=1)), "delivered"),
        ("shop", str(UUID(int=2)), "failed"),
        ("other", str(UUID(int=3)), "delivered"),
        ("shop", str(UUID(int=4)), "delivered"),
    }


def test_retry_rows_are_no_schedules(spark: SparkSession) -> None:
    rows = frame(spark, row(1), row(2), row(3, kind="copy"), row(4, state="failed"), row(5, created_at=None))
    found = by_state(schedules(rows))
    assert found.columns == ["day", "client_id", "state", "rows"]
    assert told(found, *found.columns) == {
        ("2026-11-21", "shop", "delivered", 2),
        ("2026-11-21", "shop", "failed", 1),
    }


def client(**other: Any) -> KnownClient:
    values = {"poller_quota": 2, "pollers": 2, "retention_days": 7, "created": AT // 1000 - 2 * 86_400 + 1800}
    return KnownClient(**{"client_id": "shop", "state": ClientState.ACTIVE, **values, **other})


def mark(days: int, **other: Any) -> ArchivedDay:
    given = {"client_id": ClientId("shop"), "as_of": UnixMillis(AT), "rows": 5, "digest": "1", "place": "file:/here"}
    return ArchivedDay(day=UnixMillis(AT + days * DAY_MS), **{**given, **other})


def planned(*marks: ArchivedDay, pollers: Pollers | None = None, **other: Any) -> Plan:
    far = Pollers(2, AT // 1000 + 10 * 86_400)
    given = {"start": AT - 9 * DAY_MS, "end": AT + DAY_MS, "now_ms": AT + DAY_MS + RUN_CLOCKS_MS, "place": "file:/here"}
    return plan([client()], marks, {"shop": pollers or far}, **{**given, "again": False, **other})


def days(plan: Plan) -> list[int]:
    return [(one.at - AT) // DAY_MS for one in plan.wanted]


def test_days_are_archived_from_the_clients_first_one_on() -> None:
    found = planned()
    assert (days(found), found.archived, found.unsettled) == ([-3, -2, -1, 0], 0, [])
    assert days(planned(start=AT - DAY_MS)) == [-1, 0]


def test_a_day_is_over_when_all_pollers_are_past_it_and_clocks_may_differ() -> None:
    assert days(planned(now_ms=AT + DAY_MS + RUN_CLOCKS_MS - 1)) == [-3, -2, -1]
    assert days(planned(pollers=Pollers(2, AT // 1000 + 86_399))) == [-3, -2, -1]
    assert len(planned(pollers=Pollers(1, AT // 1000 + 86_400)).unsettled) == 4


def test_what_is_archived_is_skipped_unless_it_is_stale() -> None:
    marks = [mark(-2), mark(-1, stale=True), mark(0, place="file:/there", stale=True)]
    found = planned(*marks)
    assert (days(found), found.archived, found.elsewhere) == ([-3, -1], 1, [marks[2]])
    assert [one.before for one in found.wanted] == [None, marks[1]]
    assert days(planned(*marks, again=True)) == [-3, -2, -1]
    assert days(planned(mark(0, place="file:/there", rows=0), again=True)) == [-3, -2, -1, 0]


def test_a_frame_as_one_file(spark: SparkSession, tmp_path: Path) -> None:
    rows = frame(spark, row(1, label='say "hello", twice\nor more'), row(2, "other", state="failed"))
    for name in ("all.parquet", "all.jsonl", "all.csv"):
        write_file(rows, str(tmp_path / name))
    assert {path.name for path in tmp_path.iterdir() if path.name[0] != "."} == {"all.parquet", "all.jsonl", "all.csv"}
    assert spark.read.parquet(str(tmp_path / "all.parquet")).collect() == rows.collect()
    lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    with (tmp_path / "all.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [tuple(one) for one in (*lines, *table)] == [COLUMNS] * 4
    assert [one["label"] for one in table] == [lines[0]["label"], ""] == ['say "hello", twice\nor more', ""]
    for one in (lines[1], table[1]):
        assert (one["client_id"], one["state"], one["body"], one["due"]) == (
            *("other", "failed", "AP8="),
            "2026-11-21T00:02:00.000Z",
        )
    with pytest.raises(JobRefused, match="exists; name a file that does not yet"):
        write_file(rows, str(tmp_path / "all.csv"))
