"""The job over real rows: what was placed by the installed zone data moves to another release's instants."""

import shutil
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import SparkSession

from minutehand.client import Callback, LocalTime
from scheduler_service.domain.crons.zones import tzdata_version
from spark.jobs.job import JobRefused
from tests.spark.jobs import run_job
from tests.support.cassandra import session_of
from tests.support.processes import Deployment
from tests.support.zone_files import zone_file

BERLIN = "Europe/Berlin"
HOUR = timedelta(hours=1)


def release(directory: Path, version: str, *, berlin: bool = True) -> str:
    """The installed release, but in Berlin clocks are an hour further ahead from now on."""
    package = directory / "tzdata"
    with as_file(files("tzdata")) as installed:
        shutil.copytree(installed, package)
    (package / "__init__.py").write_text(f'IANA_VERSION = "{version}"\n')
    if not berlin:
        return str(directory)
    offset = datetime.now(ZoneInfo(BERLIN)).utcoffset()
    assert offset is not None
    (package / "zoneinfo" / "Europe" / "Berlin").write_bytes(zone_file(offset / HOUR + 1))
    return str(directory)


def local(at: datetime) -> LocalTime:
    return LocalTime(local=at.astimezone(ZoneInfo(BERLIN)).strftime("%Y-%m-%dT%H:%M:%S"), timezone=BERLIN)


def counted(client: dict[str, Any], *names: str) -> list[int]:
    return [client[name] for name in names]


def instants(shown: Sequence[dict[str, Any]], schedule_id: str) -> tuple[str, str, str]:
    (one,) = (one for one in shown if one["schedule_id"] == schedule_id)
    return one["standing"], one["old"], one["new"]


def test_calls_and_crons_move_where_the_other_release_has_them(
    spark: SparkSession, cluster: Deployment, tmp_path: Path
) -> None:
    new = release(tmp_path / "new", tzdata_version())
    cluster.start_api()
    cluster.start_node("n1")
    key = cluster.register("shop", poller_quota=2)
    cluster.register("other", poller_quota=1)
    cluster.await_owners({"n1"}, pollers=3)
    due = datetime.now(UTC).replace(microsecond=0) + 2 * HOUR
    days = ("--days", "3")
    with cluster.client("shop", key) as client:
        callback = Callback(url=cluster.receiver.url)
        plain = client.schedules.create(callback, due=local(due), label="kept")
        spread = client.schedules.create(callback, due=local(due), window_seconds=600)
        fixed = client.schedules.create(callback, due=due)
        fire = (due - HOUR / 2).astimezone(ZoneInfo(BERLIN))
        expression = f"{fire.minute} {fire.hour} * * *"
        client.crons.put("daily", callback, expression=expression, timezone=BERLIN)
        client.crons.put("roman", callback, expression=expression, timezone="Europe/Rome")
        await_asleep(cluster, "daily")

        output = tmp_path / "moves.jsonl"
        told = run_job(spark, cluster, "tz_audit", "--old", "installed", "--new", new, *days, "--output", str(output))
        (shop,) = told["clients"]
        assert counted(shop, "crons", "fires_moved", "calls_moves", "calls_there", "calls_elsewhere") == [1, 3, 2, 0, 0]
        assert (told["expand_again"], told["applied"]) == (1, None)
        assert {one["zone"] for one in told["zones"]} == {BERLIN}
        moves = instants(shop["shown"], plain.schedule_id)
        assert moves == ("moves", as_text(due), as_text(due - HOUR))
        assert instants(shop["shown"], spread.schedule_id) == moves
        assert len(output.read_text().splitlines()) == 3 + 2
        assert [one.state for one in client.schedules.list(start=due - HOUR, end=due + HOUR)] == ["scheduled"] * 3

        applied = run_job(spark, cluster, "tz_audit", "--old", "installed", "--new", new, *days, "--apply")
        assert applied["applied"] == {"calls rescheduled": 2, "crons expanded again": 1}
        moved = client.schedules.get(client.schedules.get(plain.schedule_id).rescheduled_to or "")
        assert (moved.due, moved.label, moved.state) == (due - HOUR, "kept", "scheduled")
        again = client.schedules.get(client.schedules.get(spread.schedule_id).rescheduled_to or "")
        assert (again.due, again.nominal_due) == (spread.due - HOUR, due - HOUR)
        assert client.schedules.get(fixed.schedule_id).state == "scheduled"
        assert client.crons.get("daily").revision == 2

        repeated = run_job(spark, cluster, "tz_audit", "--old", "installed", "--new", new, *days, "--apply")
        assert counted(repeated["clients"][0], "calls_moves", "calls_there") == [0, 2]
        assert "calls rescheduled" not in repeated["applied"]

    same = release(tmp_path / "same", "2031b", berlin=False)
    unmoved = run_job(spark, cluster, "tz_audit", "--old", same, "--client", "shop")
    assert (unmoved["clients"], unmoved["expand_again"]) == ([], 0)
    later = release(tmp_path / "later", "2031a")
    with pytest.raises(JobRefused, match="is installed, and --new is 2031a"):
        run_job(spark, cluster, "tz_audit", "--old", "installed", "--new", later, "--apply")


def as_text(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def await_asleep(cluster: Deployment, cron_id: str) -> None:
    """Until a node has expanded it, so that it sleeps until shortly before its next fire."""
    storage, deadline = cluster.storage, time.monotonic() + 60
    with session_of(storage.contact_points[0], storage.port) as session:
        session.set_keyspace(storage.keyspace)
        asked = "SELECT wake_at FROM crons WHERE client_id = 'shop' AND cron_id = %s"
        while session.execute(asked, (cron_id,)).one().wake_at.replace(tzinfo=UTC) < datetime.now(UTC) + HOUR:
            assert time.monotonic() < deadline, "it was not expanded"
            time.sleep(0.3)
