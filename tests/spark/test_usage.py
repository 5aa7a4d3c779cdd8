"""Usage: each transform on rows made by the test, the choice of days, and the job on rows of the real system."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from minutehand.client import Callback, DayUsage
from scheduler_service.domain.clients import ClientState
from spark.jobs.clients import KnownClient
from spark.jobs.job import JobRefused
from spark.jobs.usage import DAY_SECONDS, Day, Plan, Stored, choose, oldest_whole_day, pieces, seconds
from spark.transforms.usage import WHOLE_DAY, days, failing_hosts, growing, usage, used
from spark.window import Window
from tests.spark.frames import frame_of
from tests.spark.jobs import await_state, run_job
from tests.support.cassandra import session_of
from tests.support.processes import Deployment

TODAY = datetime(2026, 11, 21, tzinfo=UTC)
ROWS = (
    "client_id string, at long, kind string, created_at timestamp, state string, attempts int, first_at long, "
    "url string, body binary"
)
URL = "https://Shop.example:8443/hook?a=b"
COUNTS = ("accepted", "delivered", "failed", "cancelled", "skipped", "open", "attempts", "bytes")


def row(
    client_id: str = "shop",
    *,
    hour: int = 9,
    ms: int = 0,
    kind: str | None = "call",
    created: bool = True,
    state: str | None = None,
    attempts: int | None = None,
    late: int | None = None,
    url: str = URL,
    body: bytes | None = b"",
    day: int = 0,
) -> tuple[Any, ...]:
    due = seconds(TODAY) * 1000 + (day * 24 + hour) * 3_600_000 + ms
    first = None if late is None else due + late
    return (client_id, due, kind, TODAY if created else None, state, attempts, first, url, body)


def frame(spark: SparkSession, rows: Sequence[tuple[Any, ...]]) -> DataFrame:
    made = frame_of(spark, list(rows), ROWS)
    return made.withColumn("due", F.timestamp_millis("at")).withColumn(
        "first_attempt_at", F.timestamp_millis("first_at")
    )


def told(found: DataFrame, *columns: str) -> set[tuple[Any, ...]]:
    """The report's rows, with `day` as the day of the month."""
    shown = found.withColumn("day", F.dayofmonth("day")).select(*columns)
    return {tuple(one) for one in shown.collect()}


def test_what_a_schedule_adds(spark: SparkSession) -> None:
    rows = [
        row(state="delivered", attempts=2, late=5, body=b"\x00\xffabc"),
        row(hour=23, ms=3_599_999, state="failed", attempts=10, late=-1, url="http://[::1]:80/x"),
        row(hour=0, day=1, state="cancelled", url="http://my_receiver", body=None),
        row(state="skipped", kind=None, url="http://127.0.0.1?x"),
        row(state="retrying", attempts=1, late=0, client_id="other"),
        row(),
        row(state="delivered", url="destination://orders/17?a=b", client_id="other"),
        row(kind="copy", state="delivered", attempts=3, late=1),
        row(created=False, state="retrying"),
    ]
    shown = ("client_id", "day", "hour", "delivered", "failed", "cancelled", "skipped", "open")
    shown = (*shown, "attempts", "bytes", "lateness_ms", "host")
    f, t = False, True
    assert told(used(frame(spark, rows)), *shown) == {
        ("shop", 21, 9, t, f, f, f, f, 2, 5, 5, "shop.example"),
        ("shop", 21, 23, f, t, f, f, f, 10, 0, 0, "[::1]"),
        ("shop", 22, 0, f, f, t, f, f, 0, 0, None, "my_receiver"),
        ("shop", 21, 9, f, f, f, t, f, 0, 0, None, "127.0.0.1"),
        ("other", 21, 9, f, f, f, f, t, 1, 0, 0, "shop.example"),
        ("other", 21, 9, t, f, f, f, f, 0, 0, None, "destination:orders"),
        ("shop", 21, 9, f, f, f, f, t, 0, 0, None, "shop.example"),
    }


