"""Trial calls of destinations that have a token source, over loopback."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from poller_cluster.delivery.token_fetcher import TokenFetcher
from poller_cluster.delivery.token_request import Grant, TokenFailure
from poller_cluster.settings import ReceiverSettings
from poller_cluster.trial_calls import AT_ONCE_PER_CLIENT, TrialCalls
from scheduler_service.domain.destinations import CloudEvents, Destination, TokenSource, named_url
from scheduler_service.domain.ids import PollerId, UnixMillis, compose_schedule_id
from scheduler_service.domain.schedules import Definition
from scheduler_service.domain.trial_calls import Exchange, TooManyTrialCalls, TrialCall, TrialCallsFull
from tests.support.delivery import CLOCK, LOOPBACK, DeliverySettings
from tests.support.raw_receiver import RawReceiver, RawRequest, answering, hanging
from tests.unit.poller_cluster.claimed import client

GRANTED = json.dumps({"access_token": "abc123", "token_type": "Bearer", "expires_in": 600}).encode()
REFUSED = json.dumps({"error": "invalid_client", "error_description": "no such client"}).encode()


@pytest.fixture
async def calls() -> AsyncIterator[TrialCalls]:
    made = TrialCalls(
        clock=CLOCK, policy=LOOPBACK, settings=DeliverySettings(), receivers=ReceiverSettings(), version="9"
    )
    yield made
    await made.stop()


def trial(receiver: RawReceiver, max_in_flight: int | None = None, **differing: Any) -> TrialCall:
    source = TokenSource(client_id="shop", client_secret="the-secret", token_url=receiver.url("/token"))
    now = UnixMillis(CLOCK.wall_ms())
    columns: dict[str, Any] = {
        "client_id": client().client_id,
        "poller_id": PollerId(0),
        "due": now,
        "schedule_id": compose_schedule_id(due=now, poller_id=0, tail=1),
        "method": "POST",
        "url": named_url("orders", "/17"),
        "headers": "[]",
        "body": b"{}",
        "options": "{}",
        "created_at": now,
    }
    events = CloudEvents(type="test.order", source="/shop")
    return TrialCall(
        client=client().record,
        definition=Definition(**(columns | differing)),
        secrets=(b"k",),
        destination=Destination(
            url=receiver.url("/hook"), token=source, cloudevents=events, max_in_flight=max_in_flight
        ),
    )


def asked(receiver: RawReceiver) -> list[str]:
    return [request.target for request in receiver.requests]


async def test_each_fetches_a_token_and_sends_it(calls: TrialCalls, receiver: RawReceiver) -> None:
    receiver.script["/token"] = answering(200, GRANTED)
    for _ in range(2):
        assert (await calls.call(trial(receiver))).delivered
    assert asked(receiver) == ["/token", "/hook/17"] * 2
    call = receiver.requests[1]
    assert call.values("Authorization") == ["Bearer abc123"]
    assert call.values("ce-type") == ["test.order"]
    assert call.values("Minutehand-Trial") == ["true"]
    assert calls.in_flight == 0


async def test_what_the_token_endpoint_says_is_shown(calls: TrialCalls, receiver: RawReceiver) -> None:
    receiver.script["/token"] = answering(401, REFUSED)
    shown = await calls.call(trial(receiver))
    assert (shown.sent, shown.delivered, shown.status, shown.error) == (False, False, None, "token-unavailable")
    assert shown.detail == "the token endpoint answered 401: invalid_client: no such client"
    assert shown.url == receiver.url("/hook/17")
    assert "the-secret" not in repr(shown)
    assert (asked(receiver), calls.in_flight) == (["/token"], 0)
    receiver.script["/token"] = answering(200, GRANTED)
    assert (await calls.call(trial(receiver))).delivered, "it was mended, and that shows at once"


async def test_an_own_authorization_needs_no_token(calls: TrialCalls, receiver: RawReceiver) -> None:
    assert (await calls.call(trial(receiver, headers='[["Authorization","Basic own"]]'))).delivered
    assert asked(receiver) == ["/hook/17"]
    assert receiver.requests[0].values("Authorization") == ["Basic own"]


async def test_a_preview_fetches_none(calls: TrialCalls, receiver: RawReceiver) -> None:
    shown = calls.preview(trial(receiver))
    assert shown is not None
    assert dict(shown.headers)["Authorization"] == "Bearer ..."
    assert dict(shown.headers)["ce-source"] == "/shop"
    assert receiver.requests == []


async def test_fetches_count_as_trial_calls_and_end_with_them(calls: TrialCalls, receiver: RawReceiver) -> None:
    came = asyncio.Event()

    async def hang(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        came.set()
        await hanging(request, writer)

    receiver.script["/token"] = hang
    waiting: asyncio.Task[Exchange] = asyncio.ensure_future(calls.call(trial(receiver)))
    await came.wait()
    assert calls.in_flight == 1
    await calls.stop()
    with pytest.raises(TrialCallsFull):
        await waiting
    assert calls.in_flight == 0


Fetched = Callable[[Grant | TokenFailure], None]
TOKEN = Grant(token="abc123", lifetime_seconds=600)


@pytest.fixture
def fetched(calls: TrialCalls, monkeypatch: pytest.MonkeyPatch) -> list[Fetched]:
    """Fetches that end when they are told to."""
    asked: list[Fetched] = []
    monkeypatch.setattr(TokenFetcher, "fetch", lambda self, client_id, source, on_done: asked.append(on_done))
    return asked


async def under_way(calls: TrialCalls, receiver: RawReceiver, count: int, **said: Any) -> list[asyncio.Task[Exchange]]:
    """So many trial calls, each with its fetch under way."""
    made = [asyncio.ensure_future(calls.call(trial(receiver, **said))) for _ in range(count)]
    await asyncio.sleep(0)
    assert calls.in_flight == count
    return made


async def test_a_place_is_kept_between_token_and_attempt(
    calls: TrialCalls, receiver: RawReceiver, fetched: list[Fetched]
) -> None:
    made = await under_way(calls, receiver, AT_ONCE_PER_CLIENT)
    for end in fetched:
        end(TOKEN)
    with pytest.raises(TooManyTrialCalls, match="are under way"):
        await calls.call(trial(receiver))
    assert all([(await one).delivered for one in made])
    assert calls.in_flight == 0


async def test_a_fetch_counts_although_its_caller_has_gone(
    calls: TrialCalls, receiver: RawReceiver, fetched: list[Fetched]
) -> None:
    (gone,) = await under_way(calls, receiver, 1)
    gone.cancel()
    await asyncio.wait([gone])
    assert calls.in_flight == 1
    fetched[0](TOKEN)
    assert calls.in_flight == 0


async def test_a_receiver_without_room_when_the_token_has_come_is_not_called(
    calls: TrialCalls, receiver: RawReceiver, fetched: list[Fetched]
) -> None:
    first, second = await under_way(calls, receiver, 2, max_in_flight=1)
    for end in fetched:
        end(TOKEN)
    with pytest.raises(TooManyTrialCalls, match="limits"):
        await second
    assert (await first).delivered
    assert (asked(receiver), calls.in_flight) == (["/hook/17"], 0)
