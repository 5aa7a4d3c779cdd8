"""A cron put by the command line, fired by a node."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from minutehand.local.machine import free_ports
from tests.acceptance.test_commands import answer, sentence
from tests.support.processes import Deployment

PATIENCE_SECONDS = 120


def test_a_cron_fires_on_its_minute_and_when_it_is_triggered(cluster: Deployment) -> None:
    cluster.start_api()
    cluster.start_node("one")
    key, url = cluster.register("shop", poller_quota=2), cluster.receiver.url
    rule = ("--expression", "* * * * *", "--timezone", "Europe/Berlin")

    made = answer(cluster, key, "crons", "put", "shop", "often", url, *rule, "--body-json", '{"a": 1}')
    assert (made["state"], made["words"], len(made["next_fires"])) == ("active", "every minute", 5)
    by_hand = answer(cluster, key, "crons", "trigger", "shop", "often")
    assert by_hand["cron_id"] == "often"

    def both(runs: list[dict[str, Any]]) -> bool:
        delivered = [one for one in runs if one["state"] == "delivered"]
        return {one["triggered"] for one in delivered} == {True, False}

    runs = await_runs(cluster, key, both)
    fired = next(one for one in runs if not one["triggered"])
    first = instant(made["created_at"]).replace(second=0, microsecond=0) + timedelta(minutes=1)
    assert instant(fired["nominal_due"]) == instant(fired["due"]) == first
    shown = answer(cluster, key, "schedules", "get", "shop", fired["schedule_id"])
    assert first <= instant(shown["first_attempt_at"]) < first + timedelta(seconds=10)
    assert {one["schedule_id"] for one in runs if one["triggered"]} == {by_hand["schedule_id"]}

    assert answer(cluster, key, "crons", "pause", "shop", "often")["next_fires"] == []
    after = await_runs(cluster, key, lambda runs: all(one["state"] in ("delivered", "cancelled") for one in runs))
    assert {one["reason"] for one in after if one["state"] == "cancelled"} == {"cron-changed"}
    answer(cluster, key, "crons", "delete", "shop", "often")
    assert answer(cluster, key, "crons", "list", "shop") == []
    assert "404 not-found" in sentence(cluster, key, "crons", "show", "shop", "often")
    assert len(answer(cluster, key, "crons", "runs", "shop", "often")) == len(after)


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def await_runs(cluster: Deployment, key: str, reached: Callable[[list[Any]], bool]) -> list[Any]:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not reached(found := answer(cluster, key, "crons", "runs", "shop", "often")):
        assert time.monotonic() < deadline, found[:20]
        time.sleep(1)
    return list(found)


def test_a_cron_whose_runs_fail_is_paused_until_it_is_resumed(cluster: Deployment) -> None:
    cluster.start_api()
    cluster.start_node("one")
    key, (port,) = cluster.register("shop", poller_quota=2), free_ports(1)
    url = f"{cluster.receiver.url.rsplit(':', 1)[0]}:{port}/"
    rule = ("--expression", "0 0 1 1 *", "--timezone", "Etc/UTC", "--max-attempts", "1", "--pause-after-failures", "2")
    answer(cluster, key, "crons", "put", "shop", "often", url, *rule)
    answer(cluster, key, "crons", "trigger", "shop", "often")
    await_runs(cluster, key, lambda runs: "failed" in {one["state"] for one in runs})
    assert answer(cluster, key, "crons", "show", "shop", "often")["state"] == "active"
    answer(cluster, key, "crons", "trigger", "shop", "often")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (shown := answer(cluster, key, "crons", "show", "shop", "often"))["state"] != "paused":
        assert time.monotonic() < deadline, shown
        time.sleep(0.5)
    assert (shown["pause"]["by"], shown["revision"]) == ("failures", 2)
    assert shown["pause"]["note"].startswith("the last 2 runs failed")
    assert shown["pause"]["note"].endswith("with error connect-refused")
    assert answer(cluster, key, "crons", "resume", "shop", "often")["state"] == "active"
