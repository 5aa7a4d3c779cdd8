import base64
from typing import Any

import msgspec
import pytest

from scheduler_service.domain.clients import ClientSettings
from scheduler_service.domain.errors import Invalid
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.network import NetworkPolicy
from scheduler_service.domain.options import RetryOverride, ScheduleOptions, decode_headers, decode_options
from scheduler_service.usecases.schedule_request import Draft, ScheduleRequest, draft
from tests.support.api import NOW, callback, schedule

DAY = 86_400_000


def drafted(request: dict[str, Any], settings: ClientSettings | None = None, **policy: Any) -> Draft:
    decoded = msgspec.json.decode(msgspec.json.encode(request), type=ScheduleRequest)
    return draft(
        decoded, settings=settings or ClientSettings(), check_url=NetworkPolicy.parse(**policy).check_url, now=NOW
    )


def faults(request: dict[str, Any], settings: ClientSettings | None = None) -> dict[str, str]:
    with pytest.raises(Invalid) as caught:
        drafted(request, settings)
    return {error.pointer: error.detail for error in caught.value.errors}


def test_a_delay_counts_from_now() -> None:
    assert drafted(schedule(delay_seconds=90)).due == NOW + 90_000
    assert drafted(schedule(delay_seconds=0)).due == NOW
    assert drafted(schedule(delay_seconds=0.07)).due == NOW + 70
    assert drafted(schedule(delay_seconds=0.0001)).due == NOW + 1


@pytest.mark.parametrize(("behind_ms", "stored"), [(-1, NOW + 1), (0, NOW), (1, NOW), (60_000, NOW)])
def test_a_due_a_little_in_the_past_is_stored_as_now(behind_ms: int, stored: int) -> None:
    assert drafted(schedule(due=format_instant(NOW - behind_ms))).due == stored


def test_an_older_due_is_refused() -> None:
    assert "60 seconds in the past" in faults(schedule(due=format_instant(NOW - 60_001)))["/due"]


def test_the_horizon_is_the_clients() -> None:
    settings = ClientSettings(horizon_days=2)
    assert drafted(schedule(due=format_instant(NOW + 2 * DAY)), settings).due == NOW + 2 * DAY
    assert "2 days ahead" in faults(schedule(due=format_instant(NOW + 2 * DAY + 1)), settings)["/due"]
    assert drafted(schedule(delay_seconds=2 * 86_400), settings).due == NOW + 2 * DAY
    assert "2 days" in faults(schedule(delay_seconds=2 * 86_400 + 1), settings)["/delay_seconds"]


@pytest.mark.parametrize(
    ("request_", "detail"),
    [
        (schedule(delay_seconds=None), "neither"),
        (schedule(due="2026-11-21T09:31:00Z", delay_seconds=5), "both"),
        (schedule(due="in a minute"), "RFC 3339"),
        (schedule(due="2026-11-21T09:31:00"), "offset"),
    ],
)
def test_exactly_one_readable_due(request_: dict[str, Any], detail: str) -> None:
    assert detail in faults(request_)["/due"]


def test_a_negative_delay_is_refused() -> None:
    assert list(faults(schedule(delay_seconds=-0.001))) == ["/delay_seconds"]


def test_text_is_sent_as_utf_8_with_the_headers_as_given() -> None:
    drawn = drafted(schedule(callback=callback(body="né", headers={"X-A": "1"})))
    assert drawn.body == "né".encode()
    assert decode_headers(drawn.headers) == (("X-A", "1"),)


def test_json_is_sent_byte_for_byte_with_its_content_type() -> None:
    raw = (
        b'{"callback": {"url": "https://a.example", "json": {"big": 12345678901234567890.10, "a" : 1}}, '
        b'"delay_seconds": 1}'
    )
    decoded = msgspec.json.decode(raw, type=ScheduleRequest)
    drawn = draft(decoded, settings=ClientSettings(), check_url=NetworkPolicy().check_url, now=NOW)
    assert drawn.body == b'{"big": 12345678901234567890.10, "a" : 1}'
    assert decode_headers(drawn.headers) == (("content-type", "application/json"),)


