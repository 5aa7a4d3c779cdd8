"""Files with anything at any place: a clear fault says where and what was expected, and the other entries go on."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minutehand.importing.bigben import read_bigben
from minutehand.importing.celery_beat import read_celery_beat
from minutehand.importing.crontab import read_crontab
from minutehand.importing.entries import Found, Unreadable, doubled, own_id
from minutehand.importing.eventbridge import read_eventbridge
from minutehand.importing.goscheduler import read_goscheduler
from minutehand.importing.kubernetes import read_kubernetes
from minutehand.importing.meaning import judge
from minutehand.importing.quartz import read_quartz
from minutehand.importing.receivers import Receiver
from tests.support.bigben_events import event

NOW = int(datetime(2027, 1, 1, 12, tzinfo=UTC).timestamp()) * 1000
Read = Callable[[str], Found]
Place = tuple[Any, ...]


class Good(NamedTuple):
    """A file with two entries: what is below `first` belongs to the first one only, and the other is named `other`."""

    read: Read
    value: Any
    first: Place
    other: str


SPEC = {
    "schedule": "0 9 * * *", "timeZone": "UTC", "suspend": False, "concurrencyPolicy": "Forbid",
    "startingDeadlineSeconds": 60,
    "jobTemplate": {"spec": {"template": {"spec": {"containers": [
        {"name": "main", "image": "jobs:1", "command": ["report"], "args": ["--all"]}]}}}},
}  # fmt: skip
JOBS = [{"kind": "CronJob", "metadata": {"name": name, "namespace": "shop"}, "spec": SPEC} for name in ("a", "b")]
SCHEDULES = [
    {"Name": name, "GroupName": "ops", "ScheduleExpression": "rate(1 hour)", "ScheduleExpressionTimezone": "UTC",
     "StartDate": "2027-01-01T00:00:00+00:00", "EndDate": "2028-01-01T00:00:00+00:00", "State": "ENABLED",
     "FlexibleTimeWindow": {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": 15},
     "Target": {"Arn": "arn:aws:x", "Input": "{}"}}
    for name in ("a", "b")
]  # fmt: skip
TASK = {
    "task": "x", "args": "[1]", "kwargs": "{}", "enabled": True, "one_off": False, "start_time": "2027-01-01T00:00:00Z",
    "expires": None, "interval": None, "solar": None, "clocked": None,
}  # fmt: skip
CRONTAB = {
    "minute": "0", "hour": "9", "day_of_month": "*", "month_of_year": "*", "day_of_week": "1", "timezone": "UTC",
}  # fmt: skip
CELERY = [
    {"model": "django_celery_beat.periodictask", "pk": 1, "fields": {**TASK, "name": "a", "crontab": 1}},
    {"model": "django_celery_beat.crontabschedule", "pk": 1, "fields": CRONTAB},
    {"model": "django_celery_beat.periodictask", "pk": 2, "fields": {**TASK, "name": "b", "crontab": 2}},
    {"model": "django_celery_beat.crontabschedule", "pk": 2, "fields": CRONTAB},
]
CELERY_INTERVAL = [
    {"model": "django_celery_beat.periodictask", "pk": 1, "fields": {**TASK, "name": "a", "interval": 1}},
    {"model": "django_celery_beat.intervalschedule", "pk": 1, "fields": {"every": 3, "period": "hours"}},
    {"model": "django_celery_beat.periodictask", "pk": 2, "fields": {**TASK, "name": "b", "clocked": 2}},
    {"model": "django_celery_beat.clockedschedule", "pk": 2, "fields": {"clocked_time": "2027-02-01T00:00:00Z"}},
]
GO = [
    {"appId": "shop", "scheduleId": name, "cronExpression": "0 9 1 * 1", "payload": {"a": 1}, "status": "SCHEDULED",
     "callback": {"type": "http", "details": {"url": "https://a.example/", "method": "PUT", "headers": {"X": "1"}}}}
    for name in ("a", "b")
]  # fmt: skip
GO_ROWS = [
    {"app_id": "shop", "schedule_id": name, "schedule_time": 1_800_000_000, "payload": "p",
     "callback_details": '{"type": "http", "details": {"url": "https://a.example/"}}'}
    for name in ("a", "b")
]  # fmt: skip
BIGBEN = [event("shop", name, payload={"a": 1}) for name in ("a", "b")]
QUARTZ = [
    {"TRIGGER_NAME": name, "TRIGGER_GROUP": "ops", "JOB_NAME": "j", "JOB_GROUP": "g", "CALENDAR_NAME": "holidays",
     "CRON_EXPRESSION": "0 0 9 ? * 6L", "TIME_ZONE_ID": "UTC", "START_TIME": 1_800_000_000_000, "END_TIME": "0",
     "TRIGGER_STATE": "WAITING", "JOB_DATA": ""}
    for name in ("a", "b")
]  # fmt: skip

kubernetes = partial(read_kubernetes, timezone="UTC")
celery = partial(read_celery_beat, timezone="UTC")
goscheduler = partial(read_goscheduler, timezone="UTC")
quartz = partial(read_quartz, timezone="UTC")
GOOD = [
    Good(kubernetes, {"kind": "List", "items": JOBS}, ("items", 0), "shop.b"),
    Good(kubernetes, JOBS, (0,), "shop.b"),
    Good(read_eventbridge, {"Schedules": SCHEDULES}, ("Schedules", 0), "ops.b"),
    Good(read_eventbridge, SCHEDULES, (0,), "ops.b"),
    Good(celery, CELERY, (0,), "b"),
    Good(celery, CELERY_INTERVAL, (1,), "b"),
    Good(goscheduler, {"data": {"schedules": GO}}, ("data", "schedules", 0), "shop.b"),
    Good(goscheduler, {"data": GO}, ("data", 0), "shop.b"),
    Good(goscheduler, GO_ROWS, (0,), "shop.b"),
    Good(read_bigben, BIGBEN, (0,), "shop.b"),
    Good(quartz, QUARTZ, (0,), "ops.b"),
]
READERS: list[Read] = [kubernetes, read_eventbridge, celery, goscheduler, read_bigben, quartz]

TEXTS = st.text() | st.sampled_from(
    ["", "\ud800", "a" * 100, "0 9 * * *", "@every 1h", "at(x)", "at(9999-12-31T00:00:00)", "9999-12-31T23:59:59-12:00",
     "0001-01-01 00:00+05:00", "0001-01-01T00:00:00Z", "-1", "9" * 30, "[[", '{"a": NaN}', '"\\ud800"',
     "rate(1 minute)", "CRON_TZ=x 1",
     "[" * 5_000 + "]" * 5_000, "a\x00b", "\x1b[31m"]
)  # fmt: skip
DEEP: list[Any] = []
for _ in range(200):
    DEEP = [DEEP]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.sampled_from([10**400, DEEP, {"a": DEEP}]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    yield at
    if isinstance(value, dict):
        for name, one in value.items():
            yield from places(one, (*at, name))
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from places(one, (*at, number))


def put_at(value: Any, at: Place, new: Any) -> Any:
    if not at:
        return new
    made = json.loads(json.dumps(value))
    inner = made
    for step in at[:-1]:
        inner = inner[step]
    inner[at[-1]] = new
    return made


def carry_on(read: Read, text: str) -> Found | None:
    """All that a dry run does with a file. None: it is refused as a whole."""
    try:
        found = read(text)
    except Unreadable:
        return None
    named = [(own_id("x", one), one) for one in found.entries]
    doubled(named)
    for name, one in named:
        judged = judge(one, now=NOW)
        assert (judged.meant is None) == (judged.fault is not None)
        if judged.meant is not None:
            for at in judged.meant.fires:
                datetime.fromtimestamp(at / 1000, UTC)
        callback = Receiver("https://x.example/{name}?{id}").callback(one, name)
        told = json.dumps(
            [dict(callback), one.name, one.place, one.written, one.timezone], ensure_ascii=False, allow_nan=False
        )
        told.encode()
    for fault in found.faults:
        f"{fault.place}: {fault.reason}".encode()
    return found


@pytest.mark.parametrize("good", GOOD)
def test_a_good_file_has_no_faults(good: Good) -> None:
    found = carry_on(good.read, json.dumps(good.value))
    assert found is not None
    assert (len(found.entries), found.faults) == (2, [])


@pytest.mark.parametrize("good", GOOD)
@given(data=st.data(), new=ANYTHING)
def test_anything_at_any_place_is_no_traceback(good: Good, data: st.DataObject, new: Any) -> None:
    at = data.draw(st.sampled_from(list(places(good.value))))
    try:
        text = json.dumps(put_at(good.value, at, new))
    except (ValueError, RecursionError):
        return
    found = carry_on(good.read, text)
    if found is not None and at[: len(good.first)] == good.first:
        assert good.other in {one.name for one in found.entries}, "the other entry goes on"


@pytest.mark.parametrize("new", [None, [], {}, 5, True, "", "x", [1], {"a": 1}, 1.5])
@pytest.mark.parametrize("good", GOOD)
def test_odd_types_at_every_place(good: Good, new: Any) -> None:
    for at in places(good.value):
        found = carry_on(good.read, json.dumps(put_at(good.value, at, new)))
        if at[: len(good.first)] == good.first:
            assert found is not None
            assert good.other in {one.name for one in found.entries}


@pytest.mark.parametrize("read", READERS)
@given(value=ANYTHING)
def test_any_document_is_no_traceback(read: Read, value: Any) -> None:
    try:
        text = json.dumps(value)
    except (ValueError, RecursionError):
        return
    carry_on(read, text)


YAML_PIECES = st.sampled_from(
    ["kind: CronJob", "spec: [", "a: &a [*a]", "b: *b", "!!bool 5", "!!timestamp x", "d: 2027-13-45", "!!int ''", "- ",
     "\n", "\n---\n", "? [1]\n: 2", "{[1]: 2}", ": ", "!!python/object:x", "%YAML 9", "\t", "<<: 5", "!!set {a}",
     "metadata: {name: 5}", "schedule: 12:30", "x: !!binary ä"]
)  # fmt: skip


CRONTAB_PIECES = st.sampled_from(["* ", "@daily ", "%", "\\", "\n", "x", "-", "A=b", '"', "CRON_TZ="])
crontab = partial(read_crontab, timezone="UTC")


@pytest.mark.parametrize("read", [*READERS, crontab, partial(crontab, with_user=True)])
@given(
    text=st.text()
    | st.lists(YAML_PIECES | st.text(max_size=3), max_size=8).map("".join)
    | st.lists(CRONTAB_PIECES, max_size=20).map("".join)
)
def test_any_text_is_no_traceback(read: Read, text: str) -> None:
    carry_on(read, text)


@pytest.mark.parametrize("good", [good for good in GOOD if good.value in (QUARTZ, BIGBEN, GO_ROWS)])
@given(data=st.data(), new=st.text())
def test_any_cell_of_a_table_is_no_traceback(good: Good, data: st.DataObject, new: str) -> None:
    row, name = data.draw(st.sampled_from([at for at in places(good.value) if len(at) == 2]))
    rows = put_at(good.value, (row, name), new)
    text = io.StringIO()
    table = csv.DictWriter(text, list(rows[0]))
    table.writeheader()
    table.writerows(
        [{name: cell if isinstance(cell, str) else json.dumps(cell) for name, cell in one.items()} for one in rows]
    )
    carry_on(good.read, text.getvalue())


@pytest.mark.parametrize(
    ("good", "at", "new", "told"),
    [
        (GOOD[0], ("items", 0, "spec"), [], ("item 1, items[0]", "spec: expected an object, found a list")),
        (GOOD[0], ("items",), 5, ("item 1", "items: expected a list, found a number")),
        (GOOD[1], (0, "spec", "schedule"), 5, ("item 1", "spec.schedule: expected text, found a number")),
        (GOOD[1], (0, "spec", "jobTemplate", "spec"), None,
         ("item 1", "spec.jobTemplate.spec.template.spec.containers is missing or empty")),
        (GOOD[1], (0, "metadata", "name"), "\ud800", ("item 1", "metadata.name: expected text, found half of a")),
        (GOOD[1], (0, "spec", "suspend"), "no", ("item 1", "spec.suspend: expected true or false, found the text 'n")),
        (GOOD[3], (0, "Target"), "x", ("item 1", "Target: expected an object, found the text 'x'")),
        (GOOD[3], (0, "x"), DEEP, ("item 1", "is nested deeper than 64 levels")),
        (GOOD[4], (0, "fields", "enabled"), 1, ("periodictask 1", "a: fields.enabled: expected true or false")),
        (GOOD[8], (0, "schedule_time"), [], ("item 1", "schedule_time: expected a whole number, found a list")),
        (GOOD[8], (0, "callback_details"), "{", ("item 1", "callback_details: expected an object, found the")),
        (GOOD[9], (0,), None, ("item 1", "expected an object, found null")),
        (GOOD[10], (0, "START_TIME"), "soon", ("item 1", "START_TIME: expected a whole number, found the text 'soon'")),
    ],
)  # fmt: skip
def test_a_fault_says_where_and_what_was_expected(good: Good, at: Place, new: Any, told: tuple[str, str]) -> None:
    found = carry_on(good.read, json.dumps(put_at(good.value, at, new)))
    assert found is not None
    (fault,) = found.faults
    assert (fault.place, fault.reason[: len(told[1])]) == told
