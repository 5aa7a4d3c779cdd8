"""The jobs `archive` and `restore` on rows of the real system: interrupted, run twice at once, on changed or damaged
files.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from minutehand.client import Callback
from spark.io.archive import MANIFEST, STAGING, damage, find, folder, read_folders
from spark.io.files import Files
from spark.io.marks import Marks, open_marks
from spark.io.tables import Tables
from spark.jobs import archive_folders
from spark.jobs.archive import SO_FAR
from spark.jobs.archive_folders import Folders
from spark.jobs.job import JobRefused
from spark.transforms.archive import COLUMNS, READS, SCHEMA, archived
from spark.transforms.rows import packed_in, unpacked
from spark.window import Window
from tests.spark.jobs import await_state, run_job
from tests.spark.test_usage import settle
from tests.support.cassandra import SuiteCassandra, session_of
from tests.support.processes import Deployment, deployment

DAY = datetime(2026, 11, 21, tzinfo=UTC)
TODAY = DAY + timedelta(days=1)


def rows_of(found: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(map(repr, one)) for one in found.select(*COLUMNS).collect()), key=str)


class Shop:
    """A deployment whose rows were made by the real system: delivered at once, after a retry, failed, cancelled."""

    def __init__(self, spark: SparkSession, cluster: Deployment, directory: Path) -> None:
        self.spark = spark
        self.cluster = cluster
        self.directory = directory
        cluster.start_api()
        cluster.start_node("node-a")
        self.key = cluster.register("shop", poller_quota=2)
        cluster.register("idle", poller_quota=1)
        other = cluster.register("other", poller_quota=1)
        now, url = datetime.now(UTC), cluster.receiver.url
        self.later = (now + timedelta(days=3)).replace(hour=12, minute=0, second=0, microsecond=0)
        self.start = f"{now:%Y-%m-%d}"
        headers = {"X-Order": "7"}
        with cluster.client("shop", self.key) as client:
            for number in range(3):
                callback = Callback(url=url, body="1234", headers=headers)
                self.delivered = client.schedules.create(callback, delay_seconds=0.5, label=f"order-{number}")
            again = {"max_attempts": 3, "base_seconds": 0.1, "cap_seconds": 0.1}
            retried = client.schedules.create(Callback(url=f"{url}/flaky"), delay_seconds=0.5, retry=again)
            failed = client.schedules.create(Callback(url=f"{url}/flaky"), delay_seconds=0.5, retry={"max_attempts": 1})
            gone = client.schedules.create(Callback(url=url), delay_seconds=600)
            client.schedules.cancel(gone.schedule_id)
            for one, state in ((retried, "delivered"), (failed, "failed")):
                await_state(client, one.schedule_id, state)
        with cluster.client("other", other) as client:
            self.open = client.schedules.create(Callback(url=url), due=now + timedelta(hours=2))
        assert cluster.receiver.await_count(5, seconds=40) == 5
        cluster.stop_one("node-a")
        settle(cluster, before=self.later.replace(hour=0))

    def archive(self, *arguments: str, now: datetime | None = None) -> dict[str, Any]:
        given = ("archive", "--output", str(self.directory), *arguments)
        return run_job(self.spark, self.cluster, *given, now=now or self.later)

    def restore(self, *arguments: str, end: str | None = None) -> dict[str, Any]:
        end = end or f"{self.later:%Y-%m-%d}"
        given = ("restore", "--input", str(self.directory), "--from", self.start, "--to", end)
        return run_job(self.spark, self.cluster, *given, *arguments, now=self.later)

    def folders(self) -> list[Path]:
        return sorted(self.directory.glob("day=*/client_id=shop"))

    def cql(self, statement: str, *values: Any) -> list[Any]:
        with session_of(self.cluster.storage.contact_points[0], self.cluster.storage.port) as session:
            return list(session.execute(statement.replace("KS", self.cluster.storage.keyspace), values))

    def source(self) -> DataFrame:
        """The shop's rows, read independently of the job."""
        options = {"keyspace": self.cluster.storage.keyspace, "table": "schedules"}
        every = self.spark.read.format("org.apache.spark.sql.cassandra").options(**options).load()
        shops = every.where(F.col("client_id") == "shop")
        key = ("client_id", "poller_id", "minute", "due", "schedule_id")
        return archived(unpacked(shops.select(*key, *READS, *packed_in(READS))))

    def back(self) -> DataFrame:
        start = datetime.fromisoformat(self.start).replace(tzinfo=UTC)
        files = Files(self.spark, str(self.directory))
        whole, torn = find(files, Window(start, start + timedelta(days=3)), ["shop"])
        assert torn == []
        return read_folders(self.spark, files.root, [folder(one.day, one.client_id) for one in whole])

    def change(self, at: datetime) -> tuple[Any, ...]:
        """Change the end of the delivered schedule, as if it had been redelivered and failed."""
        where = self.key_of(self.delivered.schedule_id)
        self.cql(
            "UPDATE KS.schedules SET state = 'failed', finished_at = %s, redelivered_at = %s WHERE client_id = %s "
            "AND poller_id = %s AND minute = %s AND due = %s AND schedule_id = %s",
            *(at, at, *where),
        )
        return where

    def key_of(self, schedule_id: Any) -> tuple[Any, ...]:
        found = self.source().where(F.col("schedule_id") == str(schedule_id)).collect()
        return ("shop", found[0].poller_id, found[0].minute, found[0].due, UUID(str(schedule_id)))


