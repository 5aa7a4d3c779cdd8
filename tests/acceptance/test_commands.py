"""The command line against a running cluster: what a user runs, and its effects."""

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from minutehand.processes.programs import clean_environment
from tests.support.processes import Deployment


def command(cluster: Deployment, key: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = {"MINUTEHAND_URL": cluster.api_url, "MINUTEHAND_KEY": key}
    return subprocess.run(
        [sys.executable, "-m", "minutehand", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**clean_environment(os.environ), **variables},
    )


def answer(cluster: Deployment, key: str, *arguments: str) -> Any:
    done = command(cluster, key, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def sentence(cluster: Deployment, key: str, *arguments: str) -> str:
    done = command(cluster, key, *arguments)
    assert done.returncode == 1
    assert done.stdout == ""
    said = [line for line in done.stderr.splitlines() if not line.startswith("{")]  # servers log, too
    assert len(said) == 1, done.stderr
    return said[0]


def await_state(cluster: Deployment, key: str, schedule_id: str, state: str) -> Any:
    deadline = time.monotonic() + 40
    while (found := answer(cluster, key, "schedules", "get", "shop", schedule_id))["state"] != state:
        assert time.monotonic() < deadline, found
        time.sleep(0.5)
    return found


def test_a_client_its_key_and_its_schedules(cluster: Deployment) -> None:
    cluster.start_api()
    cluster.start_node("one")
    admin, url = cluster.admin_key, cluster.receiver.url
    assert answer(cluster, admin, "clients", "register", "shop", "--poller-quota", "2")["poller_quota"] == 2
    assert [one["client_id"] for one in answer(cluster, admin, "clients", "list")] == ["shop"]
    assert answer(cluster, admin, "clients", "show", "shop")["guaranteed_calls_per_minute"] == 2000
    made = answer(cluster, admin, "keys", "create", "shop")
    key = made["key"]

    soon = answer(cluster, key, "schedules", "create", "shop", url, "--delay-seconds", "2", "--body-json", '{"a": 1}')
    later = answer(cluster, key, "schedules", "create", "shop", url, "--delay-seconds", "600", "--label", "later")
    nobody = answer(cluster, key, "schedules", "create", "shop", "http://127.0.0.1:9/", "--delay-seconds", "1")

    assert answer(cluster, key, "schedules", "cancel", "shop", later["schedule_id"])["state"] == "cancelled"
    assert "409 already-finished" in sentence(
        cluster,
        key,
        "schedules",
        "cancel",
        "shop",
        await_state(cluster, key, soon["schedule_id"], "delivered")["schedule_id"],
    )
    retried = await_state(cluster, key, nobody["schedule_id"], "retrying")
    assert retried["attempts"] >= 1
    assert retried["last_error"] == "connect-refused"

    since = (datetime.now(UTC) - timedelta(minutes=5)).isoformat()
    listed = answer(cluster, key, "schedules", "list", "shop", "--from", since)
    assert {one["schedule_id"]: one["state"] for one in listed} == {
        soon["schedule_id"]: "delivered",
        nobody["schedule_id"]: "retrying",
        later["schedule_id"]: "cancelled",
    }
    until = (datetime.now(UTC) + timedelta(minutes=20)).isoformat()
    books = answer(cluster, key, "balance", "shop", "--from", since, "--to", until)["total"]
    assert books == {"accepted": 3, "delivered": 1, "failed": 0, "cancelled": 1, "skipped": 0, "open": 1}
    (call,) = cluster.receiver.calls()
    assert call["id"] == soon["schedule_id"]
    settings = str(cluster.directory / "minutehand.toml")
    stored = answer(cluster, "", "schedules", "show", "shop", soon["schedule_id"], "--raw", "--config", settings)
    assert stored["partition"]["version"] >= 1
    assert (stored["row"]["content"]["url"], stored["row"]["content"]["body"]["text"]) == (url, '{"a":1}')
    assert stored["row"]["delivery"]["attempts"] == 1
    none = sentence(cluster, "", "schedules", "show", "shop", "nobody", "--config", settings)
    assert none == "nobody is not the id of a schedule."

    assert answer(cluster, admin, "keys", "revoke", "shop", made["key_id"])["revoked"] is True
    (revoked,) = answer(cluster, admin, "keys", "list", "shop")
    assert revoked["revoked_at"] is not None
    assert "401 unauthorized" in sentence(cluster, key, "schedules", "list", "shop")


def test_refusals_are_one_sentence(cluster: Deployment) -> None:
    cluster.start_api()
    cluster.start_node("one")  # without a node the API creates nothing, and refuses for that
    admin = cluster.admin_key
    assert "404 not-found" in sentence(cluster, admin, "clients", "show", "nobody")
    answer(cluster, admin, "clients", "register", "shop")
    refused = sentence(cluster, admin, "schedules", "create", "shop", "http://10.0.0.1/", "--method", "NO PE")
    assert all(pointer in refused for pointer in ("/due", "/callback/url", "/callback/method"))
    assert "does not answer" in sentence(cluster, admin, "clients", "list", "--url", "http://127.0.0.1:1")


def test_servers_that_cannot_begin_say_why(cluster: Deployment) -> None:
    cluster.start_api()
    settings = str(next(cluster.directory.glob("minutehand.toml")))
    assert "the port is in use" in sentence(cluster, "", "api", "--config", settings)
    text = (cluster.directory / "minutehand.toml").read_text(encoding="utf-8")
    other = cluster.directory / "other.toml"
    other.write_text(text.replace('keyspace = "accept_', 'keyspace = "missing_'), encoding="utf-8")
    assert "run `minutehand migrate` first" in sentence(cluster, "", "node", "--config", str(other))
    other.write_text(text.replace("[cluster]", "[clutter]"), encoding="utf-8")
    done = command(cluster, "", "node", "--config", str(other))
    assert done.returncode == 1
    assert "clutter" in done.stderr
    assert "Traceback" not in done.stderr
