"""The bulk load: the parsing of its input, and the job end to end, over the real API and its tables."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from scheduler_service.domain.network import NetworkPolicy
from spark.io.bulk_input import UnreadableInput, read_input
from spark.io.tables import Tables
from spark.jobs import bulk_load
from spark.jobs.job import Context, JobRefused, Report
from spark.program import parse
from spark.transforms.bulk import crowded, keyed, repeats, spans
from tests.spark.broken_parts import dying_part
from tests.spark.frames import frame_of
from tests.support.cassandra import SuiteCassandra, session_of
from tests.support.processes import Deployment, deployment

URL = "https://receiver.example/hook"
LOOPBACK = NetworkPolicy.parse(allow=("127.0.0.0/8",))


def text_file(directory: Path, name: str, lines: Sequence[str]) -> str:
    path = directory / name
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def table_file(frame: DataFrame, directory: Path, name: str = "input.parquet") -> str:
    frame.write.parquet(str(directory / name))
    return str(directory / name)


def read(spark: SparkSession, path: str, form: str, key: str = "id") -> list[tuple[Any, ...]]:
    shown = read_input(spark, path, form=form, key=key).orderBy("id")
    return [tuple(row) for row in shown.select("key", F.unix_millis("due"), "row", "broken").collect()]


def test_parquet_as_it_is_read(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        (7, 1_800_000_000_000_001, URL, b"\x00\xff", {"x-a": "1"}, 2.5, [404]),
        (None, None, None, None, None, None, None),
    ]
    kinds = "id long, at long, url string, body binary, headers map<string,string>, timeout_seconds double, "
    frame = spark.createDataFrame(rows, f"{kinds} retry_final_statuses array<int>")
    path = table_file(frame.withColumn("due", F.timestamp_micros("at")).drop("at"), tmp_path)
    asked = {
        "due": "2027-01-15T08:00:00.000001Z",
        "url": URL,
        "headers": {"x-a": "1"},
        "timeout_seconds": 2.5,
        "retry_final_statuses": [404],
        "body_base64": "AP8=",
    }
    found = read(spark, path, "parquet")
    assert [(key, due, json.loads(row), broken) for key, due, row, broken in found] == [
        ("7", 1_800_000_000_000, asked, None),
        (None, None, {}, None),
    ]


def test_csv_as_it_is_read(spark: SparkSession, tmp_path: Path) -> None:
    lines = [
        "id,due,url,body,timeout_seconds",
        '1,2027-01-15T09:00:00+01:00,https://a.example/,"two ""lines"",\nas quoted",3',
        "2,soon,,,",
        "3,2027-01-15T08:00:00Z",
    ]
    path = text_file(tmp_path, "input.csv", lines)
    first, second, third = read(spark, path, "csv")
    due = "2027-01-15T09:00:00+01:00"
    body = 'two "lines",\nas quoted'
    assert (first[0], first[1], json.loads(first[2]), first[3]) == (
        *("1", 1_800_000_000_000),
        {"due": due, "url": "https://a.example/", "body": body, "timeout_seconds": "3"},
        None,
    )
    assert second == ("2", None, '{"due":"soon"}', None)
    assert third[3] == "its number of cells differs from the header's"


def test_lines_as_they_are_read(spark: SparkSession, tmp_path: Path) -> None:
    lines = ['{"id": 7, "due": "2027-01-15T08:00:00Z", "callback": {"json": [1.0]}}', "", "no json", '{"id": {"a": 1}}']
    path = text_file(tmp_path, "input.jsonl", lines)
    assert read(spark, path, "jsonl") == [
        ("7", 1_800_000_000_000, lines[0], None),
        (None, None, "", None),
        (None, None, "no json", None),
        ('{"a":1}', None, lines[3], None),
    ]


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ("id long, due timestamp", "no column 'url' or 'destination'"),
        ("id long, due timestamp, url string, latest string", "'latest', which is only for schedules with a key"),
        ("due timestamp, url string", "no column 'id'"),
        ("id long, due timestamp, url string, lable string", "mean nothing here: 'lable'"),
        ("id long, due long, url string", "'due' is bigint; it must be an instant"),
        ("id long, due timestamp_ntz, url string", "'due' is timestamp_ntz"),
        ("id double, due timestamp, url string", "'id' is double"),
        ("id long, due timestamp, url string, label int", "'label' is int; it must be text"),
        ("id long, due timestamp, url string, retry_max_attempts boolean", "must be a number"),
        ("id long, due timestamp, url string, headers map<string,int>", "must be a map of texts"),
        ("id long, due timestamp, url string, body binary, body_base64 string", "give bytes once"),
    ],
)
def test_columns_that_are_no_load(spark: SparkSession, tmp_path: Path, columns: str, told: str) -> None:
    path = table_file(frame_of(spark, [], columns), tmp_path)
    with pytest.raises(UnreadableInput, match=told):
        read_input(spark, path, form="parquet", key="id")


def test_keys_that_come_twice(spark: SparkSession) -> None:
    at = datetime(2027, 1, 15, 8, 0, 59, 999_000)
    rows = [
        ("b", 0, 0, "x", at, "as a2"),
        ("a", 5, 9, "x", at, "as a2"),
        ("a", 5, 8, "y", at, "once"),
        ("a", 0, 99, "x", at + timedelta(milliseconds=1), "as a1"),
        ("a", 5, 10, "x", None, "as a1"),
        ("a", 0, 98, " ", at, "1"),
        ("a", 0, 97, None, at, " "),
    ]
    kinds = "file string, block long, id long, key string, due timestamp, row string, broken string"
    known = keyed(frame_of(spark, [(*row, None) for row in rows], kinds))
    assert {tuple(row) for row in repeats(known).collect()} == {(99, "first"), (9, "other"), (10, "same"), (0, "other")}
    assert {tuple(row) for row in spans(known).collect()} == {("a", 0, 97, 3), ("a", 5, 8, 3), ("b", 0, 0, 1)}
    assert {(row.minute.minute, row.rows) for row in crowded(known).collect()} == {(0, 5), (1, 1)}
    assert [row.id for row in known.where("blank").collect()] == [97]


@pytest.fixture(scope="module")
def system(cassandra: SuiteCassandra, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """One deployment for all tests; each test has a client of its own."""
    with deployment(cassandra, tmp_path_factory.mktemp("loads")) as built:
        built.start_api()
        yield built


def load(
    spark: SparkSession, system: Deployment, path: str, form: str, client: str, *arguments: str, **bounds: int
) -> tuple[Report, list[str]]:
    """Run a load; returns the report and what was logged."""
    command = ["bulk_load", "--input", path, "--format", form, "--client", client, "--key", "id", *arguments]
    job, known = parse(command, program="test")
    said: list[str] = []
    context = Context(
        session=spark,
        tables=Tables(spark, system.storage.keyspace),
        storage=system.storage,
        now=datetime.now(UTC),
        say=said.append,
        policy=LOOPBACK,
    )
    report = bulk_load.run(context, known, **bounds)
    assert all(isinstance(line, str) for line in job.render(report))
    return report, said


def counts(report: Report) -> tuple[int, ...]:
    return tuple(report[name] for name in ("rows", "added", "present", "repeated", "rejected"))


def rejected(report: Report) -> dict[tuple[int, str], list[str]]:
    directory = Path(report["rejects"])
    assert (directory / "_SUCCESS").exists()
    lines = [json.loads(line) for file in directory.glob("*.json") for line in file.read_text().splitlines()]
    return {(line["row"], line["key"]): line["reasons"] for line in lines}


def stored(system: Deployment, client: str, table: str = "schedules") -> list[str]:
    """A client's rows, as text."""
    storage = system.storage
    with session_of(storage.contact_points[0], storage.port) as session:
        rows = [row[0] for row in session.execute(f"SELECT JSON * FROM {storage.keyspace}.{table}")]
    return sorted(row for row in rows if json.loads(row)["client_id"] == client)