@pytest.fixture(scope="module")
def made(
    spark: SparkSession, cassandra: SuiteCassandra, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Shop, list[Row]]]:
    directory = tmp_path_factory.mktemp("archive")
    with deployment(cassandra, directory) as cluster:
        shop = Shop(spark, cluster, directory)
        yield shop, shop.source().drop("day").collect()


@pytest.fixture
def shop_rows(made: tuple[Shop, list[Row]], tmp_path: Path) -> Shop:
    """The rows as they were made, with nothing archived."""
    shop, rows = made
    shop.directory = tmp_path / "archive"
    shop.cql("TRUNCATE KS.archived_days")
    tables = Tables(shop.spark, shop.cluster.storage.keyspace)
    tables.append(shop.spark.createDataFrame(rows, shop.source().drop("day").schema), "schedules")
    return shop


def test_days_of_the_real_system(shop_rows: Shop, tmp_path: Path) -> None:
    shop = shop_rows
    source = rows_of(shop.source())
    report = shop.archive()
    assert report["rows"] == len(source) >= 7
    assert (report["not_yet"], sum(day["open"] for day in report["days"])) == (1, 1)
    assert not (shop.directory / STAGING).joinpath("x").exists()
    assert list((shop.directory / STAGING).iterdir()) == []
    assert not list(shop.directory.glob("day=*/client_id=other"))
    assert not list(shop.directory.glob("day=*/client_id=idle"))
    assert rows_of(shop.back()) == source
    assert shop.back().dtypes == shop.spark.createDataFrame([], SCHEMA).dtypes
    found, states = shop.restore("--client", "shop"), Counter[tuple[str, str]]()
    for one in found["counts"]:
        states[one["client_id"], one["state"]] += one["rows"]
    assert states == {("shop", "delivered"): 4, ("shop", "failed"): 1, ("shop", "cancelled"): 1}
    assert (found["schedules"], found["rows_verified"], found["problems"]) == (6, len(source), [])

    files = {path: path.read_bytes() for folder in shop.folders() for path in folder.iterdir()}
    again = shop.archive()
    assert (again["archived"], again["rows"], again["not_yet"]) == (0, 0, 1)
    assert again["already_archived"] == report["archived"]
    assert {path: path.read_bytes() for folder in shop.folders() for path in folder.iterdir()} == files
    with pytest.raises(JobRefused, match="of other: not archived; --partial reads what is whole"):
        shop.restore()
    some = shop.restore("--partial", "--state", "failed")
    assert [(one["client_id"], one["state"], one["rows"]) for one in some["counts"]] == [("shop", "failed", 1)]
    assert [one["client_id"] for one in some["problems"]] == ["other"]

    shop.restore("--client", "shop", "--output", str(tmp_path / "all.jsonl"))
    lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert len(lines) == 6
    assert {line["label"] for line in lines} == {"order-0", "order-1", "order-2", None}
    _tear(shop)


