"""Success deadlines: which schedules have one, when it is met, and what an event says of one that is not."""

from typing import Any

import msgspec
import pytest

from scheduler_service.domain.events import EventType
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.domain.notices import EVENTS_CLIENT, DeadlineContent, deadline_row, decode_notice, wants
from scheduler_service.domain.options import ScheduleOptions, encode_options
from scheduler_service.domain.retry_rows import retry_row_of
from scheduler_service.domain.schedule_keys import KeyMark
from scheduler_service.domain.schedules import Definition, Row
from scheduler_service.domain.subscriptions import EventFilter, Subscription
from scheduler_service.domain.success_deadlines import (
    LOOK_AFTER_MS,
    TOLD_LATE_MS,
    Standing,
    deadline_of,
    met,
    overdue_event,
    why,
    within_seconds,
)
from tests.contract.builders import definition

SHOP = ClientId("shop")
OPTIONS = encode_options(ScheduleOptions(succeed_within_seconds=1.5))
ONE: Definition = definition(SHOP, offset=500)
BY = UnixMillis(ONE.due + 1_500)
FREE = Standing(in_flight=False, client=None, destination_paused=False, now=BY + LOOK_AFTER_MS)


def row(**columns: Any) -> Row:
    known = {name: getattr(ONE, name, None) for name in Row.__struct_fields__}
    return Row(**{**known, "options": OPTIONS, "attempts": 0, **columns})


@pytest.mark.parametrize("options", [None, "{}", '{"key":{"name":"succeed_within_seconds"}}', '{"succeed_within_sec'])
def test_others_have_none(options: str | None) -> None:
    assert within_seconds(options) is None
    assert deadline_of(options, due=ONE.due) is None


def test_options_that_cannot_be_decoded_say_nothing() -> None:
    assert within_seconds('{"succeed_within_seconds":"soon"}') is None


def test_the_row_derives_from_schedule_and_deadline() -> None:
    watched = msgspec.structs.replace(ONE, options=OPTIONS)
    made = deadline_row(watched)
    assert made == deadline_row(watched)
    assert made is not None
    assert (made.client_id, made.due) == (EVENTS_CLIENT, BY + LOOK_AFTER_MS)
    assert decode_notice(made.body) == DeadlineContent(client_id=SHOP, schedule_id=ONE.schedule_id, by=BY)
    other = deadline_row(msgspec.structs.replace(watched, options='{"succeed_within_seconds":2}'))
    assert other is not None
    assert other.schedule_id != made.schedule_id
    assert deadline_row(ONE) is None
    assert deadline_row(retry_row_of(watched, at=UnixMillis(ONE.due + 9), attempts=1)) is None
    assert deadline_row(msgspec.structs.replace(watched, client_id=EVENTS_CLIENT)) is None


@pytest.mark.parametrize(
    ("columns", "is_met"),
    [
        ({}, False),
        ({"state": "retrying"}, False),
        ({"state": "failed", "finished_at": BY - 1}, False),
        ({"state": "skipped", "finished_at": BY - 1}, False),
        ({"state": "cancelled", "finished_at": BY + 1}, True),
        ({"state": "delivered", "finished_at": BY}, True),
        ({"state": "delivered", "finished_at": BY + 1}, False),
        ({"state": "retrying", "reason": "awaiting"}, False),
    ],
)
def test_only_success_in_time_and_cancels_meet_it(columns: dict[str, Any], is_met: bool) -> None:
    assert met(row(**columns), BY) is is_met


@pytest.mark.parametrize(
    ("columns", "standing", "reason"),
    [
        ({}, {}, "not-called"),
        ({}, {"in_flight": True}, "in-flight"),
        ({}, {"client": "paused"}, "client-paused"),
        ({"state": "retrying", "attempts": 2}, {"client": "suspended"}, "client-suspended"),
        ({"state": "retrying", "attempts": 2}, {"destination_paused": True}, "destination-paused"),
        ({"state": "retrying", "attempts": 2}, {"in_flight": True}, "receiver"),
        ({"state": "retrying", "reason": "flow"}, {}, "flow"),
        ({"fired_by": " waited ordering=20/x,quota=70"}, {}, "quota"),
        ({"state": "retrying", "reason": "awaiting", "attempts": 1}, {}, "awaiting"),
        ({"state": "failed", "reason": "exhausted"}, {"client": "paused"}, "exhausted"),
        ({"state": "skipped"}, {}, "skipped"),
        ({"state": "delivered"}, {"client": "paused"}, "delivered-late"),
    ],
)
def test_the_reason_is_what_keeps_it(columns: dict[str, Any], standing: dict[str, Any], reason: str) -> None:
    assert why(row(**columns), FREE._replace(**standing)) == reason


@pytest.mark.parametrize(("after_ms", "late"), [(TOLD_LATE_MS, None), (TOLD_LATE_MS + 1, 10.001)])
def test_the_event_says_if_nodes_were_late(after_ms: int, late: float | None) -> None:
    standing = FREE._replace(now=BY + after_ms)
    event = overdue_event(SHOP, row(state="retrying", attempts=3, last_status=503), deadline=BY, standing=standing)
    data = msgspec.json.decode(event.data)
    assert (event.type, event.schedule_id, event.at) == ("schedule.overdue", ONE.schedule_id, BY + after_ms)
    assert data.get("told_late_seconds") == late
    assert (data["state"], data["attempts"], data["last_status"], data["reason"]) == ("retrying", 3, 503, "receiver")
    again = overdue_event(SHOP, row(), deadline=BY, standing=FREE)
    assert again.event_id == event.event_id
    assert overdue_event(SHOP, row(), deadline=UnixMillis(BY + 1), standing=FREE).event_id != event.event_id


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({}, True),
        ({"label": "orders"}, True),
        ({"label": "Orders"}, False),
        ({"key_prefix": "order-"}, True),
        ({"key_prefix": "order-170"}, False),
        ({"cron_id": "nightly"}, True),
        ({"cron_id": "weekly"}, False),
        ({"destination": "crm"}, True),
        ({"destination": "book"}, False),
        ({"label": "orders", "key_prefix": "order-", "cron_id": "nightly", "destination": "crm"}, True),
        ({"label": "orders", "destination": "book"}, False),
    ],
)
def test_the_event_has_what_filters_of_subscriptions_ask_for(asked: dict[str, Any], wanted: bool) -> None:
    key = KeyMark(name="order-17", revision=1, put_at=UnixMillis(1), kept_days=9)
    options = encode_options(ScheduleOptions(succeed_within_seconds=1.5, key=key))
    late = row(options=options, label="orders", cron_id="nightly", url="destination://crm/pay")
    event = overdue_event(SHOP, late, deadline=BY, standing=FREE)
    for types, sent in (((), wanted), ((EventType.OVERDUE,), wanted), ((EventType.FAILED,), False)):
        assert wants(Subscription(destination="book", events=types, filter=EventFilter(**asked)), event) is sent
    bare = overdue_event(SHOP, row(url="https://a.example/"), deadline=BY, standing=FREE)
    assert wants(Subscription(destination="book", filter=EventFilter(**asked)), bare) is (not asked)
