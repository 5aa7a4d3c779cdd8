"""The ids under which entries are stored: two names of a source never share one, whichever files they are in."""

import json
import re
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minutehand.importing.bigben import read_bigben
from minutehand.importing.entries import Entry, Found, doubled, own_id
from minutehand.importing.eventbridge import read_eventbridge
from minutehand.importing.goscheduler import read_goscheduler
from minutehand.importing.kubernetes import read_kubernetes
from minutehand.importing.quartz import read_quartz
from scheduler_service.domain.clients import CLIENT_ID_PATTERN
from tests.support.bigben_events import event

DOTTED = [
    ("a", "b.c"),
    ("a.b", "c"),
    ("A", "b.c"),
    ("a-b", "c"),
    ("a", "b-c"),
    ("default", "a.b"),
    ("", "a.b"),
    ("", "c"),
]


def entry(*parts: str, place: str = "line 1") -> Entry:
    name = ".".join(filter(None, parts))
    return Entry(place=place, name=name, parts=parts, written="x", timezone="UTC", payload={})


def test_ids_are_names_where_they_can_be() -> None:
    names = ["shop.report", "Shop.report", "shop/report", "shop report", "x" * 90, "x" * 91, "ä", "-"]
    made = [own_id("k8s", entry(name)) for name in names]
    assert made[0] == own_id("k8s", entry("shop", "report")) == "k8s-shop.report"
    assert own_id("k8s", entry("shop", "report.of.all")) == "k8s-shop.report.of.all"
    assert len({*made}) == len(made)
    assert all(re.fullmatch(CLIENT_ID_PATTERN, one) for one in made), made


def test_a_name_that_looks_like_a_hashed_one_gets_a_hash() -> None:
    hashed = own_id("go", entry("a.b", "c"))
    assert own_id("go", entry(hashed.removeprefix("go-"))) != hashed


short = st.text("a.-B ä", max_size=3)


@given(st.lists(st.tuples(short, short.filter(bool)), min_size=15, max_size=25, unique=True))
def test_names_with_two_parts_have_ids_of_their_own(names: list[tuple[str, str]]) -> None:
    made = [own_id("go", entry(*parts)) for parts in names]
    assert len({*made}) == len(made)
    assert all(re.fullmatch(CLIENT_ID_PATTERN, one) for one in made), made


def _go(app: str, name: str) -> Found:
    return read_goscheduler(
        json.dumps({"appId": app, "scheduleId": name, "cronExpression": "0 9 * * *"}), timezone="UTC"
    )


def _bigben(owner: str, name: str) -> Found:
    return read_bigben(json.dumps(event(owner, name)))


def _quartz(group: str, name: str) -> Found:
    row = {"TRIGGER_GROUP": group, "TRIGGER_NAME": name, "CRON_EXPRESSION": "0 0 9 * * ?"}
    return read_quartz(json.dumps(row), timezone="UTC")


def _eventbridge(group: str, name: str) -> Found:
    return read_eventbridge(json.dumps({"GroupName": group, "Name": name, "ScheduleExpression": "rate(1 day)"}))


def _kubernetes(namespace: str, name: str) -> Found:
    spec: dict[str, Any] = {"schedule": "@daily", "jobTemplate": {"spec": {"template": {"spec": {"containers": [{}]}}}}}
    job = {"kind": "CronJob", "metadata": {"namespace": namespace, "name": name}, "spec": spec}
    return read_kubernetes(json.dumps(job), timezone="UTC")


@pytest.mark.parametrize("read", [_go, _bigben, _quartz, _eventbridge, _kubernetes])
def test_files_of_names_with_dots_share_no_id(read: Callable[[str, str], Found]) -> None:
    names = [(group, name) for group, name in DOTTED if group != ("default" if read is _eventbridge else "")]
    made = [own_id("x", read(*parts).entries[0]) for parts in names]
    assert len({*made}) == len(made)
    assert made == [own_id("x", read(*parts).entries[0]) for parts in names], "a repeat finds what it has put"


def test_of_two_with_one_id_both_are_named() -> None:
    entries = [
        entry("shop", "a", place="item 1"),
        entry("shop", "b", place="item 2"),
        entry("shop", "a", place="item 3"),
    ]
    (fault,) = doubled((own_id("go", one), one) for one in entries)
    assert fault.place == "item 3"
    assert fault.reason.startswith("shop.a has the id go-shop.a, as shop.a of item 1 has")
    assert doubled(product(["one"], entries[:2]))[0].reason.startswith("shop.b has the id one, as shop.a of item 1")