def in_an_hour(**more: int) -> datetime:
    return datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(hours=1, **more)


def test_three_formats_make_the_schedules_that_a_create_makes(
    spark: SparkSession, system: Deployment, tmp_path: Path
) -> None:
    key = system.register("formats", poller_quota=4)
    due = in_an_hour()
    text = due.isoformat()
    flat = {"due": text, "url": system.receiver.url, "body": "é", "headers": '{"x-a": "1"}', "timeout_seconds": "3"}
    asked = {"due": text, "timeout_seconds": 3, "callback": {"url": flat["url"], "body": "é", "headers": {"x-a": "1"}}}
    table = spark.createDataFrame([("1", *flat.values())], ["id", *flat]).withColumn("due", F.to_timestamp("due"))
    escaped = ",".join('"' + value.replace('"', '""') + '"' for value in ("1", *flat.values()))
    files = {
        "parquet": table_file(table.withColumn("timeout_seconds", F.lit(3)), tmp_path),
        "csv": text_file(tmp_path, "input.csv", [",".join(("id", *flat)), escaped]),
        "jsonl": text_file(tmp_path, "input.jsonl", [json.dumps({"id": "1", **asked})]),
    }
    for form, path in files.items():
        report, _ = load(spark, system, path, form, "formats")
        assert counts(report) == (1, 1, 0, 0, 0), form
    with system.client("formats", key) as client:
        found = list(client.schedules.list(start=due, end=due + timedelta(minutes=1)))
        assert len({one.schedule_id for one in found}) == 3
        for one in found:
            known = client.schedules.get(one.schedule_id)
            assert (known.due, known.state) == (due, "scheduled")
            assert (known.callback.url, known.callback.body, known.callback.headers) == (flat["url"], "é", {"x-a": "1"})
            assert client.schedules.cancel(one.schedule_id).state == "cancelled"


