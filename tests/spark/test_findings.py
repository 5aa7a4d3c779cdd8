"""Each kind of finding on tiny frames: rows that have it, and rows that only look like it."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from scheduler_service.domain.ids import compose_schedule_id
from spark.transforms import findings
from tests.spark.frames import START, at, found, frame

ROWS = (
    "client_id string, poller_id int, minute timestamp, due timestamp, schedule_id string, kind string, "
    "created_at timestamp, state string, reason string, next_attempt_at timestamp, origin_due timestamp, "
    "cron_id string, nominal_due timestamp, settled boolean"
)

FAR = 3_000_000_000
"""Seconds from START that have not passed when this is read."""


def id_of(due: float, poller: int = 3, tail: int = 1) -> str:
    return str(compose_schedule_id(due=round((START.timestamp() + due) * 1000), poller_id=poller, tail=tail))


def call(due: float, *, tail: int = 1, poller: int = 3, **other: Any) -> dict[str, Any]:
    """A correct row in a settled minute, delivered."""
    return {
        "client_id": "shop",
        "poller_id": poller,
        "minute": at(due // 60 * 60),
        "due": at(due),
        "schedule_id": id_of(due, poller, tail),
        "kind": "call",
        "created_at": at(-100),
        "state": "delivered",
        "settled": True,
        **other,
    }


def retry_row(due: float, origin: float, *, tail: int = 1, **other: Any) -> dict[str, Any]:
    row = {"schedule_id": id_of(origin, 3, tail), "kind": "copy", "origin_due": at(origin), "state": None}
    return call(due, tail=tail) | row | other


def rows_of(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    return frame(spark, ROWS, rows)


def named(frame: DataFrame) -> set[tuple[Any, ...]]:
    return found(frame, "due", "schedule_id", "kind", "detail")


def test_faults_of_single_rows_are_found(spark: SparkSession) -> None:
    rows = rows_of(
        spark,
        call(1),
        call(2, state=None),
        call(3, state=None, settled=False),
        call(4, state="done", settled=False),
        call(5, schedule_id=id_of(5, poller=4)),
        call(6, schedule_id=id_of(66)),
        call(7, minute=at(60)),
        retry_row(8, -60, origin_due=at(-61)),
        call(9, created_at=None, kind=None),
        call(10, created_at=None, kind=None, settled=False),
        call(11, state="retrying", next_attempt_at=at(70), settled=False),
        retry_row(12, -60, state="delivered"),
    )
    lost = findings.suspects(rows)
    assert lost.columns == [*rows.columns, "suspicion"]
    elsewhere = ("misplaced", "its id names another partition")
    assert named(findings.wrong_by_itself(lost)) == {
        (2, id_of(2), "stranded", "has no outcome, and its minute is settled"),
        (4, id_of(4), "unknown-state", "is in an unknown state: done"),
        (5, id_of(5, poller=4), *elsewhere),
        (6, id_of(66), *elsewhere),
        (7, id_of(7), *elsewhere),
        (8, id_of(-60), *elsewhere),
        (9, id_of(9), "undefined", "is delivered and has no definition"),
    }
    assert findings.wrong_by_itself(lost).columns == list(findings.COLUMNS)


def test_schedules_whose_next_attempt_is_missing_or_over(spark: SparkSession) -> None:
    def pointer(due: float, next_: float | None, **other: Any) -> dict[str, Any]:
        return call(due, state="retrying", next_attempt_at=None if next_ is None else at(next_), **other)

    suspects = findings.suspects(
        rows_of(
            spark,
            pointer(1, 61),
            pointer(2, 62),
            pointer(3, 63),
            pointer(4, 64),
            pointer(5, None),
            pointer(6, 66, settled=False),
            pointer(7, FAR, reason="awaiting"),
            pointer(8, 68, reason="awaiting"),
            retry_row(61, 1, state="retrying", next_attempt_at=at(99)),
        )
    )
    postponed = ("shop", 3, FAR // 60 * 60, FAR, id_of(7))
    assert found(findings.named_retry_rows(suspects)) == {
        postponed,
        *(("shop", 3, 60, 60 + due, id_of(due)) for due in (1, 2, 3, 4, 8)),
    }
    retry_rows = rows_of(
        spark,
        retry_row(61, 1),
        retry_row(63, 3, state="delivered"),
        retry_row(64, 4, state="delivered", settled=False),
    )
    assert named(findings.unfollowed(suspects, retry_rows)) == {
        (2, id_of(2), "pointer-without-retry-row", "names an attempt that does not exist, at 2026-11-21T09:01:02.000Z"),
        (3, id_of(3), "pointer-left-behind", "names an attempt that is delivered, at 2026-11-21T09:01:03.000Z"),
        (5, id_of(5), "pointer-without-retry-row", "is retrying and names no attempt"),
        (8, id_of(8), "pointer-without-retry-row", "names an attempt that does not exist, at 2026-11-21T09:01:08.000Z"),
    }


def test_rows_in_the_place_of_retry_rows(spark: SparkSession) -> None:
    suspects = findings.suspects(
        rows_of(
            spark,
            retry_row(61, 1),
            retry_row(62, 2),
            retry_row(63, 3),
            retry_row(64, 4, settled=False),
            retry_row(65, 5, kind=None, created_at=None, origin_due=None, state="cancelled"),
            retry_row(66, 6, kind=None, created_at=None, origin_due=None, state="cancelled"),
            retry_row(67, 7, kind=None, created_at=None, origin_due=None, state="cancelled"),
            call(8, kind=None, created_at=None),
        )
    )
    assert found(findings.named_originals(suspects), "minute", "due", "schedule_id") == {
        (0, due, id_of(due)) for due in (1, 2, 3, 5, 6, 7, 8)
    }
    originals = rows_of(
        spark,
        call(1, state="retrying", next_attempt_at=at(61)),
        call(2, state="retrying", next_attempt_at=at(72)),
        call(5, state="cancelled"),
        call(6, state="retrying", next_attempt_at=at(66)),
        call(7, state="delivered"),
    )
    assert named(findings.unpointed(suspects, originals)) == {
        (61, id_of(1), "stranded", "has no outcome, and its minute is settled"),
        (62, id_of(2), "retry-row-without-pointer", "waits, and its schedule does not name it"),
        (63, id_of(3), "retry-row-without-pointer", "waits, and its schedule does not name it"),
        (67, id_of(7), "undefined", "is cancelled and has no definition"),
    }


def test_fires_that_exist_twice(spark: SparkSession) -> None:
    def fire(due: float, tail: int, **other: Any) -> dict[str, Any]:
        return call(due, tail=tail, **{"cron_id": "hourly", "nominal_due": at(due), "settled": False, **other})

    rows = rows_of(
        spark,
        fire(1, 1, state=None),
        fire(1, 2),
        fire(1, 3, state="failed"),
        fire(2, 1),
        fire(2, 2, state="cancelled"),
        fire(3, 1),
        fire(3, 2, cron_id="daily"),
        fire(4, 1),
        fire(4, 2, client_id="other"),
        fire(5, 1),
        retry_row(65, 5, cron_id="hourly", nominal_due=at(5)),
        fire(6, 1, nominal_due=None),
        fire(6, 2, nominal_due=None),
        fire(7, 1, created_at=None),
        fire(7, 2),
    )
    doubled = findings.fires_of_crons(rows)
    assert found(doubled) == {("shop", "hourly", 1)}
    fires = findings.fires_at(rows, doubled)
    assert found(fires, "schedule_id", "waits") == {
        (id_of(1, tail=1), True),
        (id_of(1, tail=2), False),
        (id_of(1, tail=3), False),
    }
    detail = "is another fire of hourly at 2026-11-21T09:00:01.000Z"
    assert named(findings.doubled_fires(fires)) == {
        (1, id_of(1, tail=1), "doubled-fire", detail),
        (1, id_of(1, tail=3), "doubled-fire", detail),
    }


def test_crons_that_were_not_examined(spark: SparkSession) -> None:
    crons = frame(
        spark,
        "client_id string, poller_id int, cron_id string, wake_at timestamp",
        [
            {"client_id": "shop", "poller_id": 1, "cron_id": "late", "wake_at": at(-1)},
            {"client_id": "shop", "poller_id": 1, "cron_id": "due", "wake_at": at(0)},
            {"client_id": "shop", "poller_id": 1, "cron_id": "paused"},
        ],
    )
    overdue = findings.overdue_crons(crons, before=F.lit(START))
    detail = "late was to be expanded at 2026-11-21T08:59:59.000Z"
    assert found(overdue) == {("shop", 1, None, None, None, "overdue-cron", detail)}


def test_partitions_that_the_index_does_not_name(spark: SparkSession) -> None:
    bare = frame(
        spark,
        "client_id string, poller_id int, minute timestamp",
        [{"client_id": "shop", "poller_id": 1, "minute": at(60)}],
    )
    detail = "has rows, and is not in the index of occupied minutes"
    assert found(findings.unindexed(bare)) == {("shop", 1, 60, None, None, "unindexed", detail)}


def finding(due: float | None, kind: str = "stranded", minute: float = 0, **other: Any) -> dict[str, Any]:
    row = {"client_id": "shop", "poller_id": 3, "minute": at(minute), "kind": kind, "detail": "as it was"}
    return row | ({} if due is None else {"due": at(due), "schedule_id": id_of(due)}) | other


FOUND = (
    "client_id string, poller_id int, minute timestamp, due timestamp, schedule_id string, kind string, detail string"
)


def test_a_lost_outcome_is_found_by_the_books(spark: SparkSession) -> None:
    rows = frame(
        spark,
        FOUND,
        [finding(1), finding(2, kind="misplaced"), finding(3, schedule_id=id_of(-60)), finding(61, minute=60)],
    )
    lost = frame(
        spark,
        "client_id string, poller_id int, minute timestamp",
        [{"client_id": "shop", "poller_id": 3, "minute": at(0)}],
    )
    told = "has no outcome, but the books of its minute count one"
    assert named(findings.with_lost_outcomes(rows, lost)) == {
        (1, id_of(1), "lost-outcome", told),
        (2, id_of(2), "misplaced", "as it was"),
        (3, id_of(-60), "stranded", "as it was"),
        (61, id_of(61), "stranded", "as it was"),
    }


@pytest.mark.parametrize("again", [True, False])
def test_what_is_not_found_twice_is_not_reported(spark: SparkSession, again: bool) -> None:
    first = frame(spark, FOUND, [finding(1), finding(None, kind="wrong-balance"), finding(2)])
    second = [finding(1, kind="lost-outcome"), finding(None, kind="wrong-balance")] if again else [finding(3)]
    assert found(findings.found_again(frame(spark, FOUND, second), first), "due", "kind") == (
        {(1, "lost-outcome"), (None, "wrong-balance")} if again else set()
    )
