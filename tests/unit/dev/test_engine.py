"""What is under way is known until it has ended, and receivers in place answer as planned."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from minutehand.dev.engine import AwaitedFetcher, RecordingEngine, UnderWay, answered
from minutehand.dev.receivers import Answer, Receivers
from poller_cluster.delivery.request import CallbackRequest
from poller_cluster.delivery.result import AttemptResult
from scheduler_service.domain.ids import ClientId
from tests.support.api import NOW, ManualClock

URL = "http://127.0.0.1:8090"


def request(url: str = URL + "/dev/receiver/hook", **more: Any) -> CallbackRequest:
    return CallbackRequest(method="POST", url=url, headers=(), body=b"the body", timeout_seconds=10.0, **more)


async def test_a_call_in_place_is_under_way_until_its_result_is_told() -> None:
    under_way, receivers, results = UnderWay(), Receivers(), []
    receivers.plan("hook", [Answer(status=503, times=1)])
    engine = RecordingEngine(
        sockets=cast(Any, None), clock=ManualClock(), receivers=receivers, own_url=URL, under_way=under_way
    )
    for _ in range(2):
        engine.start_attempt(request(), results.append, may_start=lambda: True)
    assert (results, engine.in_flight, under_way.quiet.is_set()) == ([], 2, False)
    await asyncio.wait_for(under_way.quiet.wait(), 1)
    assert [result.status for result in results] == [503, 204]
    assert [(call.number, call.receiver, call.status, call.body) for call in receivers.calls] == [
        (1, "hook", 503, "the body"),
        (2, "hook", 204, "the body"),
    ]


async def test_a_fetch_of_a_token_is_awaited() -> None:
    class Fetcher:
        capacity = 1
        start = stop = None

        def fetch(self, client_id: ClientId, source: Any, on_done: Callable[[Any], None]) -> None:
            self.on_done = on_done

    inner, under_way, told = Fetcher(), UnderWay(), []
    AwaitedFetcher(cast(Any, inner), under_way).fetch(ClientId("shop"), cast(Any, None), told.append)
    assert not under_way.quiet.is_set()
    inner.on_done("token")
    assert told == ["token"]
    assert under_way.quiet.is_set()


def test_planned_headers_mean_what_a_receivers_mean() -> None:
    result = answered(Answer(status=503, headers={"Retry-After": "120"}, body="down"), request(), at_ms=NOW)
    assert (result.status, result.retry_after_seconds, result.excerpt) == (503, 120.0, "down")
    kept = answered(Answer(status=200, body="fine"), request(keeps_answer=True), at_ms=NOW).answer
    assert kept is not None
    assert (kept.status, kept.body) == (200, b"fine")


def test_a_receiver_that_is_away_has_got_nothing() -> None:
    result: AttemptResult = answered(Answer(error=True), request(), at_ms=NOW)
    assert (result.status, result.error, result.nothing_sent) == (None, "connect-refused", True)
