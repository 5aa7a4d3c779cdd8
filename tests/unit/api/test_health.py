"""An API process's report of its own health, with reasons."""

import asyncio

import pytest
from structlog.testing import capture_logs

from membership.errors import StoreUnavailable
from scheduler_service.api.health import CALM_SECONDS, LOST_AFTER_SECONDS, SHED_SECONDS
from scheduler_service.domain.errors import Overloaded
from scheduler_service.domain.trial_calls import TrialCallsFull
from scheduler_service.runtime.health import STALLED_SECONDS
from tests.support.api import ApiHarness, callback, replace_insert, schedule

SCHEDULES = "/v1/clients/shop/schedules"


async def reasons(api: ApiHarness) -> list[str]:
    """The reasons why it is not ready."""
    reply = await api.send("GET", "/readyz", key=None)
    found = [one["reason"] for one in reply.json["reasons"]]
    assert (reply.status, reply.json["status"]) == ((503, "unavailable") if found else (200, "ok"))
    return found


async def test_readiness_is_storages_and_liveness_is_not(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await api.send("GET", "/readyz", key=None)).status == 200

    async def lost(*arguments: object, **named: object) -> None:
        raise StoreUnavailable("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(type(api.storage.clients), "catalog_revision", lost)
        api.clock.advance(1)
        assert await reasons(api) == [], "one error is an accident"
        api.clock.advance(LOST_AFTER_SECONDS)
        assert await reasons(api) == ["storage-away"]
        assert (await api.send("GET", "/livez", key=None)).json == {"status": "ok", "reasons": []}
    api.clock.advance(1)
    assert await reasons(api) == ["storage-away"], "one answer may be an accident too"
    api.clock.advance(1)
    assert await reasons(api) == []


async def test_storage_that_answers_now_and_then_is_there(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([False, False, True, False, False, True])

    async def now_and_then(*arguments: object, **named: object) -> int:
        if next(answers):
            return 1
        raise StoreUnavailable("no answer")

    monkeypatch.setattr(type(api.storage.clients), "catalog_revision", now_and_then)
    for _ in range(6):
        api.clock.advance(LOST_AFTER_SECONDS / 2)
        assert await reasons(api) == []


async def test_refusing_creates_for_long_makes_unready_and_a_moment_does_not(
    api: ApiHarness, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*arguments: object, **named: object) -> None:
        raise Overloaded("the queue is full")

    with capture_logs() as logs:
        with monkeypatch.context() as patched:
            replace_insert(patched, api.storage.schedules, full)
            for _ in range(3):
                assert await reasons(api) == []
                assert (await api.send("POST", SCHEDULES, key=key, json=schedule())).status == 503
                api.clock.advance(SHED_SECONDS / 2)
        assert await reasons(api) == ["shedding"]
        api.clock.advance(CALM_SECONDS)
        assert await reasons(api) == []
    assert [line["event"] for line in logs] == ["shedding-begun", "shedding-ended"]


async def test_trial_calls_beyond_what_a_process_makes_are_no_shedding(
    api: ApiHarness, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*arguments: object, **named: object) -> None:
        raise TrialCallsFull("as many as this process makes")

    monkeypatch.setattr(type(api.trial_calls), "call", full)
    for _ in range(3):
        reply = await api.send("POST", "/v1/clients/shop/callbacks:try", key=key, json={"callback": callback()})
        assert (reply.status, reply.json["type"]) == (503, "/problems/overloaded")
        api.clock.advance(SHED_SECONDS / 2)
    assert await reasons(api) == []


async def test_a_clock_in_doubt_makes_unready(api: ApiHarness) -> None:
    api.clock.trusted = False
    assert await reasons(api) == ["clock-untrusted"]


async def test_a_loop_whose_timers_stand_still_is_not_live(api: ApiHarness) -> None:
    heartbeat = api.services.health.heartbeat
    api.clock.advance(STALLED_SECONDS + 1)
    assert heartbeat.reasons() == (), "not begun"
    beats = 0

    async def sleep(seconds: float) -> None:
        nonlocal beats
        beats += 1
        api.clock.advance(seconds)
        if beats == 3:
            raise asyncio.CancelledError

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(api.clock, "sleep", sleep)
        with pytest.raises(asyncio.CancelledError):
            await heartbeat.run()
    assert (await api.send("GET", "/livez", key=None)).status == 200
    api.clock.advance(STALLED_SECONDS)
    reply = await api.send("GET", "/livez", key=None)
    assert (reply.status, [one["reason"] for one in reply.json["reasons"]]) == (503, ["loop-stalled"])


async def test_a_stopping_api_reports_it_and_closes_in_good_order(api: ApiHarness, key: str) -> None:
    api.services.health.stopping = True
    assert await reasons(api) == ["stopping"]
    reply = await api.send("POST", SCHEDULES, key=key, json=schedule())
    assert reply.status == 201, "what comes is still answered"
    assert reply.headers["Connection"] == "close"