def test_hours_and_days(spark: SparkSession) -> None:
    rows = [row(state="delivered", attempts=1, late=late, body=b"ab") for late in (4, 1, 3, 2)]
    rows += [row(hour=10, state="failed", attempts=5, late=1000), row(hour=10, state="cancelled")]
    rows += [row(day=1, state="skipped"), row("other", day=1)]
    late = tuple(f"lateness_{of}_ms" for of in ("p50", "p95", "p99", "max"))
    found = told(usage(used(frame(spark, rows))), "client_id", "day", "hour", *COUNTS, *late)
    nothing = (None,) * 4
    assert found == {
        ("shop", 21, 9, 4, 4, 0, 0, 0, 0, 4, 8, 2, 4, 4, 4),
        ("shop", 21, 10, 2, 0, 1, 1, 0, 0, 5, 0, 1000, 1000, 1000, 1000),
        ("shop", 21, WHOLE_DAY, 6, 4, 1, 1, 0, 0, 9, 8, 3, 1000, 1000, 1000),
        ("shop", 22, 9, 1, 0, 0, 0, 1, 0, 0, 0, *nothing),
        ("shop", 22, WHOLE_DAY, 1, 0, 0, 0, 1, 0, 0, 0, *nothing),
        ("other", 22, 9, 1, 0, 0, 0, 0, 1, 0, 0, *nothing),
        ("other", 22, WHOLE_DAY, 1, 0, 0, 0, 0, 1, 0, 0, *nothing),
    }


def test_percentiles_are_lateness_that_occurred(spark: SparkSession) -> None:
    rows = [row(ms=number, state="delivered", late=number * 10) for number in range(1, 1001)]
    (day,) = usage(used(frame(spark, rows))).where(F.col("hour") == WHOLE_DAY).collect()
    assert (day.lateness_p50_ms, day.lateness_p95_ms, day.lateness_p99_ms, day.lateness_max_ms) == (
        *(5000, 9500, 9900),
        10_000,
    )


