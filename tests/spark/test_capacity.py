"""Load and capacity: each transform on rows made by the test, the charts, and the job on rows of the real system."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from minutehand.client import Callback
from spark.io.charts import Chart, draw
from spark.jobs.job import JobRefused
from spark.transforms.load import hottest, loads, minutes, poller_minutes, totals
from tests.spark.frames import frame_of
from tests.spark.jobs import run_job
from tests.support.processes import Deployment

NOW = datetime(2026, 11, 21, 9, 30, 12, tzinfo=UTC)
MINUTE = datetime(2026, 11, 21, 9, tzinfo=UTC)
PNG = b"\x89PNG\r\n\x1a\n"


def pollers_of(spark: SparkSession, *rows: tuple[str, int, int, int]) -> DataFrame:
    """client_id, poller_id, minute (of the hour), calls."""
    at = int(MINUTE.timestamp())
    made = [(client, poller, at + 60 * minute, calls) for client, poller, minute, calls in rows]
    found = frame_of(spark, made, "client_id string, poller_id int, at long, calls long")
    return found.select("client_id", "poller_id", F.timestamp_seconds("at").alias("minute"), "calls")


def told(found: DataFrame, *columns: str) -> set[tuple[Any, ...]]:
    """The report's rows, with `minute` as that of the hour."""
    shown = found.withColumn("minute", F.minute("minute")) if "minute" in columns else found
    return {tuple(one) for one in shown.select(*columns).collect()}


def test_what_is_called_in_a_pollers_minute(spark: SparkSession) -> None:
    def row(poller: int, minute: int, state: str | None, created: bool = True) -> tuple[Any, ...]:
        return ("shop", poller, MINUTE + timedelta(minutes=minute), MINUTE if created else None, state)

    states = [None, "retrying", "delivered", "failed", "cancelled", "skipped"]
    rows = [*(row(0, 1, state) for state in states), row(0, 1, "retrying", created=False), row(0, 2, "skipped")]
    rows += [row(1, 1, None), row(1, 3, None), row(1, 3, None)]
    schema = "client_id string, poller_id int, minute timestamp, created_at timestamp, state string"
    found = poller_minutes(frame_of(spark, rows, schema))
    assert told(found, "client_id", "poller_id", "minute", "calls") == {
        ("shop", 0, 1, 4),
        ("shop", 1, 1, 1),
        ("shop", 1, 3, 2),
    }


def test_minutes_of_clients_and_of_all(spark: SparkSession) -> None:
    pollers = pollers_of(spark, ("shop", 0, 1, 4), ("shop", 1, 1, 6), ("shop", 1, 2, 5), ("other", 0, 1, 7))
    each = minutes(pollers)
    assert told(each, "client_id", "minute", "calls", "poller_calls") == {
        ("shop", 1, 10, 6),
        ("shop", 2, 5, 5),
        ("other", 1, 7, 7),
    }
    assert told(totals(each), "minute", "calls") == {(1, 17), (2, 5)}


def test_the_hottest_minutes_behind_and_ahead(spark: SparkSession) -> None:
    rows = [("shop", 0, minute, 10 + minute % 7) for minute in range(60)]
    found = hottest(minutes(pollers_of(spark, *rows, ("other", 3, 30, 1))), now=F.lit(NOW))
    assert told(found, "client_id", "ahead", "minute", "calls", "poller_calls") == {
        *(("shop", False, minute, 16, 16) for minute in (6, 13, 20, 27)),
        ("shop", False, 5, 15, 15),
        *(("shop", True, minute, 16, 16) for minute in (34, 41, 48, 55)),
        ("shop", True, 33, 15, 15),
        ("other", True, 30, 1, 1),
    }


FIGURES = ("client_id", "quota", "calls", "poller_max", "poller_p99", "poller_mean", "minute_max", "minute_p99", "skew")


def figures(spark: SparkSession, quotas: Sequence[tuple[str, int]], pollers: DataFrame) -> set[tuple[Any, ...]]:
    clients = frame_of(spark, list(quotas), "client_id string, quota int")
    return told(loads(clients, pollers, minutes(pollers)), *FIGURES, "recommended")


def test_what_each_client_has_of_its_quota(spark: SparkSession) -> None:
    pollers = pollers_of(
        spark,
        *(("even", poller, minute, 350) for poller in range(4) for minute in range(3)),
        *(("pinned", 0, minute, 980) for minute in range(2)),
        ("small", 3, 0, 10),
        # Poller 5 belonged to an earlier quota.
        *(("shrunk", poller, 0, calls) for poller, calls in ((0, 10), (1, 20), (5, 30))),
        ("wide", 0, 0, 700),
        ("wide", 1, 0, 1),
    )
    quotas = [("even", 4), ("pinned", 2), ("small", 4), ("shrunk", 2), ("wide", 5), ("idle", 3)]
    assert figures(spark, quotas, pollers) == {
        ("even", 4, 4200, 350, 350, 350.0, 1400, 1400, 1.0, 2),
        ("pinned", 2, 1960, 980, 980, 980.0, 980, 980, 2.0, 3),
        ("small", 4, 10, 10, 10, 10.0, 10, 10, 4.0, 1),
        ("shrunk", 2, 60, 30, 30, 20.0, 60, 60, 1.5, 1),
        ("wide", 5, 701, 700, 700, 350.5, 701, 701, 700 * 5 / 701, 2),
        ("idle", 3, 0, None, None, None, None, None, None, 1),
    }


