"""Every operation has an example that fits its schema and matches the API's answer."""

import re
from typing import Any
from uuid import UUID

import msgspec
import pytest

from scheduler_service.api.http.query import PATH_PARTS
from scheduler_service.api.http.route import Route, operation_id
from scheduler_service.api.openapi.examples import EXAMPLES, Example
from scheduler_service.api.resources import ROUTES
from scheduler_service.domain.audits import Audit, AuditCounts, AuditId
from scheduler_service.domain.destination_figures import NodeFigures
from scheduler_service.domain.events import Block, Event
from scheduler_service.domain.ids import DAY_MS, MINUTE_MS, ClientId, ScheduleId, UnixMillis
from scheduler_service.domain.schedules import Outcome, State
from scheduler_service.domain.usage import DayUsage, FailingHost, HourUsage
from tests.support.api import NOW, ApiHarness
from tests.support.api_document import api_document
from tests.support.api_story import ROUTE, Story
from tests.support.cron_calls import end
from tests.support.nodes import Nodes
from tests.support.outcomes import awaiting
from tests.support.usage import put_usage

FIRST = ("put_client", "create_schedule", "put_cron", "create_key", "create_secret", "create_admin_key")
"""Examples that are sent before any other, unless that one creates the same."""
BEFORE = {
    "put_client": (),
    "list_clients": ("put_client",),
    "get_cluster_backlog": ("put_client", "create_schedule"),
    "get_cluster": ("put_client",),
    "list_latest_audits": ("put_client",),
    "list_reconciliations_under_way": (*FIRST, "create_reconciliation"),
    "create_schedule": ("put_client",),
    "list_pollers": ("put_client",),
    "put_cron": ("put_client",),
    "put_destination": ("put_client",),
    "get_destination": ("put_client", "put_destination"),
    "list_destinations": ("put_client", "put_destination"),
    "pause_destination": ("put_client", "put_destination"),
    "resume_destination": ("put_client", "put_destination", "pause_destination"),
    "delete_destination": ("put_client", "put_destination"),
    "put_subscription": ("put_client", "put_destination"),
    "get_subscription": ("put_client", "put_destination", "put_subscription"),
    "list_subscriptions": ("put_client", "put_destination", "put_subscription"),
    "delete_subscription": ("put_client", "put_destination", "put_subscription"),
    "create_key": ("put_client",),
    "list_keys": ("put_client", "create_key"),
    "create_secret": ("put_client",),
    "list_secrets": ("put_client",),
    "create_admin_key": (),
    "list_audit_log": ("put_client",),
    "list_client_audit_log": ("put_client",),
    "revoke_key": ("put_client", "create_key"),
    "delete_client": (*FIRST, "suspend_client"),
    "resume_client": (*FIRST, "suspend_client"),
    "unpause_client": (*FIRST, "pause_client"),
    "resume_cron": (*FIRST, "pause_cron"),
    "resume_crons": (*FIRST, "pause_cron"),
    "put_schedule": ("put_client",),
    "get_schedule_by_key": ("put_client", "put_schedule"),
    "cancel_schedule_by_key": ("put_client", "put_schedule"),
    "create_reconciliation": ("put_client",),
    "get_reconciliation": ("put_client", "create_reconciliation"),
    "list_reconciliations": ("put_client", "create_reconciliation"),
    "list_reconciled_schedules": ("put_client", "create_reconciliation"),
    "stop_reconciliation": ("put_client", "create_reconciliation"),
}
CHOSEN_BY_THE_SERVER = {
    "entry_id",
    "schedule_id",
    "reconciliation_id",
    "rescheduled_from",
    "rescheduled_to",
    "poller_id",
    "key_id",
    "key",
    "secret_id",
    "secret",
    "public_key",
    "request_id",
    "webhook-id",
}
GAVE_UP = Outcome(state=State.FAILED, attempts=5, finished_at=UnixMillis(NOW), last_status=503, reason="exhausted")
_LATE: dict[str, Any] = {f"lateness_{of}_ms": 21 for of in ("p95", "p99", "max")} | {"lateness_p50_ms": 4}
_USED: dict[str, Any] = {"accepted": 3, "delivered": 1, "failed": 1, "open": 1, "attempts": 6, "bytes": 39, **_LATE}
AUDITED = Audit(
    client_id=ClientId("shop"),
    audit_id=AuditId(UUID(EXAMPLES["list_latest_audits"].answer["items"][0]["audit_id"])),
    window_start=UnixMillis(NOW - 90 * MINUTE_MS),
    window_end=UnixMillis(NOW - 30 * MINUTE_MS),
    counts=AuditCounts(accepted=120, delivered=117, failed=1, cancelled=2),
    findings={"stranded": 1},
)
"""The audit that is shown."""
COUNTED = DayUsage(
    client_id=ClientId("shop"),
    day=UnixMillis(NOW - NOW % DAY_MS),
    complete=False,
    counted_at=UnixMillis(NOW),
    failing_hosts=(FailingHost(host="shop.example", failed=1),),
    hours=(HourUsage(hour=9, **_USED),),
    **_USED,
)
"""Usage that Spark has written before the example is sent."""
CALLED = NodeFigures(calls=4_812, failures=3, answers=(*[0] * 21, 4_700, *[0] * 9, 112), in_flight=2, waiting=11)
"""What a node has counted of a destination."""
SHAPE = [(re.compile(r"(?<=whsec_).{43}|(?<=whpk_).{43}"), "0"), (re.compile(r"[0-9a-f]"), "0")]