def test_a_content_type_of_the_callers_own_stays() -> None:
    drawn = drafted(schedule(callback=callback(json=[1], headers={"Content-Type": "application/vnd.x+json"})))
    assert decode_headers(drawn.headers) == (("Content-Type", "application/vnd.x+json"),)


def test_bytes_come_as_base64() -> None:
    data = bytes(range(256))
    drawn = drafted(schedule(callback=callback(body_base64=base64.b64encode(data).decode())))
    assert drawn.body == data
    assert "base64" in faults(schedule(callback=callback(body_base64="a")))["/callback/body_base64"]
    assert "base64" in faults(schedule(callback=callback(body_base64="é===")))["/callback/body_base64"]


@pytest.mark.parametrize(
    ("fields", "body", "options"),
    [
        ({}, b"", "{}"),
        ({"body": None, "body_base64": None}, b"", "{}"),
        ({"body": ""}, b"", '{"empty_body":true}'),
        ({"body_base64": ""}, b"", '{"empty_body":true}'),
        ({"json": None}, b"null", "{}"),
        ({"json": ""}, b'""', "{}"),
    ],
)
def test_a_row_tells_no_body_from_an_empty_one(fields: dict[str, Any], body: bytes, options: str) -> None:
    drawn = drafted(schedule(callback=callback(**fields)))
    assert (drawn.body, drawn.options) == (body, options)


def test_one_body_at_most() -> None:
    wrong = faults(schedule(callback=callback(body="", json={}, body_base64="")))
    assert list(wrong) == ["/callback/json", "/callback/body_base64"]


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"body": "x" * 11}, "/callback/body"),
        ({"body": "é" * 6}, "/callback/body"),
        ({"json": "x" * 9}, "/callback/json"),
        ({"body_base64": base64.b64encode(b"x" * 11).decode()}, "/callback/body_base64"),
    ],
)
def test_the_payload_bound_counts_the_bytes_that_are_sent(fields: dict[str, Any], pointer: str) -> None:
    settings = ClientSettings(payload_bytes=10)
    assert "at most 10" in faults(schedule(callback=callback(**fields)), settings)[pointer]
    drafted(schedule(callback=callback(body="x" * 10)), settings)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a.example/",
        "/relative",
        "",
        "http://127.0.0.1/",
        "http://2130706433/",
        "http://[::ffff:10.0.0.1]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://localhost:8080/",
        "http://user:pass@a.example/",
        "http://a.example:99999/",
        "http://a.example/\r\nX: y",
    ],
)
def test_forbidden_urls_are_refused_at_create(url: str) -> None:
    assert list(faults(schedule(callback=callback(url=url)))) == ["/callback/url"]


def test_what_the_operator_allows_is_not_refused() -> None:
    request = schedule(callback=callback(url="http://127.0.0.1:9000/hook"))
    assert drafted(request, allow=["127.0.0.0/8"]).url == "http://127.0.0.1:9000/hook"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-A", "b\r\nX-B: c"),
        ("X-A", "b\nc"),
        ("X\r\nA", "b"),
        ("webhook-id", "1"),
        ("Minutehand-Fence", "1"),
        ("User-Agent", "me"),
        ("Host", "other.example"),
        ("Content-Length", "5"),
        ("Transfer-Encoding", "chunked"),
        ("", "x"),
    ],
)
def test_headers_that_are_ours_or_break_the_line_are_refused(name: str, value: str) -> None:
    (pointer,) = faults(schedule(callback=callback(headers={name: value})))
    assert pointer.startswith("/callback/headers/")


def test_options_keep_only_what_was_asked_for() -> None:
    assert drafted(schedule(retry={}, timeout_seconds=None)).options == "{}"
    drawn = drafted(schedule(retry={"max_attempts": 5}, timeout_seconds=2, skip_after_seconds=0))
    assert decode_options(drawn.options) == ScheduleOptions(
        retry=RetryOverride(max_attempts=5), timeout_seconds=2, skip_after_seconds=0
    )


