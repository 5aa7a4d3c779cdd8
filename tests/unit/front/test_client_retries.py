"""What the SDK repeats, when, how often and under which key, against a scripted API."""

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import httpx
import pytest

from minutehand.client import (
    AsyncMinutehand,
    Callback,
    Minutehand,
    MinutehandApiError,
    MinutehandUnreachable,
    NewSchedule,
)
from minutehand.client._runtime import SystemRuntime
from tests.support.scripted_api import PROBLEM, RECONCILIATION, SCHEDULE, Script, ScriptedRuntime, problem

CALL = Callback(url="https://a.example/")
ID = str(SCHEDULE["schedule_id"])
KEY = "Idempotency-Key"
DUE = "2026-11-21T09:30:00Z"


def made(status: int = 201) -> httpx.Response:
    return httpx.Response(status, json=SCHEDULE)


def later(status: int = 503, **headers: str) -> httpx.Response:
    return problem(status, {**PROBLEM, "status": status, "type": "/problems/overloaded"}, **headers)


def lost() -> httpx.TransportError:
    return httpx.ReadTimeout("nothing came")


def page() -> httpx.Response:
    return httpx.Response(200, json={"items": [], "next_cursor": None})


REPEATED: dict[str, tuple[Callable[[], httpx.Response], Callable[[Any], Any]]] = {
    "create": (made, lambda shop: shop.schedules.create(CALL, delay_seconds=1)),
    "batch": (page, lambda shop: shop.schedules.create_batch([NewSchedule(callback=CALL, delay_seconds=1)])),
    "redeliver": (lambda: made(202), lambda shop: shop.schedules.redeliver(ID)),
    "reschedule": (made, lambda shop: shop.schedules.reschedule(ID, delay_seconds=1)),
    "trigger": (made, lambda shop: shop.crons.trigger("nightly")),
    "get": (lambda: made(200), lambda shop: shop.schedules.get(ID)),
    "delete": (lambda: made(200), lambda shop: shop.schedules.cancel(ID)),
    "list": (page, lambda shop: shop.keys.list()),
    "reschedule-window": (
        page,
        lambda shop: shop.schedules.reschedule_window(start=DUE, end=DUE, shift_seconds=1),
    ),
}
KEYED = {"create", "batch", "redeliver", "reschedule", "trigger"}
SENT_ONCE: dict[str, Callable[[Any], Any]] = {
    "cancel-many": lambda shop: shop.schedules.cancel_many([ID]),
    "new-key": lambda shop: shop.keys.create(),
    "redrive": lambda shop: shop.dead_letters.redeliver(),
}


async def perform(script: Script, ask: Callable[[Any], Any], *, kind: str, **settings: Any) -> Any:
    if kind == "plain":
        with script.api(**settings) as api:
            return ask(api.client("shop"))
    async with script.async_api(**settings) as waiting:
        answer: Awaitable[Any] = ask(waiting.client("shop"))
        return await answer


@pytest.mark.parametrize("kind", ["plain", "asynchronous"])
@pytest.mark.parametrize("name", REPEATED)
async def test_what_is_harmless_is_sent_again_as_it_was(name: str, kind: str) -> None:
    answer, ask = REPEATED[name]
    runtime = ScriptedRuntime()
    script = Script(lost(), httpx.ConnectError("refused"), later(), later(429), answer())
    await perform(script, ask, kind=kind, retries=4, runtime=runtime)
    assert runtime.pauses == [0.2, 0.4, 0.8, 1.6]
    assert len({(one.method, one.url, one.content, one.headers.get(KEY)) for one in script.requests}) == 1
    assert script.requests[0].headers.get(KEY) == ("key-1" if name in KEYED else None)


@pytest.mark.parametrize("kind", ["plain", "asynchronous"])
@pytest.mark.parametrize("name", SENT_ONCE)
async def test_requests_that_are_not_repeatable_are_sent_once(name: str, kind: str) -> None:
    for answer, error in ((lost(), MinutehandUnreachable), (later(), MinutehandApiError)):
        runtime, script = ScriptedRuntime(), Script(answer)
        with pytest.raises(error):
            await perform(script, SENT_ONCE[name], kind=kind, retries=4, runtime=runtime)
        assert (len(script.requests), runtime.pauses, script.requests[0].headers.get(KEY)) == (1, [], None)


def test_a_probe_is_sent_once() -> None:
    script = Script(lost())
    with script.api(retries=4, runtime=ScriptedRuntime()) as api, pytest.raises(MinutehandUnreachable):
        api.health()