def shape(value: Any) -> Any:
    """The common form of ids of one kind."""
    if not isinstance(value, str):
        return type(value)
    for pattern, text in SHAPE:
        value = pattern.sub(text, value)
    return value


def same(answer: Any, example: Any, *, name: str = "", partial: bool = False) -> None:
    if isinstance(example, dict):
        assert isinstance(answer, dict)
        assert partial or list(answer) == list(example)
        for key in example:
            same(answer[key], example[key], name=key)
    elif isinstance(example, list):
        assert len(answer) == len(example)
        for one, other in zip(answer, example, strict=True):
            same(one, other, name=name)
    elif name in CHOSEN_BY_THE_SERVER:
        assert shape(answer) == shape(example), name
    else:
        assert answer == example, name


@pytest.mark.parametrize("id_", ROUTE)
async def test_it_is_answered_as_the_example_says(api: ApiHarness, id_: str) -> None:
    story, example = Story(api), EXAMPLES[id_]
    before = BEFORE.get(id_, FIRST)
    if "put_cron" in (*before, id_):
        await api.add_built_in_clients()
    for one in before:
        await story.send(one)
    if id_ in ("get_cluster", "get_forecast", "get_cluster_forecast", "drain_node", "undrain_node"):
        nodes = Nodes(api)
        await nodes.beat(await nodes.add("node-a"), seconds=2)
    if id_ == "get_destination":
        nodes = Nodes(api)
        await nodes.beat(await nodes.add("node-a"), seconds=2)
        api.nodes.figures["node-a", ClientId("shop"), PATH_PARTS["destination"].example] = CALLED
    if id_ == "redeliver_schedule":
        await end(api, story.names["schedule_id"], GAVE_UP)
    if id_ in ("get_forecast", "get_cluster_forecast"):
        await api.services.minute_loads.write()
    if id_ in ("get_backlog", "get_cluster_backlog"):
        api.clock.advance(240)
    if id_ == "acknowledge":
        story.names["ack_token"] = await awaiting(api, ScheduleId(UUID(story.names["schedule_id"])))
    if id_ == "list_latest_audits":
        await api.storage.audits.insert(AUDITED)
    if id_ == "get_usage":
        await put_usage(api.connection, COUNTED)
    if id_ == "list_events":
        await tell(api, example.answer["events"][0])
    reply = await story.send(id_)
    if example.answer is None:
        assert reply.body == b""
    elif isinstance(example.answer, str):
        assert example.partial
        assert example.answer in reply.body.decode()
    else:
        same(reply.json, example.answer, partial=example.partial)


async def tell(api: ApiHarness, event: dict[str, Any]) -> None:
    """Append this event to the feed of the client, which it has from now on."""
    shop, block = ClientId("shop"), Block("0000", 7, 0)
    await api.send("PATCH", "/v1/clients/shop/settings", json={"event_feed": True})
    await api.storage.events.begin_block(shop, block, begun_at=UnixMillis(NOW))
    told = Event(
        event_id=UUID(event["id"]),
        type=event["type"],
        at=UnixMillis(NOW),
        schedule_id=ScheduleId(UUID(event["schedule_id"])),
        data=msgspec.json.encode(event["data"]).decode(),
    )
    await api.storage.events.append(shop, block, first_seq=0, events=[told])


def test_every_operation_has_exactly_one_example() -> None:
    assert len(ROUTE) == len(ROUTES), "two operations have one name"
    assert sorted(EXAMPLES) == sorted(ROUTE)


@pytest.mark.parametrize("route", ROUTES, ids=ROUTE)
def test_it_fits_the_schema(route: Route) -> None:
    document, example = api_document(), EXAMPLES[operation_id(route)]
    if example.request is not msgspec.UNSET:
        document.check_request(route, example.request)
    if example.answer is not None and not example.partial:
        document.check_answer(route, route.status, example.answer)


@pytest.mark.parametrize(
    "wrong", [{"state": "asleep"}, {"due": "tomorrow"}, {"attempts": "none"}, {"callback": {"url": "https://a.b/"}}]
)
def test_an_example_that_does_not_fit_is_found(wrong: dict[str, Any]) -> None:
    right: Example = EXAMPLES["get_schedule"]
    with pytest.raises(AssertionError, match=next(iter(wrong))):
        api_document().check_answer(ROUTE["get_schedule"], 200, {**right.answer, **wrong})