def test_the_hosts_where_most_failed(spark: SparkSession) -> None:
    rows = [row(state="failed", url=f"http://h{number:02}/") for number in range(12) for _ in range(12 - number // 2)]
    rows += [row(state="delivered", url="http://never/")]
    rows += [
        row(state="failed", day=1, url=url) for url in ("http://once/", *["destination://once", "https://twice"] * 2)
    ]
    found = failing_hosts(used(frame(spark, rows)))
    listed = {one.day.day: [tuple(host) for host in one.hosts] for one in found.collect()}
    first = [(f"h{number:02}", 12 - number // 2) for number in range(10)]
    assert sorted(listed.values(), key=len) == [[("destination:once", 2), ("twice", 2), ("once", 1)], first]


def test_a_day_is_one_row(spark: SparkSession) -> None:
    rows = [row(state="failed", attempts=1, late=7, body=b"abc"), row(hour=2, state="cancelled"), row("busy", hour=3)]
    each = used(frame(spark, rows))
    day = F.timestamp_seconds("at").alias("day")
    wanted = frame_of(
        spark,
        [(name, seconds(TODAY), name != "early") for name in ("shop", "busy", "idle", "early")],
        "client_id string, at long, settled boolean",
    ).select("client_id", day, "settled")
    counted = days(wanted, usage(each), failing_hosts(each), counted_at=F.timestamp_millis(F.lit(5)))
    assert told(counted, "client_id", "day", "complete", *COUNTS, "lateness_p50_ms") == {
        ("shop", 21, True, 2, 0, 1, 1, 0, 0, 1, 3, 7),
        ("busy", 21, False, 1, 0, 0, 0, 0, 1, 0, 0, None),
        ("idle", 21, True, 0, 0, 0, 0, 0, 0, 0, 0, None),
        ("early", 21, False, 0, 0, 0, 0, 0, 0, 0, 0, None),
    }
    documents = {one.client_id: (json.loads(one.hours), json.loads(one.failing_hosts)) for one in counted.collect()}
    zeros = dict.fromkeys(COUNTS, 0)
    late = dict.fromkeys([f"lateness_{of}_ms" for of in ("p50", "p95", "p99", "max")], 7)
    assert documents["shop"] == (
        [
            {"hour": 2, **zeros, "accepted": 1, "cancelled": 1},
            {"hour": 9, **zeros, "accepted": 1, "failed": 1, "attempts": 1, "bytes": 3, **late},
        ],
        [{"host": "shop.example", "failed": 1}],
    )
    assert documents["idle"] == ([], [])
    months = counted.select("month").distinct().select(F.unix_seconds("month")).collect()
    assert [tuple(one) for one in months] == [(seconds(TODAY.replace(day=1)),)]


def test_a_day_of_which_more_was_counted_stays(spark: SparkSession) -> None:
    def some(*rows: tuple[str, int]) -> DataFrame:
        return frame_of(spark, [(client, TODAY, accepted) for client, accepted in rows], schema)

    schema = "client_id string, day timestamp, accepted long"
    found = growing(
        some(("less", 4), ("same", 5), ("more", 6), ("new", 0)), some(*((n, 5) for n in ("less", "same", "more")))
    )
    assert {(one.client_id, one.accepted) for one in found.collect()} == {("same", 5), ("more", 6), ("new", 0)}


def client(**other: Any) -> KnownClient:
    values = {"poller_quota": 2, "pollers": 2, "retention_days": 7, "created": seconds(TODAY) - 3 * DAY_SECONDS + 5}
    return KnownClient(**{"client_id": "shop", "state": ClientState.ACTIVE, **values, **other})


def of(day: int, client_id: str = "shop") -> Day:
    return Day(client_id, seconds(TODAY) + day * DAY_SECONDS)


def chosen(client: KnownClient, **other: Any) -> Plan:
    plan = Plan([])
    given = {
        "kept": oldest_whole_day(client, TODAY + timedelta(hours=9)),
        "stored": {},
        "busy": set(),
        "explicit": False,
    }
    window = Window(TODAY - timedelta(days=8), TODAY + timedelta(days=1))
    choose(plan, client, window, **{"again": False, **given, **other})
    return plan


def test_days_before_a_client_count_where_they_have_rows() -> None:
    assert chosen(client()).wanted == [of(day) for day in (-3, -2, -1, 0)]
    assert chosen(client(), busy={of(-5), of(-8)}).wanted == [of(day) for day in (-5, -3, -2, -1, 0)]


def test_days_that_are_complete_count_once() -> None:
    stored = {of(-2): Stored(True, 5), of(-1): Stored(False, 5)}
    plan = chosen(client(), stored=stored)
    assert (plan.wanted, plan.complete, plan.expired) == ([of(-3), of(-1), of(0)], 1, 0)
    assert chosen(client(), stored=stored, again=True).wanted == [of(day) for day in (-3, -2, -1, 0)]


def test_days_past_the_retention_stay() -> None:
    old = client(created=0, retention_days=2)
    assert chosen(old).wanted == [of(-1), of(0)]
    asked = chosen(old, explicit=True, again=True, stored={of(-5): Stored(True, 1)}, busy={of(-5)})
    assert (asked.wanted, asked.expired) == ([of(-1), of(0)], 7)


def test_a_day_must_be_short_of_the_retention_while_it_is_read() -> None:
    two = client(retention_days=2)
    assert [oldest_whole_day(two, TODAY + timedelta(minutes=at)) for at in (-61, -60, -59, 0)] == [
        *(of(-2).at, of(-2).at, of(-1).at),
        of(-1).at,
    ]


def test_days_without_rows_are_one_piece() -> None:
    wanted = [of(-2), of(-1), of(0), of(-2, "other"), of(-1, "other"), of(0, "other")]
    busy = {of(-1), of(0), of(0, "other")}
    assert pieces(wanted, busy) == [
        [of(-2), of(-2, "other"), of(-1, "other")],
        [of(-1)],
        [of(0), of(0, "other")],
    ]
    assert pieces([], busy) == []


def counts(found: Any) -> dict[str, int]:
    """Counts summed over all days: a run near midnight counts in two."""
    return {name: sum(one[name] if isinstance(one, dict) else getattr(one, name) for one in found) for name in COUNTS}


def api_usage(cluster: Deployment, key: str) -> tuple[DayUsage, ...]:
    with cluster.client("shop", key) as client:
        return client.usage(end=datetime.now(UTC).date() + timedelta(days=3))


def test_the_days_of_the_real_system(spark: SparkSession, cluster: Deployment) -> None:
    cluster.start_api()
    cluster.start_node("node-a")
    key, _ = cluster.register("shop", poller_quota=2), cluster.register("idle", poller_quota=1)
    now, url = datetime.now(UTC), cluster.receiver.url
    later = (now + timedelta(days=3)).replace(hour=12, minute=0)
    with cluster.client("shop", key) as client:
        for _ in range(3):
            client.schedules.create(Callback(url=url, body="12345"), delay_seconds=0.5)
        again = {"max_attempts": 3, "base_seconds": 0.1, "cap_seconds": 0.1}
        retried = client.schedules.create(Callback(url=f"{url}/flaky"), delay_seconds=0.5, retry=again)
        failed = client.schedules.create(Callback(url=f"{url}/flaky"), delay_seconds=0.5, retry={"max_attempts": 1})
        gone, late = (client.schedules.create(Callback(url=url), delay_seconds=3600) for _ in range(2))
        client.schedules.cancel(gone.schedule_id)
        client.schedules.create(Callback(url=url), due=later)
        for one, state in ((retried, "delivered"), (failed, "failed")):
            await_state(client, one.schedule_id, state)
        assert cluster.receiver.await_count(5, seconds=40) == 5
    expected = {"accepted": 7, "delivered": 4, "failed": 1, "cancelled": 1, "skipped": 0, "open": 1}
    expected |= {"attempts": 6, "bytes": 15}
    report = run_job(spark, cluster, "usage", "--from", f"{now:%Y-%m-%d}", now=now + timedelta(hours=1))
    assert counts(report["days"]) == expected
    assert {one["complete"] for one in report["days"]} == {0}
    assert (report["already_complete"], report["past_retention"], report["kept"]) == (0, 0, 0)
    shown = api_usage(cluster, key)
    assert counts(shown) == expected
    assert counts([hour for day in shown for hour in day.hours]) == expected
    assert [(host.host, host.failed) for day in shown for host in day.failing_hosts] == [("127.0.0.1", 1)]
    (lateness,) = (day.lateness for day in shown if day.lateness is not None)
    assert 0 <= lateness.p50_seconds <= lateness.p99_seconds <= lateness.max_seconds < 120

    with cluster.client("shop", key) as client:
        client.schedules.cancel(late.schedule_id)
    cluster.stop_one("node-a")
    settle(cluster, before=later.replace(hour=0))
    expected |= {"cancelled": 2, "open": 0}
    *past, present = run_job(spark, cluster, "usage", now=later)["days"]
    assert counts(past) == expected
    assert {(one["clients"], one["complete"]) for one in past} == {(2, 2)}
    assert (present["accepted"], present["open"], present["complete"]) == (1, 1, 0)

    forget(cluster, before=later.replace(hour=0))
    repeated = run_job(spark, cluster, "usage", now=later)
    assert repeated["days"] == [present]
    assert (repeated["already_complete"], repeated["kept"]) == (2 * len(past), 0)
    again = run_job(spark, cluster, "usage", "--from", past[0]["day"], "--again", "--client", "shop", now=later)
    assert again["kept"] >= 1
    with cluster.client("shop", key) as client:
        kept = client.usage(start=past[0]["day"], end=present["day"])
    assert counts(kept) == expected
    assert [day.complete for day in kept] == [True] * len(past)


def forget(cluster: Deployment, *, before: datetime) -> None:
    """Delete the partitions, as retention does."""
    with session_of(cluster.storage.contact_points[0], cluster.storage.port) as cql:
        keyspace = cluster.storage.keyspace
        for one in cql.execute(f"SELECT DISTINCT client_id, poller_id, minute FROM {keyspace}.schedules"):
            if one.minute.replace(tzinfo=UTC) < before:
                where = "client_id = %s AND poller_id = %s AND minute = %s"
                cql.execute(f"DELETE FROM {keyspace}.schedules WHERE {where}", tuple(one))


def settle(cluster: Deployment, *, before: datetime) -> None:
    """Move every poller on, as if nodes had run until then."""
    with session_of(cluster.storage.contact_points[0], cluster.storage.port) as cql:
        keyspace = cluster.storage.keyspace
        for one in cql.execute(f"SELECT client_id, poller_id, owner_node FROM {keyspace}.pollers"):
            cql.execute(
                f"UPDATE {keyspace}.pollers SET watermark = %s, lagging = true WHERE client_id = %s AND poller_id = %s",
                (seconds(before) // 60, one.client_id, one.poller_id),
            )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--client", "nobody", "--client", "shop"], "there is no client 'nobody'"),
        (["--to", "2026-11-21"], "--to and --again need --from"),
        (["--again"], "--to and --again need --from"),
        (["--from", "2026-11-21", "--to", "2026-11-21"], "--to must be after --from"),
        (["--from", "2026-11-20", "--to", "2026-11-23"], "days are counted up to today, 2026-11-21"),
        (["--from", "2025-11-01", "--to", "2026-11-20"], "more than 366 days"),
        (["--from", "2026-11-01", "--to", "2026-11-03"], "past its client's retention"),
    ],
)
def test_what_can_not_be_counted(spark: SparkSession, shop: Deployment, arguments: list[str], sentence: str) -> None:
    with pytest.raises(JobRefused, match=sentence):
        run_job(spark, shop, "usage", *arguments, now=TODAY + timedelta(hours=9))


@pytest.mark.parametrize(
    "arguments", [["--from", "yesterday"], ["--from", "2026-11-21T09:00Z"], ["--day", "2026-11-21"]]
)
def test_what_is_no_day(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        run_job(None, None, "usage", *arguments)  # type: ignore[arg-type]