def test_what_has_ended_today_is_beside_the_archive(shop_rows: Shop, tmp_path: Path) -> None:
    """`--so-far` may be repeated, and does not archive the day."""
    directory = str(tmp_path / "archive")
    today = datetime.fromisoformat(shop_rows.start).replace(tzinfo=UTC)
    for _ in range(2):
        report = shop_rows.archive("--so-far", now=today.replace(hour=23))
        found = shop_rows.spark.read.parquet(f"{directory}/{SO_FAR}")
        assert report["so_far"] == found.count()
        # In a day's first hour, rows of a client made now may be in the day before, which is over and is archived.
        assert shop_rows.start not in {one["day"] for one in report["days"]}
        ended = found.where("kind = 'call'").groupBy("state").count().collect()
        states = {row["state"]: row["count"] for row in ended}
        assert states.keys() >= {"delivered", "failed"}, states
        assert found.where("state IS NULL OR state = 'scheduled'").isEmpty()
    assert find(Files(shop_rows.spark, directory), Window(today, today + timedelta(days=3))) == ([], [])


def _tear(shop: Shop) -> None:
    """Damage the archive; every missing or damaged file must be named."""
    files = Files(shop.spark, str(shop.directory))
    window = Window(datetime.fromisoformat(shop.start).replace(tzinfo=UTC), shop.later.replace(hour=0))
    (one, *_), (whole, torn) = shop.folders(), find(files, window)
    assert (len(whole), torn) == (len(shop.folders()), [])

    def sentence(damaged: Callable[[Path], object]) -> str:
        shutil.copytree(one, kept)
        damaged(one)
        (found,) = find(files, window)[1]
        shutil.rmtree(one)
        kept.rename(one)
        assert (found.client_id, f"day={found.day}") == ("shop", one.parent.name)
        return found.why

    def manifest(one: Path, **other: Any) -> None:
        next(one.glob(f".{MANIFEST}.crc")).unlink()
        text = (one / MANIFEST).read_text()
        (one / MANIFEST).write_text(json.dumps(json.loads(text) | other))

    kept, data = shop.directory / "kept", next(one.glob("*.parquet")).name
    assert sentence(lambda one: (one / MANIFEST).unlink()) == f"there is no {MANIFEST} that can be read"
    assert sentence(lambda one: (one / MANIFEST).write_text("{")).endswith("that can be read")
    assert sentence(lambda one: (one / data).unlink()).endswith("files are missing")
    assert sentence(lambda one: shutil.copy(one / data, one / "more.parquet")).startswith("its files differ from those")
    assert sentence(lambda one: (one / data).write_bytes(b"short")).startswith("its files differ from those")
    assert sentence(lambda one: manifest(one, client_id="other")).endswith("and other")
    assert sentence(lambda one: manifest(one, format=2)) == "it was written by a newer version (format 2)"
    first, *others = whole
    more, changed = msgspec.structs.replace(first, rows=first.rows + 1), msgspec.structs.replace(first, digest="1")
    assert [one.why for one in damage(shop.spark, files.root, [more, *others])] == [
        f"{first.rows} rows, of {more.rows} that were written"
    ]
    assert [one.why for one in damage(shop.spark, files.root, [changed])] == ["other rows than were written"]
    manifest(one, digest="1")
    with pytest.raises(JobRefused, match="of shop: another folder than was marked"):
        shop.restore("--client", "shop")
    shutil.rmtree(one)
    with pytest.raises(JobRefused, match=r"of shop: archived in file:.*, not here"):
        shop.restore("--client", "shop")