def test_every_fault_is_named_at_once() -> None:
    wrong = faults(
        {
            "callback": {
                "url": "gopher://x",
                "method": "BREW",
                "headers": {"Host": "x", "a b": "c"},
                "body_base64": "!",
            },
            "due": "soon",
        }
    )
    assert set(wrong) == {
        "/due",
        "/callback/url",
        "/callback/method",
        "/callback/headers/Host",
        "/callback/headers/a b",
        "/callback/body_base64",
    }


@pytest.mark.parametrize(("seconds", "behind_ms"), [(0, 0), (0.5, 500), (3600, 3_600_000), (604_800, 7 * DAY)])
def test_how_far_in_the_past_a_due_is_accepted_is_the_clients(seconds: float, behind_ms: int) -> None:
    settings = ClientSettings(accept_past_seconds=seconds)
    drawn = drafted(schedule(due=format_instant(NOW - behind_ms)), settings)
    assert (drawn.due, drawn.nominal_due) == (NOW, NOW - behind_ms if behind_ms else None)
    wrong = faults(schedule(due=format_instant(NOW - behind_ms - 1)), settings)
    assert f"{seconds:.12g} seconds in the past" in wrong["/due"]


def local(**fields: Any) -> dict[str, Any]:
    return schedule(due={"local": "2027-03-28T02:30", "timezone": "Europe/Berlin", **fields})


def test_a_local_time_is_an_instant_by_the_zones_clock() -> None:
    drawn = drafted(local(local="2027-03-28T09:00"))
    assert (format_instant(drawn.due), drawn.nominal_due) == ("2027-03-28T07:00:00.000Z", None)
    assert format_instant(drafted(local()).due) == "2027-03-28T01:00:00.000Z"
    assert format_instant(drafted(local(local="2027-10-31T02:30", fold="second")).due) == "2027-10-31T01:30:00.000Z"
    assert faults(local(gap="skip")) == {"/due/local": "is skipped by a change of clocks in Europe/Berlin"}


def test_every_fault_of_a_local_time_is_named() -> None:
    wrong = faults(local(local="2027-03-28T02:30Z", timezone="Europe/Berln"))
    assert list(wrong) == ["/due/local", "/due/timezone"]
    assert "did you mean Europe/Berlin" in wrong["/due/timezone"]
    assert "730 days ahead" in faults(local(local="2037-03-28T09:00"))["/due"]
    assert "60 seconds in the past" in faults(local(local="2020-03-28T09:00"))["/due"]
    assert "both" in faults(schedule(due=local()["due"], delay_seconds=1))["/due"]


@pytest.mark.parametrize(("point", "offset_ms"), [(0, 0), (1 << 63, 300_000), ((1 << 64) - 1, 599_999)])
def test_a_window_spreads_what_is_asked_for(point: int, offset_ms: int) -> None:
    request = msgspec.convert(schedule(delay_seconds=90, window_seconds=600), type=ScheduleRequest)
    drawn = draft(request, settings=ClientSettings(), check_url=NetworkPolicy().check_url, now=NOW, point=point)
    assert drawn.due == NOW + 90_000 + offset_ms
    assert drawn.nominal_due == (NOW + 90_000 if offset_ms else None)


def test_a_window_counts_from_a_due_in_the_past() -> None:
    request = msgspec.convert(schedule(due=format_instant(NOW - 30_000), window_seconds=60), type=ScheduleRequest)
    for point, due in ((1 << 62, NOW), (3 << 62, NOW + 15_000)):
        drawn = draft(request, settings=ClientSettings(), check_url=NetworkPolicy().check_url, now=NOW, point=point)
        assert (drawn.due, drawn.nominal_due) == (due, NOW - 30_000)


def test_a_window_ends_within_the_horizon() -> None:
    settings = ClientSettings(horizon_days=2)
    assert faults(schedule(delay_seconds=2 * 86_400 - 599, window_seconds=600), settings) == {
        "/window_seconds": "reaches more than 2 days ahead"
    }
    assert drafted(schedule(delay_seconds=2 * 86_400 - 600, window_seconds=600), settings).due <= NOW + 2 * DAY
    wrong = faults(schedule(due=format_instant(NOW + 2 * DAY + 1), window_seconds=600), settings)
    assert list(wrong) == ["/due"]