def test_another_run_adds_nothing_and_changes_nothing(spark: SparkSession, system: Deployment, tmp_path: Path) -> None:
    key = system.register("again", poller_quota=4)
    due = in_an_hour()
    numbers = spark.range(3_000, numPartitions=3)
    rows = numbers.select(
        "id",
        F.timestamp_seconds(F.lit(round(due.timestamp())) + F.col("id") % 600).alias("due"),
        F.lit(URL).alias("url"),
        F.concat(F.lit("label "), "id").alias("label"),
        F.when(F.col("id") % 10 == 0, F.concat(F.lit("cart "), F.col("id") % 7)).alias("ordering_key"),
    )
    path = table_file(rows, tmp_path)
    first, said = load(spark, system, path, "parquet", "again", "--load", "orders", piece_rows=500)
    assert counts(first) == (3_000, 3_000, 0, 0, 0)
    assert (first["pollers"], first["fullest_minute_rows"], first["rejects"]) == (4, 300, None)
    assert "load 'orders' begins, over 4 pollers" in said[0]
    assert len(said) == 3
    before = stored(system, "again"), stored(system, "again", "occupied_minutes")
    assert (len(before[0]), len(before[1])) == (3_000, 40)
    with system.client("again", key) as client:
        gone = next(iter(client.schedules.list(start=due, end=due + timedelta(minutes=1))))
        client.schedules.cancel(gone.schedule_id)
    with system.admin() as api:
        api.clients.register("again", poller_quota=8)
    before = stored(system, "again"), before[1]
    again, said = load(spark, system, path, "parquet", "again", "--load", "orders")
    assert counts(again) == (3_000, 0, 3_000, 0, 0)
    assert (again["pollers"], again["first_run"], again["started_at"]) == (4, False, first["started_at"])
    assert "was whole: what is there stays" in said[0]
    assert (stored(system, "again"), stored(system, "again", "occupied_minutes")) == before
    for arguments, told in (
        (["--key", "label"], "was begun at .* with --key id"),
        (["--pollers", "2"], "with 4 pollers"),
    ):
        with pytest.raises(JobRefused, match=told):
            load(spark, system, path, "parquet", "again", "--load", "orders", *arguments)


