"""Trial calls over loopback: the request that a receiver gets, the answer for the caller, and how many are made."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from minutehand.webhooks import verify
from poller_cluster.settings import ReceiverSettings
from poller_cluster.trial_calls import AT_ONCE_PER_CLIENT, BURST, TrialCalls
from scheduler_service.domain.network import NetworkPolicy
from tests.support.api import ApiHarness
from tests.support.certificates import Authority
from tests.support.delivery import CLOCK, LOOPBACK
from tests.support.delivery import DeliverySettings as Delivery
from tests.support.http2_receiver import Http2Receiver
from tests.support.raw_receiver import RawReceiver, RawRequest, answering, hanging, writing

PATH = "/v1/clients/shop/callbacks:try"


class TrialCallApi(ApiHarness):
    """An API that really sends its trial calls, on a clock that stands still."""

    def __init__(self, policy: NetworkPolicy = LOOPBACK, **delivery: Any) -> None:
        self.calls = TrialCalls(
            clock=CLOCK, policy=LOOPBACK, settings=Delivery(**delivery), receivers=ReceiverSettings(), version="9"
        )
        super().__init__(trial_calls=self.calls, network=policy, request_timeout_seconds=1.0)
        self.key = ""
        self.secret = ""

    async def __aenter__(self) -> "TrialCallApi":
        await super().__aenter__()
        self.key = await self.register()
        self.secret = (await self.send("POST", "/v1/clients/shop/signing-secrets")).json["secret"]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await super().__aexit__(*exc_info)
        await self.calls.stop()

    async def trial_call(self, url: str, *, timeout_seconds: float | None = None, **callback: Any) -> Any:
        body: dict[str, Any] = {"callback": {"url": url, **callback}}
        if timeout_seconds is not None:
            body["timeout_seconds"] = timeout_seconds
        reply = await self.send("POST", PATH, key=self.key, json=body)
        assert reply.status == 200, reply.body
        return reply.json


@pytest.fixture
async def api() -> AsyncIterator[TrialCallApi]:
    async with TrialCallApi() as running:
        yield running


def holding(receiver: RawReceiver) -> asyncio.Queue[RawRequest]:
    """Requests to `/hang`, which get no answer, as they arrive."""
    arrived: asyncio.Queue[RawRequest] = asyncio.Queue()

    async def hold(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        arrived.put_nowait(request)
        await hanging(request, writer)

    receiver.script["/hang"] = hold
    return arrived


async def test_it_is_sent_while_the_client_is_paused(api: TrialCallApi, receiver: RawReceiver) -> None:
    receiver.script["/hook"] = answering(200, b"thanks")
    assert (await api.send("POST", "/v1/clients/shop:pause")).status == 200
    shown = await api.trial_call(receiver.url("/hook"))
    assert (shown["status"], len(receiver.requests)) == (200, 1), shown


async def test_a_preview_shows_what_the_call_would_send_and_sends_nothing(
    api: TrialCallApi, receiver: RawReceiver
) -> None:
    body = {
        "delay_seconds": 600,
        "skip_after_seconds": 0,
        "callback": {"url": receiver.url("/hook"), "headers": {"Authorization": "Bearer s3cret", "X-Mine": "1"}},
    }
    made = await api.send("POST", "/v1/clients/shop/schedules", key=api.key, json=body)
    schedule_id = made.json["schedule_id"]
    reply = await api.send("POST", f"/v1/clients/shop/schedules/{schedule_id}:preview", key=api.key)
    assert reply.status == 200, reply.body
    shown = reply.json
    assert b"s3cret" not in reply.body
    assert (shown["method"], shown["url"]) == ("POST", receiver.url("/hook"))
    headers = {name.lower(): value for name, value in shown["headers"].items()}
    assert (headers["authorization"], headers["x-mine"], headers["webhook-id"]) == ("***", "1", schedule_id)
    assert "minutehand-trial" not in headers
    verify(shown["body"].encode(), shown["headers"], api.secret, now=CLOCK.wall_ms() / 1000)
    assert json.loads(shown["body"])["schedule_id"] == schedule_id
    assert receiver.requests == []


async def test_it_is_sent_as_a_schedule_would_be_and_marked(api: TrialCallApi, receiver: RawReceiver) -> None:
    receiver.script["/hook"] = answering(200, b"thanks", headers=("Set-Cookie: a=b", "X-Two: 1", "X-Two: 2"))
    given = {"Authorization": "Bearer of-the-receiver", "X-Mine": "1"}
    shown = await api.trial_call(receiver.url("/hook"), json={"order": 17}, headers=given)
    (request,) = receiver.requests
    now = api.clock.wall_ms() / 1000
    verified = verify(request.body, dict(request.headers), api.secret, now=now)
    assert (verified.webhook_id, verified.client_id, verified.attempt) == (shown["schedule_id"], "shop", 1)
    assert (verified.trial, verified.redelivery) == (True, False)
    assert request.values("authorization") == ["Bearer of-the-receiver"]
    assert request.values("user-agent") == ["Minutehand/9"]
    written = {name: value for name, value in request.headers if name != "Authorization"}
    assert shown["request"] == {
        "url": receiver.url("/hook"),
        "method": "POST",
        "headers": {**written, "Authorization": "***"},
        "body": '{"order":17}',
    }
    assert (shown["delivered"], shown["sent"], shown["status"], shown["error"]) == (True, True, 200, None)
    assert (shown["http_version"], shown["excerpt"]) == ("1.1", "thanks")
    assert shown["response_headers"] == {"Set-Cookie": "***", "X-Two": "1, 2", "Content-Length": "6"}
    assert shown["connected_to"] == f"127.0.0.1:{receiver.port}" == shown["addresses"][0]
    times = shown["times"]
    assert 0 < times["connected_seconds"] <= times["first_byte_seconds"] <= times["ended_seconds"]
    assert times["secured_seconds"] is None


async def test_it_is_signed_by_key_pairs_too(api: TrialCallApi, receiver: RawReceiver) -> None:
    made = await api.send("POST", "/v1/clients/shop/signing-secrets", json={"scheme": "v1a"})
    await api.trial_call(receiver.url("/"))
    (request,) = receiver.requests
    for secret in (api.secret, made.json["secret"]):
        assert verify(request.body, dict(request.headers), secret, now=api.clock.wall_ms() / 1000).trial


@pytest.mark.parametrize(("kind", "version"), [(RawReceiver, "1.1"), (Http2Receiver, "2")])
async def test_tls_and_the_version_are_seen(tmp_path: Path, kind: Any, version: str) -> None:
    authority = Authority(tmp_path)
    async with (
        kind(tls=authority.server_context("127.0.0.1")) as receiver,
        TrialCallApi(ca_file=str(authority.bundle)) as api,
    ):
        shown = await api.trial_call(receiver.url("/"), headers={"X-Mine": "1"})
    assert (shown["delivered"], shown["http_version"]) == (True, version), shown
    times = shown["times"]
    assert 0 < times["connected_seconds"] < times["secured_seconds"] <= times["first_byte_seconds"]
    sent = {name.lower(): value for name, value in shown["request"]["headers"].items()}
    assert (sent["x-mine"], sent["minutehand-trial"]) == ("1", "true")
    async with RawReceiver(tls=authority.server_context("127.0.0.1")) as stranger, TrialCallApi() as api:
        shown = await api.trial_call(stranger.url())
    assert (shown["error"], shown["sent"], shown["times"]["secured_seconds"]) == ("tls-failed", False, None)
    assert shown["connected_to"] == f"127.0.0.1:{stranger.port}"


async def test_nothing_of_it_is_kept(api: TrialCallApi, receiver: RawReceiver) -> None:
    tables = {name: api.connection.rows(name) for name in api.connection.tables}
    shown = await api.trial_call(receiver.url())
    assert {name: api.connection.rows(name) for name in api.connection.tables} == tables
    reply = await api.send("GET", f"/v1/clients/shop/schedules/{shown['schedule_id']}", key=api.key)
    assert reply.status == 404


async def test_what_the_receiver_does_is_an_answer(api: TrialCallApi, receiver: RawReceiver) -> None:
    receiver.script["/no"] = answering(500, b"not today", headers=("Retry-After: 5",))
    shown = await api.trial_call(receiver.url("/no"), timeout_seconds=30)
    assert (shown["delivered"], shown["status"], shown["excerpt"]) == (False, 500, "not today")
    receiver.script["/hang"] = hanging
    shown = await api.trial_call(receiver.url("/hang"), timeout_seconds=1.3)
    assert (shown["delivered"], shown["status"], shown["error"]) == (False, None, "timeout")
    assert shown["detail"] == "no answer within 1.3 s"
    assert shown["sent"] is True
    receiver.script["/odd"] = writing(b"SPAM SPAM\r\n\r\n")
    assert (await api.trial_call(receiver.url("/odd"), timeout_seconds=1))["error"] == "bad-response"
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        shown = await api.trial_call(f"http://127.0.0.1:{closed.getsockname()[1]}/")
    assert (shown["error"], shown["sent"], shown["connected_to"]) == ("connect-refused", False, None)
    assert shown["request"]["headers"]["Minutehand-Trial"] == "true", "what was to be sent"
    assert shown["times"]["first_byte_seconds"] is None


async def test_it_may_take_longer_than_other_requests(api: TrialCallApi, receiver: RawReceiver) -> None:
    arrived = holding(receiver)
    body = {"callback": {"url": receiver.url("/hang")}, "timeout_seconds": 0.5}
    held = asyncio.create_task(api.send("POST", PATH, key=api.key, json=body))
    await arrived.get()
    api.clock.advance(2 * api.settings.request_timeout_seconds)
    assert (await held).json["error"] == "timeout"


async def test_the_network_policy_holds_before_and_behind_the_look_up(receiver: RawReceiver) -> None:
    async with TrialCallApi(NetworkPolicy()) as api:
        reply = await api.send("POST", PATH, key=api.key, json={"callback": {"url": receiver.url()}})
        assert reply.status == 422
        assert "loopback" in reply.faults["/callback/url"]
    calls = TrialCalls(
        clock=CLOCK, policy=NetworkPolicy(), settings=Delivery(), receivers=ReceiverSettings(), version="9"
    )
    async with ApiHarness(trial_calls=calls, network=LOOPBACK) as api:
        key = await api.register()
        reply = await api.send("POST", PATH, key=key, json={"callback": {"url": receiver.url()}})
        assert (reply.json["error"], reply.json["sent"]) == ("forbidden-address", False)
        assert "127.0.0.1" not in reply.json["detail"]
        assert reply.json["addresses"] == []
        await calls.stop()
    assert receiver.connections == 0


async def test_a_client_has_few_at_a_time(api: TrialCallApi, receiver: RawReceiver) -> None:
    arrived = holding(receiver)
    body = {"callback": {"url": receiver.url("/hang")}, "timeout_seconds": 2}
    held = [asyncio.create_task(api.send("POST", PATH, key=api.key, json=body)) for _ in range(AT_ONCE_PER_CLIENT)]
    for _ in held:
        await arrived.get()
    assert api.calls.in_flight == AT_ONCE_PER_CLIENT
    reply = await api.send("POST", PATH, key=api.key, json=body)
    assert (reply.status, reply.json["type"]) == (429, "/problems/too-many-trial-calls")
    assert int(reply.headers["Retry-After"]) >= 1
    other = await api.register("other")
    reply = await api.send(
        "POST", "/v1/clients/other/callbacks:try", key=other, json={"callback": {"url": receiver.url()}}
    )
    assert reply.json["delivered"] is True, "another client's are its own"
    assert {(await one).json["error"] for one in held} == {"timeout"}
    assert api.calls.in_flight == 0


async def test_a_client_has_few_in_a_row(api: TrialCallApi, receiver: RawReceiver) -> None:
    body = {"callback": {"url": receiver.url()}}
    statuses = [(await api.send("POST", PATH, key=api.key, json=body)).status for _ in range(BURST + 3)]
    assert statuses[:BURST] == [200] * BURST
    assert 429 in statuses[BURST:]
    assert len(receiver.requests) == statuses.count(200)


async def test_limits_of_a_host_hold(api: TrialCallApi, receiver: RawReceiver) -> None:
    limits = {"hosts": {"127.0.0.1": {"max_per_second": 0.1}}}
    await api.register(settings=limits)
    first, second = [
        await api.send("POST", PATH, key=api.key, json={"callback": {"url": receiver.url()}}) for _ in range(2)
    ]
    assert (first.status, second.status) == (200, 429)
    assert int(second.headers["Retry-After"]) >= 5


async def test_all_clients_share_a_bound_and_a_stop_ends_what_is_under_way(
    monkeypatch: pytest.MonkeyPatch, receiver: RawReceiver
) -> None:
    monkeypatch.setattr("poller_cluster.trial_calls.TRIAL_CALLS_AT_ONCE", 1)
    async with TrialCallApi() as api:
        arrived = holding(receiver)
        body = {"callback": {"url": receiver.url("/hang")}, "timeout_seconds": 60}
        held = asyncio.create_task(api.send("POST", PATH, key=api.key, json=body))
        await arrived.get()
        reply = await api.send("POST", PATH, key=api.key, json=body)
        assert (reply.status, reply.json["type"]) == (503, "/problems/overloaded")
        await api.calls.stop()
        assert (await held).json["error"] == "stopped"
        assert (await api.send("POST", PATH, key=api.key, json=body)).status == 503
    assert receiver.connections == 1


async def test_no_connection_is_kept(api: TrialCallApi, receiver: RawReceiver) -> None:
    await api.trial_call(receiver.url())
    await api.trial_call(receiver.url())
    assert receiver.connections == 2
    await receiver.idle()


async def test_a_suspended_client_sends_none(api: TrialCallApi, receiver: RawReceiver) -> None:
    await api.send("POST", "/v1/clients/shop:suspend")
    reply = await api.send("POST", PATH, key=api.key, json={"callback": {"url": receiver.url()}})
    assert (reply.status, reply.json["type"]) == (403, "/problems/client-suspended")
    assert receiver.connections == 0


async def test_it_shows_what_would_become_of_a_verb(api: TrialCallApi, receiver: RawReceiver) -> None:
    receiver.script["/no"] = answering(503, headers=("webhook-delivery: abort-message",))
    receiver.script["/later"] = answering(200, headers=("Retry-After: 600",))
    receiver.script["/far"] = answering(200, headers=("Minutehand-Call-At: 9999-01-01T00:00:00Z",))
    seen = {}
    for path in ("/no", "/later"):
        shown = await api.trial_call(receiver.url(path))
        seen[path] = shown["verb"], shown["verb_ignored"], shown["delivered"]
    assert seen == {"/no": ("not-again", None, False), "/later": ("snooze", "off", True)}
    everything = {"receiver_verbs": ["not-again", "snooze", "stop-cron"]}
    assert (await api.send("PATCH", "/v1/clients/shop/settings", json=everything)).status == 200
    for path in ("/later", "/far"):
        shown = await api.trial_call(receiver.url(path))
        seen[path] = shown["verb"], shown["verb_ignored"], shown["delivered"]
    assert (seen["/later"], seen["/far"]) == (("snooze", None, False), ("snooze", "too-far", True))