@pytest.mark.parametrize("kind", ["plain", "asynchronous"])
async def test_a_key_of_the_callers_own(kind: str) -> None:
    asks: list[Callable[[Any], Any]] = [
        lambda shop: shop.schedules.create(CALL, idempotency_key="mine", delay_seconds=1),
        lambda shop: shop.schedules.create_batch([], idempotency_key="mine"),
        lambda shop: shop.schedules.redeliver(ID, idempotency_key="mine"),
        lambda shop: shop.schedules.reschedule(ID, delay_seconds=1, idempotency_key="mine"),
        lambda shop: shop.crons.trigger("nightly", idempotency_key="mine"),
        lambda shop: shop.reconciliations.create(
            "report", start=DUE, end=DUE, states=["failed"], idempotency_key="mine"
        ),
    ]
    script = Script(made(200), page(), made(200), made(200), made(200), httpx.Response(202, json=RECONCILIATION))
    for ask in asks:
        await perform(script, ask, kind=kind)
    assert [one.headers[KEY] for one in script.requests] == ["mine"] * 6
    assert b"idempotency" not in b"".join(one.content for one in script.requests)


def test_every_call_has_a_key_of_its_own() -> None:
    runtime, script = ScriptedRuntime(), Script(made(), made())
    with script.api(retries=1, runtime=runtime) as api:
        for _ in range(2):
            api.client("shop").schedules.create(CALL, delay_seconds=1)
    assert [one.headers[KEY] for one in script.requests] == ["key-1", "key-2"]
    assert len({UUID(SystemRuntime().new_key()) for _ in range(10)}) == 10


def test_what_is_never_repeated_has_no_key_but_the_callers() -> None:
    script = Script(made(), made())
    with script.api(retries=0, runtime=ScriptedRuntime()) as api:
        schedules = api.client("shop").schedules
        schedules.create(CALL, delay_seconds=1)
        schedules.create(CALL, delay_seconds=1, idempotency_key="mine")
    assert [one.headers.get(KEY) for one in script.requests] == [None, "mine"]


@pytest.mark.parametrize("retries", [0, 2])
def test_retries_are_bounded_by_the_setting(retries: int) -> None:
    runtime, script = ScriptedRuntime(), Script(*[later() for _ in range(9)])
    with script.api(retries=retries, runtime=runtime) as api, pytest.raises(MinutehandApiError):
        api.client("shop").schedules.get(ID)
    assert (len(script.requests), len(runtime.pauses)) == (1 + retries, retries)


def test_pauses_grow_to_ten_seconds_with_half_jitter() -> None:
    for chance, expected in ((0.0, [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]), (1.0, [0.2, 0.4, 0.8, 1.6, 3.2, 6.4])):
        runtime, script = ScriptedRuntime(chance=chance), Script(*[later() for _ in expected], made(200))
        with script.api(retries=9, runtime=runtime) as api:
            api.client("shop").schedules.get(ID)
        assert runtime.pauses == pytest.approx(expected)


def test_the_api_is_not_asked_sooner_than_it_says() -> None:
    runtime = ScriptedRuntime(chance=0.0)
    script = Script(later(**{"Retry-After": "7"}), later(429, **{"Retry-After": "soon"}), made(200))
    with script.api(retries=4, runtime=runtime) as api:
        api.client("shop").schedules.get(ID)
    assert runtime.pauses == pytest.approx([7.1, 0.2])


def test_none_is_begun_after_the_deadline() -> None:
    runtime, script = ScriptedRuntime(), Script(later(), later(**{"Retry-After": "30"}))
    with (
        script.api(retries=4, runtime=runtime, retry_deadline_seconds=30) as api,
        pytest.raises(MinutehandApiError) as error,
    ):
        api.client("shop").schedules.get(ID)
    assert (error.value.retry_after_seconds, runtime.pauses) == (30.0, [0.2])


@pytest.mark.parametrize("status", [400, 404, 409, 422, 500])
def test_other_refusals_are_final(status: int) -> None:
    script = Script(problem(status, {**PROBLEM, "status": status}))
    with script.api(retries=4, runtime=ScriptedRuntime()) as api, pytest.raises(MinutehandApiError):
        api.client("shop").schedules.get(ID)


@pytest.mark.parametrize(("status", "again"), [(502, True), (503, True), (504, True), (500, False), (404, False)])
def test_a_proxy_without_an_api_behind_it(status: int, again: bool) -> None:
    runtime, script = ScriptedRuntime(), Script(httpx.Response(status, text="<html>"), made(200))
    with script.api(retries=4, runtime=runtime) as api:
        if again:
            assert api.client("shop").schedules.get(ID).schedule_id == ID
        else:
            with pytest.raises(MinutehandUnreachable):
                api.client("shop").schedules.get(ID)
    assert len(runtime.pauses) == again


def test_what_can_never_be_sent_is_not_tried_again() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.LocalProtocolError("Illegal header value")

    runtime, transport = ScriptedRuntime(), httpx.MockTransport(refuse)
    api = Minutehand("http://api.test", "k", runtime=runtime, transport=transport)
    with api, pytest.raises(MinutehandUnreachable):
        api.client("shop").schedules.get(ID)
    assert runtime.pauses == []


async def test_settings_that_make_no_sense() -> None:
    for settings in ({"retries": -1}, {"retry_deadline_seconds": -1.0}):
        for kind in (Minutehand, AsyncMinutehand):
            with pytest.raises(ValueError, match="negative"):
                kind("http://api.test", "k", **settings)  # type: ignore[arg-type]