def test_a_day_that_changed_is_archived_again_with_what_was_deleted_since(shop_rows: Shop) -> None:
    shop = shop_rows
    shop.archive("--client", "shop")
    before = rows_of(shop.back())
    changed = shop.change(shop.later - timedelta(minutes=1))
    where = "WHERE client_id = %s AND poller_id = %s AND minute = %s"
    deleted = [one for one in shop.source().collect() if (one.poller_id, one.minute) != changed[1:3]]
    for one in deleted:
        shop.cql(f"DELETE FROM KS.schedules {where}", "shop", one.poller_id, one.minute)
    day = changed[3].replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=UTC)
    shop.cql("UPDATE KS.archived_days SET stale = true WHERE client_id = 'shop' AND day = %s", day)
    fresh = shop.archive("--client", "shop")
    assert ([one["fresh"] for one in fresh["days"]], fresh["archived"]) == ([1], 0)
    assert rows_of(shop.back()) == before
    renewed = shop.archive("--client", "shop", now=shop.later + timedelta(hours=1))
    assert (renewed["archived"], renewed["not_yet"]) == (1, 0)
    after = shop.back()
    assert after.count() == len(before)
    (now,) = after.where(F.col("schedule_id") == str(shop.delivered.schedule_id)).collect()
    assert (now.state, now.redelivered_at) == ("failed", (shop.later - timedelta(minutes=1)).replace(tzinfo=None))
    name = str(shop.delivered.schedule_id)
    assert rows_of(after.where(F.col("schedule_id") != name)) == [one for one in before if name not in str(one)]
    assert shop.restore("--client", "shop")["problems"] == []