def test_capacity_ignores_the_fullest_minute_of_a_hundred(spark: SparkSession) -> None:
    pollers = pollers_of(
        spark,
        *(("one", 0, minute, 100) for minute in range(99)),
        ("one", 0, 99, 5000),
        *(("two", 0, minute, 100) for minute in range(98)),
        *(("two", 0, minute, 5000) for minute in (98, 99)),
    )
    found = {one[0]: (one[3], one[4], one[7], one[9]) for one in figures(spark, [("one", 1), ("two", 1)], pollers)}
    assert found == {"one": (5000, 100, 100, 1), "two": (5000, 5000, 5000, 8)}


def test_charts_are_files(tmp_path: Path) -> None:
    at = [NOW.replace(tzinfo=None) + timedelta(minutes=minute) for minute in (0, 7)]
    lines = (("guaranteed", 4000), ("recommended", 1000))
    some = Chart(file_name="client-a.b.png", title="a.b", minutes=at, calls=[3, 900], lines=lines, now=at[0])
    none = Chart(file_name="all.png", title="All", minutes=[], calls=[], lines=(), now=at[0])
    made = draw([none, some], tmp_path / "new" / "charts")
    assert [path.name for path in made] == ["all.png", "client-a.b.png"]
    before = [path.read_bytes() for path in made]
    assert all(data.startswith(PNG) and len(data) > 5000 for data in before)
    assert [path.read_bytes() for path in draw([none, some], tmp_path / "new" / "charts")] == before
    assert {path.name for path in made[0].parent.iterdir()} == {"all.png", "client-a.b.png"}


def test_the_load_of_the_real_system(spark: SparkSession, cluster: Deployment, tmp_path: Path) -> None:
    cluster.start_api()
    cluster.start_node("node-a")
    key, other = cluster.register("shop", poller_quota=2), cluster.register("other", poller_quota=1)
    cluster.register("idle", poller_quota=1)
    now = datetime.now(UTC)
    ahead = now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=2)
    callback = Callback(url=cluster.receiver.url)
    with cluster.client("shop", key) as client:
        for number in range(3):
            client.schedules.create(callback, due=now + timedelta(milliseconds=300 + number))
        for second in range(20):
            client.schedules.create(callback, due=ahead + timedelta(seconds=second))
        gone = client.schedules.create(callback, due=ahead)
        client.schedules.cancel(gone.schedule_id)
        client.schedules.create(callback, due=ahead + timedelta(hours=30))
    with cluster.client("other", other) as client:
        client.schedules.create(callback, due=ahead)
    assert cluster.receiver.await_count(3, seconds=40) == 3
    with cluster.admin() as api:
        capacity = api.cluster().capacity_per_minute
    begins = now + timedelta(minutes=1)
    directory = tmp_path / "charts"
    report = run_job(spark, cluster, "capacity", "--charts", str(directory), now=begins)
    by_client = {one["client_id"]: one for one in report["clients"]}
    assert {name: (one["calls"], one["quota"], one["recommended"]) for name, one in by_client.items()} == {
        "shop": (23, 2, 1),
        "other": (1, 1, 1),
        "idle": (0, 1, 1),
    }
    minute = f"{ahead:%Y-%m-%dT%H:%MZ}"
    (hot,) = by_client["shop"]["hottest"]["ahead"]
    assert (hot["minute"], hot["calls"]) == (minute, 20)
    assert sum(one["calls"] for one in by_client["shop"]["hottest"]["behind"]) == 3
    total = report["total"]
    assert total["capacity_per_minute"] == capacity > 0
    assert (total["guaranteed_per_minute"], total["recommended_per_minute"]) == (4000, 3000)
    assert total["ahead"] == {"minute": minute, "calls": 21}
    assert [Path(name).name for name in report["charts"]] == ["all.png", "client-shop.png", "client-other.png"]
    assert all(Path(name).read_bytes().startswith(PNG) for name in report["charts"])

    cluster.stop_one("node-a")
    start = ahead.isoformat()
    further = run_job(spark, cluster, "capacity", "--from", start, "--ahead", "40", "--client", "shop", now=begins)
    (shop,) = further["clients"]
    assert (shop["calls"], further["total"]["capacity_per_minute"]) == (21, 0)
    assert further["charts"] == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--client", "nobody"], "there is no client 'nobody'"),
        (["--to", "2026-11-22", "--ahead", "3"], "--to and --ahead both say where to end"),
        (
            ["--from", "2026-11-21T12:00Z", "--to", "2026-11-21"],
            "the window ends at 2026-11-21T00:00Z, before it begins",
        ),
        (["--from", "2026-10-01"], "more than 31 days"),
        (["--ahead", "9999"], "more than 31 days"),
        (["--charts", __file__], "is no directory"),
    ],
)
def test_windows_that_are_refused(spark: SparkSession, shop: Deployment, arguments: list[str], sentence: str) -> None:
    with pytest.raises(JobRefused, match=sentence):
        run_job(spark, shop, "capacity", *arguments, now=NOW)


@pytest.mark.parametrize("arguments", [["--from", "2026-11-21T09:30Z"], ["--ahead", "-1"], ["--ahead", "soon"]])
def test_what_makes_no_sense(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        run_job(None, None, "capacity", *arguments)  # type: ignore[arg-type]