def test_what_is_no_schedule_is_beside_with_its_reason(spark: SparkSession, system: Deployment, tmp_path: Path) -> None:
    key = system.register("rejects", poller_quota=2)
    with system.admin() as api:
        api.client("rejects").destinations.put("orders", {"url": URL, "method": "PUT"})
    due, near, far = (one.isoformat() for one in (in_an_hour(), in_an_hour(minutes=-51), in_an_hour(days=800)))
    lines = [
        "id,due,url,timeout_seconds,headers,label,destination,path",
        f"good,{due},{URL},,,,,",
        f"type,{due},{URL},abc,,,,",
        f"url,{due},http://10.0.0.1/,,,,,",
        f"near,{near},{URL},,,,,",
        f"far,{far},{URL},,,,,",
        f"good,{due},{URL},,,,,",
        f"good,{due},{URL},,,other,,",
        f",{due},{URL},,,,,",
        "several,soon,ftp://x/,99,{,,,",
        f"short,{due}",
        f"named,{due},,,,,orders,/17?a=b",
        f"gone,{due},,,,,order,",
        f"path,{due},,,,,orders,/../17",
        f"both,{due},{URL},,,,orders,",
    ]
    path = text_file(tmp_path, "input.csv", lines)
    judged, said = load(spark, system, path, "csv", "rejects", "--dry-run", "--rejects", str(tmp_path / "judged"))
    assert counts(judged) == (14, 2, 0, 1, 11)
    assert "nothing is written" in said[0]
    assert stored(system, "rejects") == stored(system, "rejects", "bulk_loads") == []
    report, _ = load(spark, system, path, "csv", "rejects")
    assert counts(report) == (14, 2, 0, 1, 11)
    assert report["rejects"].startswith(f"{path}.rejects/")
    found = rejected(report)
    assert {place: [reason.partition(":")[0] for reason in reasons] for place, reasons in found.items()} == {
        (2, "type"): ["timeout_seconds"],
        (3, "url"): ["url"],
        (4, "near"): ["due"],
        (5, "far"): ["due"],
        (7, "good"): ["its key is that of an earlier row, which asks for something else"],
        (8, ""): ["has no key"],
        (9, "several"): ["headers"],
        (10, "short"): ["its number of cells differs from the header's"],
        (12, "gone"): ["destination"],
        (13, "path"): ["path"],
        (14, "both"): ["url"],
    }
    assert found[12, "gone"] == ["destination: there is no destination 'order'"]
    assert found[2, "type"] == ["timeout_seconds: must be a number or null, not a string"]
    assert found[4, "near"][0].startswith("due: is less than 10 minutes ahead; it is ")
    assert len(stored(system, "rejects")) == 2
    with system.client("rejects", key) as client:
        start = datetime.fromisoformat(due)
        window = client.schedules.list(start=start, end=start + timedelta(minutes=1), destination="orders")
        known = client.schedules.get(next(iter(window)).schedule_id)
        assert (known.callback.destination, known.callback.path) == ("orders", "/17?a=b")