def test_runs_that_were_cut_short(shop_rows: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = shop_rows
    source = rows_of(shop.source())

    class Killed(BaseException):
        pass

    def killed(*given: Any, **named: Any) -> None:
        raise Killed

    def cut(holder: Any, name: str) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(holder, name, killed)
            patch.setattr(Marks, "release", lambda self, clients: None)
            with pytest.raises(Killed):
                shop.archive("--client", "shop")

    cut(Folders, "publish")
    assert shop.folders() == []
    assert len(list((shop.directory / STAGING).iterdir())) == 1
    cut(Folders, "_mark")
    assert len(shop.folders()) == 1
    assert len(list((shop.directory / STAGING).iterdir())) == 1
    done = shop.archive("--client", "shop")
    assert done["rows"] == len(source)
    assert rows_of(shop.back()) == source
    assert list((shop.directory / STAGING).iterdir()) == []

    # Interrupted between the two renames of a day that is archived again: the earlier archive is restored first.
    shop.change(shop.later - timedelta(hours=5))
    moved: list[str] = []
    move = Files.move

    def first_move_only(self: Files, source: str, target: str) -> None:
        if moved:
            raise Killed
        moved.append(target)
        move(self, source, target)

    with monkeypatch.context() as patch:
        patch.setattr(Files, "move", first_move_only)
        patch.setattr(Marks, "release", lambda self, clients: None)
        with pytest.raises(Killed):
            shop.archive("--client", "shop", "--again", "--from", shop.start)
    assert "_replaced" in moved[0]
    assert not (shop.directory / moved[0].rpartition("_replaced/")[2]).exists()
    again = shop.archive("--client", "shop", "--again", "--from", shop.start)
    assert again["rows"] == len(source)
    assert rows_of(shop.back()) == rows_of(shop.source())
    assert list((shop.directory / STAGING).iterdir()) == []


def test_the_later_of_two_runs_wins(shop_rows: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = shop_rows
    shop.archive("--client", "shop")
    before = rows_of(shop.back())
    shop.change(shop.later - timedelta(hours=5))
    shop_again = ("--client", "shop", "--again", "--from", shop.start)
    mark, hold = Marks.mark, Marks.hold

    def taken_before(name: str, step: Callable[..., Any]) -> None:
        def after_another(self: Marks, given: Any) -> Any:
            with monkeypatch.context() as inner:
                inner.setattr(Marks, name, step)
                with open_marks(shop.cluster.storage, UUID(int=5)) as other:
                    other.take(["shop"])
            return step(self, given)

        with monkeypatch.context() as patch:
            patch.setattr(Marks, name, after_another)
            with pytest.raises(JobRefused, match="another run has taken over 'shop'"):
                shop.archive(*shop_again)
        assert rows_of(shop.back()) == before

    taken_before("hold", hold)
    taken_before("mark", mark)
    assert shop.archive(*shop_again)["archived"] >= 1
    assert rows_of(shop.back()) == rows_of(shop.source()) != before


def test_what_a_living_run_has_staged_stays(spark: SparkSession, tmp_path: Path) -> None:
    alive, dead, others = UUID(int=1), UUID(int=2), UUID(int=3)
    files = Files(spark, str(tmp_path))
    for run in (alive, dead, others):
        files.make(f"{files.root}/{STAGING}/{run}/{folder('2026-11-21', 'shop')}")
    for run, client in ((dead, "shop"), (others, "other")):
        files.make(f"{files.root}/{STAGING}/{run}/_replaced/{folder('2026-11-20', client)}")
    left = [one.name for one in files.list(f"{files.root}/{STAGING}")]
    archive_folders.sweep_up(files, left, owned=["shop"], alive={alive}, say=lambda line: None)
    assert {path.name for path in (tmp_path / STAGING).iterdir()} == {str(alive), str(others)}
    assert (tmp_path / folder("2026-11-20", "shop")).is_dir()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["archive", "--output", "DIR", "--client", "nobody"], "there is no client 'nobody'"),
        (["archive", "--output", "DIR", "--client", "\x24cron"], "built-in clients are not archived"),
        (["archive", "--output", "DIR", "--to", "2026-11-24"], "days are archived when they are over"),
        (["archive", "--output", "DIR", "--from", "2026-11-20", "--to", "2026-11-20"], "--to must be after --from"),
        (["archive", "--output", "DIR", "--from", "2025-01-01"], "more than 400 days"),
        (["archive", "--output", __file__, "--from", "2026-11-20"], "can't be written: .*(ot a directory|exist)"),
        (["archive", "--output", "none://there/at/all"], "none://there/at/all can't be used: No FileSystem for scheme"),
        (["restore", "--input", "DIR/none", "--from", "2026-11-20", "--to", "2026-11-21"], "there is no archive at"),
        (["restore", "--input", "DIR", "--from", "2026-11-20", "--to", "2026-11-20"], "--to must be after --from"),
        (["restore", "--input", "DIR", "--from", "2025-01-01", "--to", "2026-11-21"], "more than 400 days"),
        (
            ["restore", "--input", "DIR", "--from", "2026-11-20", "--to", "2026-11-21", "--output", "there"],
            "is to end in .parquet, .csv or .jsonl",
        ),
        (
            ["restore", "--input", "DIR", "--from", "2026-11-20", "--to", "2026-11-21", "--client", "nobody"],
            "there is no client 'nobody'",
        ),
    ],
)
def test_what_can_not_be_done(
    spark: SparkSession, shop: Deployment, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    given = [one.replace("DIR", str(tmp_path)) for one in arguments]
    later = TODAY + timedelta(hours=9)
    settle(shop, before=TODAY)
    shop_created(shop, before=DAY - timedelta(days=3))
    with pytest.raises(JobRefused, match=sentence):
        run_job(spark, shop, *given, now=later)


def shop_created(shop: Deployment, *, before: datetime) -> None:
    with session_of(shop.storage.contact_points[0], shop.storage.port) as cql:
        cql.execute(f"UPDATE {shop.storage.keyspace}.clients SET created_at = %s WHERE client_id = 'shop'", (before,))


@pytest.mark.parametrize("arguments", [["archive"], ["archive", "--output", "x", "--from", "soon"], ["restore"]])
def test_what_makes_no_sense(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        run_job(None, None, *arguments)  # type: ignore[arg-type]
