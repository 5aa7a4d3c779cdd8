"""Filters of schedules: what they admit, and which values they refuse."""

from typing import Any

import msgspec
import pytest

from scheduler_service.domain.flows import Flow
from scheduler_service.domain.ids import UnixMillis, compose_schedule_id
from scheduler_service.domain.options import ScheduleOptions, encode_options
from scheduler_service.domain.schedule_filters import (
    EVERY,
    MAX_LABEL_BYTES,
    MAX_LABELS,
    ScheduleFilter,
    destination_of,
    host_of,
    read_destination,
    read_host,
    read_key_prefix,
    read_labels,
)
from scheduler_service.domain.schedule_keys import KeyMark
from scheduler_service.domain.schedules import NO_CONTENT, Content, Row, State

NULL = dict.fromkeys(Row.__struct_fields__)


def row(**fields: Any) -> Row:
    id_ = compose_schedule_id(due=60_000, poller_id=0, tail=1)
    return Row(**{**NULL, "due": UnixMillis(60_000), "schedule_id": id_, "created_at": UnixMillis(1), **fields})


def content(url: str = "https://a.example/", key: str | None = None, flow: str | None = None) -> Content:
    options = ScheduleOptions(
        key=None if key is None else KeyMark(key, 1, UnixMillis(0), 30),
        flow=None if flow is None else Flow(key=flow),
    )
    return Content("POST", url, "[]", b"", encode_options(options))


def test_every_row_is_admitted_without_a_filter() -> None:
    assert EVERY.admits(row())
    assert EVERY.admits(row(state="failed", label="x", cron_id="c"))
    assert EVERY.admits_content(NO_CONTENT)
    assert not EVERY.reads_content


@pytest.mark.parametrize(
    ("filter_", "fields", "admitted"),
    [
        ({"labels": ("a", "b")}, {"label": "b"}, True),
        ({"labels": ("a", "b")}, {"label": "c"}, False),
        ({"labels": ("a",)}, {"label": None}, False),
        ({"labels": ("a",)}, {"label": "ab"}, False),
        ({"states": (State.SCHEDULED,)}, {"state": None}, True),
        ({"states": (State.FAILED, State.SKIPPED)}, {"state": "skipped"}, True),
        ({"states": (State.FAILED,)}, {"state": None}, False),
        ({"cron_id": "nightly"}, {"cron_id": "nightly"}, True),
        ({"cron_id": "nightly"}, {"cron_id": None}, False),
        ({"labels": ("a",), "states": (State.FAILED,)}, {"label": "a", "state": "failed"}, True),
        ({"labels": ("a",), "states": (State.FAILED,)}, {"label": "a", "state": "delivered"}, False),
        ({"labels": ("a",), "cron_id": "x"}, {"label": "a", "cron_id": "y"}, False),
    ],
)
def test_every_filter_must_hold_of_a_row(filter_: dict[str, Any], fields: dict[str, Any], admitted: bool) -> None:
    asked = ScheduleFilter(**filter_)
    assert asked.admits(row(**fields)) == admitted
    assert not asked.reads_content


@pytest.mark.parametrize(
    ("filter_", "stored", "admitted"),
    [
        ({"host": "a.example"}, content("https://A.example:8443/x?b.example"), True),
        ({"host": "a.example"}, content("https://a.example"), True),
        ({"host": "a.example"}, content("https://a.example.b.example/"), False),
        ({"host": "a.example"}, content("https://b.example/a.example"), False),
        ({"host": "[::1]"}, content("http://[::1]:80/"), True),
        ({"host": "mail"}, content("destination://mail/x"), False),
        ({"destination": "mail"}, content("destination://mail/x"), True),
        ({"destination": "mail"}, content("destination://mail"), True),
        ({"destination": "mail"}, content("destination://mailer/x"), False),
        ({"destination": "mail"}, content("https://mail/x"), False),
        ({"key_prefix": "cart-"}, content(key="cart-17"), True),
        ({"key_prefix": "cart-17"}, content(key="cart-17"), True),
        ({"key_prefix": "cart-17x"}, content(key="cart-17"), False),
        ({"key_prefix": "art"}, content(key="cart-17"), False),
        ({"key_prefix": "cart"}, content(), False),
        ({"key_prefix": "cart"}, content(flow="cart-17"), False),
        ({"key_prefix": "cart", "host": "a.example"}, content(key="cart-17"), True),
        ({"key_prefix": "cart", "host": "b.example"}, content(key="cart-17"), False),
        ({"host": "a.example"}, NO_CONTENT, False),
        ({"destination": "mail"}, NO_CONTENT, False),
        ({"key_prefix": "cart"}, NO_CONTENT, False),
        ({"key_prefix": "cart"}, Content("POST", None, None, None, '{"key":nonsense'), False),
    ],
)
def test_every_filter_must_hold_of_the_content(filter_: dict[str, Any], stored: Content, admitted: bool) -> None:
    asked = ScheduleFilter(**filter_)
    assert asked.admits_content(stored) == admitted
    assert asked.reads_content
    assert asked.admits(row())


def test_a_url_of_a_destination_has_no_host_and_no_other_url_has_a_destination() -> None:
    for url in ("destination://mail", "destination://mail/a/b", "destination://"):
        assert host_of(url) is None
    assert host_of("https:///x") is None
    for url in (None, "", "https://a.example/", "nonsense", "x-destination://mail/"):
        assert destination_of(url) is None


@pytest.mark.parametrize("text", ["", "a b", "a:80", "a/", "https://a", "[::1", "a" * 254, "ä.example", "a..b"])
def test_what_is_no_host(text: str) -> None:
    with pytest.raises(ValueError, match="host"):
        read_host(text)


def test_hosts_are_compared_in_lower_case() -> None:
    assert read_host("A.Example") == "a.example"
    assert read_host("[2001:DB8::1]") == "[2001:db8::1]"


@pytest.mark.parametrize("text", ["", "A", "a/b", "-a", "a" * 64])
def test_what_is_no_destination(text: str) -> None:
    with pytest.raises(ValueError, match="destination"):
        read_destination(text)


@pytest.mark.parametrize("text", ["", "a b", "ä", "\n", "x" * 257])
def test_invalid_key_prefixes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="visible ASCII"):
        read_key_prefix(text)


def test_labels_are_bounded_in_number_and_together_in_bytes() -> None:
    assert read_labels(["b", "a", "b"]) == ("a", "b")
    assert len(read_labels(map(str, range(MAX_LABELS)))) == MAX_LABELS
    with pytest.raises(ValueError, match="20 times"):
        read_labels(map(str, range(MAX_LABELS + 1)))
    assert read_labels(["x" * MAX_LABEL_BYTES])
    with pytest.raises(ValueError, match="together"):
        read_labels(["ä" * (MAX_LABEL_BYTES // 2), "x"])


def test_a_filter_is_what_it_is_stored_as() -> None:
    asked = ScheduleFilter(labels=("a",), states=(State.FAILED,), host="a.example")
    text = msgspec.json.encode(asked)
    assert text == b'{"labels":["a"],"states":["failed"],"host":"a.example"}'
    assert msgspec.json.decode(text, type=ScheduleFilter) == asked
