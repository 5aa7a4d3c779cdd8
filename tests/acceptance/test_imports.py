"""What `minutehand import` puts on a real system: the calls carry what ran before, and a repeat changes nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from minutehand.cli import failures
from tests.support.processes import Deployment

CRONTAB = "30 2 * * * /usr/bin/backup --all\n0 0 1 1 mon tidy\n"
AWS = [
    {"Name": "closing", "ScheduleExpression": "cron(0 18 L * ? *)", "ScheduleExpressionTimezone": "Europe/Berlin"},
    {"Name": "pulse", "ScheduleExpression": "rate(90 minutes)", "FlexibleTimeWindow": {"MaximumWindowInMinutes": 5}},
    {"Name": "once", "ScheduleExpression": "at(2028-01-01T09:00:00)", "ScheduleExpressionTimezone": "Europe/Berlin"},
]
JOB: dict[str, Any] = {
    "kind": "CronJob",
    "metadata": {"name": "report", "namespace": "shop"},
    "spec": {
        "schedule": "0 0 */2 * 1",
        "concurrencyPolicy": "Forbid",
        "jobTemplate": {"spec": {"template": {"spec": {"containers": [{"name": "main", "args": ["--all"]}]}}}},
    },
}
QUARTZ = "TRIGGER_NAME,TRIGGER_GROUP,CRON_EXPRESSION,TIME_ZONE_ID\nlast,ops,0 0 9 ? * 6L,Europe/Berlin\n"
GO = [{"appId": "shop", "scheduleId": "s1", "cronExpression": "0 9 1 * 1", "payload": "as it was"}]
FILES = {
    "crontab": CRONTAB,
    "eventbridge": json.dumps(AWS),
    "k8s-cronjobs": json.dumps(JOB),
    "quartz": QUARTZ,
    "goscheduler": json.dumps(GO),
}


def test_what_was_imported_is_called_and_stays_at_a_repeat(
    cluster: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.start_api()
    cluster.start_node("n1")
    key = cluster.register("shop", poller_quota=1)
    monkeypatch.setenv("MINUTEHAND_KEY", key)

    def imported(source: str) -> list[int]:
        file = tmp_path / source
        file.write_text(FILES[source])
        where = ["--url", cluster.api_url, "--client", "shop", "--url-template", cluster.receiver.url]
        assert failures.run(["import", source, str(file), *where, "--apply", "--json"]) == 0
        applied: dict[str, dict[str, int]] = json.loads(capsys.readouterr().out)["applied"]
        return [count for counts in applied.values() for count in counts.values()]

    first = [imported(source) for source in FILES]
    assert first == [[2, 0, 0, 0, 0, 0], [2, 0, 0, 1, 0, 0], *[[1, 0, 0, 0, 0, 0]] * 3]
    with cluster.client("shop", key) as client:
        before = {cron.cron_id: cron.revision for cron in client.crons.list()}
        once = client.schedules.get_by_key("eventbridge-once")
        assert {"eventbridge-closing", "eventbridge-pulse", "k8s-shop.report", "quartz-ops.last", "go-shop.s1"} < {
            *before
        }
        again = [imported(source) for source in FILES]
        assert again == [[0, 0, 2, 0, 0, 0], [0, 0, 2, 0, 0, 1], *[[0, 0, 1, 0, 0, 0]] * 3]
        assert {cron.cron_id: cron.revision for cron in client.crons.list()} == before
        assert client.schedules.get_by_key("eventbridge-once").schedule_id == once.schedule_id
        assert f"{once.due:%Y-%m-%dT%H:%M}" == "2028-01-01T08:00"
        (backup,) = (name for name in before if name.startswith("crontab-backup-"))
        runs = [client.crons.trigger(cron_id) for cron_id in (backup, "go-shop.s1")]
        cluster.receiver.await_count(2, seconds=30)
        bodies = [client.schedules.get(run.schedule_id).callback.body or "" for run in runs]
        assert json.loads(bodies[0]) == {"source": "crontab", "command": "/usr/bin/backup --all"}
        assert bodies[1] == "as it was"