def test_a_load_that_can_not_be_is_refused(spark: SparkSession, system: Deployment, tmp_path: Path) -> None:
    path = text_file(tmp_path, "input.csv", ["id,due,url"])
    with pytest.raises(JobRefused, match="there is no client 'refused'"):
        load(spark, system, path, "csv", "refused")
    system.register("refused", poller_quota=2)
    for arguments, told in (
        ((path, "csv", "--pollers", "3"), "more than the 2 pollers"),
        ((str(tmp_path / "absent"), "parquet"), "can't be read as parquet"),
        ((text_file(tmp_path, "less.csv", ["id,url"]), "csv"), "has no column 'due' or 'due_local'"),
        ((path, "jsonl", "--key", "key"), "--key key: in a line this field is not for loads"),
        ((path, "csv", "--load", "x" * 257), "1 to 256 printable characters"),
    ):
        with pytest.raises(JobRefused, match=told):
            load(spark, system, *arguments[:2], "refused", *arguments[2:])
    empty, _ = load(spark, system, path, "csv", "refused")
    assert counts(empty) == (0, 0, 0, 0, 0)
    with system.admin() as api:
        api.clients.suspend("refused")
        with pytest.raises(JobRefused, match="is suspended"):
            load(spark, system, path, "csv", "refused")
        api.clients.delete("refused")
    with pytest.raises(JobRefused, match="there is no client 'refused'"):
        load(spark, system, path, "csv", "refused")


def test_a_run_that_is_cut_short_says_so_and_the_next_one_completes_it(
    spark: SparkSession, system: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system.register("short", poller_quota=2)
    due = round(in_an_hour().timestamp())
    rows = spark.range(400).select(
        F.col("id").cast("string").alias("id"),
        F.timestamp_seconds(F.lit(due) + F.col("id") * 60).alias("due"),
        F.lit(URL).alias("url"),
    )
    path = table_file(rows, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(bulk_load, "load_part", dying_part)
        with pytest.raises(JobRefused, match="of 400 rows are loaded, then: the executor is gone"):
            load(spark, system, path, "parquet", "short", "--load", "orders", piece_rows=100)
    some = stored(system, "short")
    assert 0 < len(some) < 400
    assert '"state": "partial"' in stored(system, "short", "bulk_loads")[0]
    report, said = load(spark, system, path, "parquet", "short", "--load", "orders")
    assert "did not come to its end: what is there stays as it is, what is missing is added" in said[0]
    rows, added, present, repeated, rejected = counts(report)
    assert (rows, added + present, repeated, rejected) == (400, 400, 0, 0)
    # Another task of the run may have written for a moment longer.
    assert present >= len(some)
    whole = stored(system, "short")
    assert set(some) < set(whole)
    assert '"state": "whole"' in stored(system, "short", "bulk_loads")[0]


def test_what_is_loaded_is_called(spark: SparkSession, system: Deployment, tmp_path: Path) -> None:
    system.register("called", poller_quota=2)
    system.start_node("node-1")
    # In a minute that its owner has not read yet: loaded rows are not hinted.
    soonest = datetime.now(UTC) + timedelta(seconds=25)
    due = (soonest.replace(second=0, microsecond=0) + timedelta(minutes=1)).isoformat()
    lines = [
        json.dumps({"id": number, "due": due, "callback": {"url": system.receiver.url, "json": {"n": number}}})
        for number in range(20)
    ]
    report, _ = load(spark, system, text_file(tmp_path, "input.jsonl", lines), "jsonl", "called", ahead_ms=0)
    assert counts(report) == (20, 20, 0, 0, 0)
    assert system.receiver.await_count(20, seconds=120) == 20


def test_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    good = ["bulk_load", "--input", "a", "--format", "csv", "--client", "shop", "--key", "id"]
    _, known = parse(good, program="test")
    assert (known.rate, known.pollers, known.dry_run) == (bulk_load.RATE, None, False)
    for wrong, told in (
        (["--rate", "0"], "at least 1"),
        (["--rate", "fast"], "number of rows"),
        (["--pollers", "1025"], "from 1 to 1024"),
        (["--format", "xml"], "invalid choice"),
    ):
        with pytest.raises(SystemExit):
            parse([*good, *wrong], program="test")
        assert told in capsys.readouterr().err
