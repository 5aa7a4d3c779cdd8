"""What readers find in the files of other schedulers: every entry with its meaning, and a fault for the rest."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from minutehand.importing.celery_beat import read_celery_beat
from minutehand.importing.crontab import read_crontab
from minutehand.importing.entries import Entry, Found, Unreadable
from minutehand.importing.eventbridge import read_eventbridge
from minutehand.importing.goscheduler import read_goscheduler
from minutehand.importing.kubernetes import read_kubernetes, translated
from minutehand.importing.meaning import Judged, judge
from minutehand.importing.quartz import read_quartz

NOW = int(datetime(2027, 1, 1, 12, tzinfo=UTC).timestamp()) * 1000


def fires(found: Found, place: int = 0, count: int = 2) -> list[str]:
    meant = judged(found, place).meant
    assert meant is not None, judged(found, place).fault
    return [datetime.fromtimestamp(at / 1000, UTC).strftime("%m-%d %H:%M") for at in meant.fires[:count]]


def judged(found: Found, place: int = 0) -> Judged:
    return judge(found.entries[place], now=NOW)


def only(found: Found) -> Entry:
    assert found.faults == []
    (one,) = found.entries
    return one


CRONTAB = """
SHELL=/bin/sh
 # comment
30 2 * * *   /usr/bin/backup --all
-*/5 8-17 * * mon-fri  curl 'https://x.example/?a=1\\%202'%in%put
@daily tidy
CRON_TZ = "Europe/Berlin"
30 2 * * *   /usr/bin/backup --all
0 0 1
@daily
30 2 * * *   /usr/bin/backup --all
"""


def test_a_crontab_is_read_line_by_line() -> None:
    found = read_crontab(CRONTAB, timezone="America/New_York")
    assert [(one.place, one.written, one.timezone) for one in found.entries] == [
        ("line 4", "30 2 * * *", "America/New_York"),
        ("line 5", "*/5 8-17 * * mon-fri", "America/New_York"),
        ("line 6", "@daily", "America/New_York"),
        ("line 8", "30 2 * * *", "Europe/Berlin"),
        ("line 11", "30 2 * * *", "Europe/Berlin"),
    ]
    assert [fault.place for fault in found.faults] == ["line 9", "line 10"]
    assert found.entries[1].payload == {
        "source": "crontab",
        "command": "curl 'https://x.example/?a=1%202'",
        "stdin": "in\nput",
    }
    assert found.entries[0].notes == ("the variable SHELL is not passed on",)
    assert (fires(found, 0), fires(found, 3)) == (["01-02 07:30", "01-03 07:30"], ["01-02 01:30", "01-03 01:30"])
    assert not any(judged(found, place).differs for place in range(5)), "it is our default"
    names = [one.name for one in found.entries]
    assert len({*names}) == len(names)
    assert [name.partition("-")[0] for name in names] == ["backup", "curl", "tidy", "backup", "backup"]


def test_names_of_lines_stay_when_others_move() -> None:
    moved = read_crontab("@hourly x\n30 2 * * * /usr/bin/backup --all", timezone="UTC").entries[1]
    assert moved.name == only(read_crontab("30 2 * * * /usr/bin/backup --all", timezone="UTC")).name


def test_the_users_of_a_system_s_crontab() -> None:
    found = read_crontab(
        "0 5 * * * root run-parts /etc/x\n0 5 * * * root\n0 5\t* * *\troot\ttest -x /a", timezone="UTC", with_user=True
    )
    assert found.entries[0].payload == {"source": "crontab", "user": "root", "command": "run-parts /etc/x"}
    assert found.entries[1].payload == {"source": "crontab", "user": "root", "command": "test -x /a"}
    assert [fault.place for fault in found.faults] == ["line 2"]


def test_what_our_cron_does_not_have_is_a_fault_of_the_definition() -> None:
    assert "@reboot" in (judged(read_crontab("@reboot x", timezone="UTC")).fault or "")
    assert "Mars/Base" in (judged(read_crontab("CRON_TZ=Mars/Base\n@daily x", timezone="UTC")).fault or "")


def job(schedule: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "jobs:1", "command": ["report"], "args": ["--all"], "env": [{"name": "X"}]}]
    template = {"spec": {"template": {"spec": {"containers": containers}}}}
    metadata = {"name": "report", "namespace": "shop"}
    return {"kind": "CronJob", "metadata": metadata, "spec": {"schedule": schedule, "jobTemplate": template, **spec}}


def test_jobs_of_kubernetes() -> None:
    listed = [job("0 9 * * *", timeZone="Europe/Berlin", concurrencyPolicy="Forbid", startingDeadlineSeconds=60),
              job("@hourly", suspend=True),
              {"kind": "CronJob", "metadata": {}, "spec": {}}, {"kind": "Service"}]  # fmt: skip
    found = read_kubernetes(json.dumps({"kind": "List", "items": listed}), timezone="UTC")
    first, second = found.entries
    assert (first.name, first.timezone, first.overlap, first.off) == ("shop.report", "Europe/Berlin", "skip", False)
    assert (first.gap, first.fold, first.catch_up_seconds, second.catch_up_seconds) == ("skip", "both", 60, None)
    assert first.payload["containers"] == [
        {"name": "main", "image": "jobs:1", "command": ["report"], "args": ["--all"]}
    ]
    assert (second.off, second.overlap, second.timezone) == (True, "allow", "UTC")
    assert [fault.place for fault in found.faults] == ["item 1, items[2]"]
    assert [(one.place, one.reason) for one in found.left_out] == [
        ("item 1, items[3]", "is of the kind Service, no CronJob")
    ]
    assert fires(found) == ["01-02 08:00", "01-03 08:00"]


@pytest.mark.parametrize(
    ("written", "meant", "fired"),
    [
        ("@every 1h30m", "every 90 minutes", ["01-01 12:40", "01-01 14:10"]),
        ("@every  1.5h", "every 90 minutes", ["01-01 12:40", "01-01 14:10"]),
        ("@every 120s", "every 2 minutes", ["01-01 12:00", "01-01 12:02"]),
    ],
)
def test_intervals_of_robfig_cron(written: str, meant: str, fired: list[str]) -> None:
    one = job(written)
    one["metadata"]["creationTimestamp"] = "2026-12-31T23:10:17Z"
    found = read_kubernetes(json.dumps(one), timezone="UTC")
    assert (only(found).expression, only(found).dialect) == (meant, "minutehand")
    assert fires(found) == fired
    meaning = judged(found).meant
    assert meaning is not None
    assert {at % 60_000 for at in meaning.fires} == {17_000}, "it keeps the second of the job's creation"
    del one["metadata"]["creationTimestamp"]
    assert "counts from the import" in only(read_kubernetes(json.dumps(one), timezone="UTC")).notes[0]


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("@every 90s", "write @every 2m"),
        ("@every 10ms", "write @every 1m"),
        ("@every 0s", "write @every 1m"),
        ("@every soon", "'soon' is no duration, such as 1h30m"),
        ("@every 1h30", "'1h30' is no duration, such as 1h30m"),
        ("@every -1h", "'-1h' is no duration, such as 1h30m"),
    ],
)
def test_an_interval_without_counterpart_says_what_to_write(written: str, told: str) -> None:
    found = read_kubernetes(json.dumps([job(written), job("@daily")]), timezone="UTC")
    assert len(found.entries) == 1
    assert found.faults[0].reason.endswith(told)


def test_jobs_in_yaml() -> None:
    text = "apiVersion: batch/v1\n---\n" + json.dumps(job("CRON_TZ=Asia/Tokyo 0 9 * * *", concurrencyPolicy="Replace"))
    one = only(read_kubernetes("# jobs\n" + text.replace("apiVersion: batch/v1\n---\n", "---\n"), timezone="UTC"))
    assert (one.timezone, one.written, one.overlap) == ("Asia/Tokyo", "0 9 * * *", "cancel_other")
    assert len(one.notes) == 1


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("5/10 * * * *", "5-59/10 * * * *"),
        ("0 6/6 ? * ?", "0 6-23/6 * * *"),
        ("0 0 */2 * 1", "0 0 1-31/2 * 1"),
        ("0 0 */1 * 1", "0 0 * * 1"),
        ("0 0 3,* * 1", "0 0 * * 1"),
        ("0 0 1 * */10", "0 0 1 * 0-6/10"),
        ("0 0 */2 * *", "0 0 1-31/2 * *"),
        ("0 0 */2,5 * fri", "0 0 1-31/2,5 * fri"),
        ("@daily", "@daily"),
    ],
)
def test_rules_of_robfig_cron_as_cronie_writes_them(written: str, meant: str) -> None:
    assert translated(written) == meant


def test_a_copied_rule_that_means_something_else_is_marked() -> None:
    found = read_kubernetes(json.dumps(job("0 0 */2 * 1")), timezone="UTC")
    # Odd days, and Mondays; cronie's rule is Mondays on odd days.
    assert fires(found, count=3) == ["01-03 00:00", "01-04 00:00", "01-05 00:00"]
    assert judged(found).differs
    refused = judged(read_kubernetes(json.dumps(job("5/10 * * * *")), timezone="UTC"))
    assert refused.differs
    assert refused.plain_fault is not None


def test_eventbridge() -> None:
    one = {"Name": "Nightly", "GroupName": "ops", "ScheduleExpression": "cron(0 9 ? * MON-FRI *)", "State": "ENABLED",
           "ScheduleExpressionTimezone": "Europe/Berlin", "FlexibleTimeWindow": {"MaximumWindowInMinutes": 15},
           "Target": {"Arn": "arn:aws:x", "Input": '{"a": 1}'}, "EndDate": "2027-01-05T00:00:00+00:00"}  # fmt: skip
    once = {"Name": "once", "GroupName": "default", "ScheduleExpression": "at(2027-03-28T02:30:00)",
            "ScheduleExpressionTimezone": "Europe/Berlin", "State": "DISABLED"}  # fmt: skip
    bare = {"Name": "listed"}
    found = read_eventbridge(f"{json.dumps(one)}\n{json.dumps(once)}{json.dumps({'Schedules': [bare]})}")
    first, second = found.entries
    assert (first.name, first.spread_seconds, first.body, first.off) == ("ops.Nightly", 900, '{"a": 1}', False)
    assert fires(found) == ["01-04 08:00"]
    assert judged(found).differs
    assert (second.name, second.at, second.off) == ("once", "2027-03-28T02:30:00", True)
    assert fires(found, 1) == ["03-28 01:00"]
    assert [fault.place for fault in found.faults] == ["item 3, Schedules[0]"]
    rules = {"Rules": [{"Name": "r", "ScheduleExpression": "rate(5 minutes)"}, {"Name": "e", "EventPattern": "{}"}]}
    found = read_eventbridge(json.dumps(rules))
    assert fires(found) == ["01-01 12:05", "01-01 12:10"]
    assert (len(found.entries[0].notes), found.faults) == (1, [])
    assert [(one.place, one.reason) for one in found.left_out] == [
        ("item 1, Rules[1]", "e waits for events (EventPattern), and has no schedule")
    ]
    both = only(
        read_eventbridge(json.dumps({"Name": "b", "ScheduleExpression": "cron(0 9 ? * 2 *)", "EventPattern": "{}"}))
    )
    assert both.notes == ("its EventPattern is not taken over: only its schedule fires here",)


def test_celery_beat() -> None:
    def row(model: str, pk: int, **values: Any) -> dict[str, Any]:
        return {"model": f"django_celery_beat.{model}", "pk": pk, "fields": values}

    def task(pk: int, **values: Any) -> dict[str, Any]:
        return row("periodictask", pk, name=f"t{pk}", task="shop.report", args='["a"]', kwargs="{}", **values)

    dump = [
        row("crontabschedule", 1, minute="0", hour="9", day_of_month="1-7", month_of_year="*", day_of_week="mon",
            timezone="Europe/Berlin"),
        row("intervalschedule", 1, every=3, period="hours"),
        row("intervalschedule", 2, every=30, period="seconds"),
        row("clockedschedule", 1, clocked_time="2027-02-01T00:00:00Z"),
        task(1, crontab=1, enabled=True, one_off=True),
        task(2, interval=1, enabled=False),
        task(3, interval=2),
        task(4, clocked=1, one_off=True),
        task(5, solar=1),
        task(6, crontab=9),
        row("periodictask", 7, name="celery.backend_cleanup", task="celery.backend_cleanup", crontab=1),
    ]  # fmt: skip
    found = read_celery_beat(json.dumps(dump), timezone="UTC")
    assert [(one.name, one.off, one.max_fires) for one in found.entries] == [
        ("t1", False, 1),
        ("t2", True, None),
        ("t4", False, None),
    ]
    assert found.entries[0].payload["args"] == ["a"]
    assert fires(found) == ["01-04 08:00", "02-01 08:00"]
    assert judged(found).differs, "either of the two fields would do for cronie"
    assert fires(found, 1) == ["01-01 15:00", "01-01 18:00"]
    assert fires(found, 2) == ["02-01 00:00"]
    assert [fault.place for fault in found.faults] == ["periodictask 3", "periodictask 5", "periodictask 6"]
    assert [one.place for one in found.left_out] == ["periodictask 7"]
    assert len(read_celery_beat("[]", timezone="UTC").faults) == 1
    twice = read_celery_beat(
        json.dumps([*dump[:2], row("user", 1), row("user", 1), task(1, interval=1), task(1, crontab=1)]), timezone="UTC"
    )
    assert [one.written for one in twice.entries] == ["every 3 hours"]
    assert [fault.reason for fault in twice.faults] == [
        "a periodictask 1 is in the file already: import one dump at a time"
    ]


def test_quartz() -> None:
    csv = (
        "trigger_name,TRIGGER_GROUP,JOB_NAME,CRON_EXPRESSION,TIME_ZONE_ID,START_TIME,END_TIME,TRIGGER_STATE\n"
        "last,ops,report,0 0 9 ? * 6L,Europe/Berlin,1800000000000,0,WAITING\n"
        "held,ops,report,0 0 9 * * ?,NULL,,,PAUSED\n"
        "often,ops,report,*/10 * * * * ?,UTC,,,WAITING\n"
        "none,ops,report,,UTC,,,WAITING\n"
    )
    found = read_quartz(csv, timezone="Asia/Tokyo")
    assert [(one.name, one.timezone, one.off) for one in found.entries] == [
        ("ops.last", "Europe/Berlin", False),
        ("ops.held", "Asia/Tokyo", True),
        ("ops.often", "UTC", False),
    ]
    assert found.entries[0].notes == ()
    assert found.entries[0].starts_at == "2027-01-15T08:00:00.000Z"
    assert fires(found) == ["01-29 08:00", "02-26 08:00"]
    assert fires(found, 1) == ["01-02 00:00", "01-03 00:00"]
    assert judged(found, 2).fault is not None
    assert [fault.place for fault in found.faults] == ["line 5"]


def test_a_trigger_s_calendar_is_told() -> None:
    head = "TRIGGER_NAME,TRIGGER_GROUP,CRON_EXPRESSION,CALENDAR_NAME"
    one = only(read_quartz(f"{head}\nlast,ops,0 0 9 ? * 6L,holidays\n", timezone="UTC"))
    assert "holidays" in one.notes[0]


def test_answers_of_goscheduler_s_api() -> None:
    details = {"url": "https://a.example/", "method": "GET", "headers": {}}
    cron = {
        "appId": "shop",
        "scheduleId": "s1",
        "payload": "{}",
        "cronExpression": "0 9 * * *",
        "callback": {"type": "http", "details": details},
    }
    status = {"statusCode": 200}
    for data in ({"schedules": [cron], "continuationToken": ""}, {"schedule": cron}, [cron]):
        one = only(read_goscheduler(json.dumps({"status": status, "data": data}), timezone="UTC"))
        assert (one.name, one.url) == ("shop.s1", "https://a.example/")
        assert (one.body, len(one.notes)) == (None, 1), "a GET request has no body here"


def test_goscheduler() -> None:
    callback = {"type": "http", "details": {"url": "https://a.example/", "method": "PUT", "headers": {"X": "1"}}}
    cron = {"appId": "shop", "scheduleId": "s1", "payload": "{}", "callback": callback, "cronExpression": "0 9 1 * 1"}
    once = {
        "app_id": "shop",
        "schedule_id": "s2",
        "callback_details": json.dumps(callback),
        "schedule_time": "1800000000",
    }
    wrong = {"appId": "shop", "scheduleId": "s3", "scheduleTime": "soon"}
    found = read_goscheduler(json.dumps([{"schedule": cron}, once, {"appId": "shop"}, wrong]), timezone="Asia/Kolkata")
    first, second = found.entries
    assert (first.name, first.url, first.method, first.headers, first.body) == (
        *("shop.s1", "https://a.example/", "PUT"),
        {"X": "1"},
        "{}",
    )
    assert fires(found) == ["02-01 03:30", "03-01 03:30"], "both day fields must match"
    assert judged(found).differs
    assert (second.at, second.url) == ("2027-01-15T08:00:00Z", "https://a.example/")
    assert [fault.place for fault in found.faults] == ["item 3", "item 4"]


@pytest.mark.parametrize(
    "text",
    ["{", '{"a": 1} x', "", " \n", "<job/>", 'a,b\n"1,2\n', "[" * 100_000, '{"a": 1}[NaN', "[" + "1" * 5_000 + "]"],
)
def test_what_is_no_export_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        read_quartz(text, timezone="UTC")
