"""Which creates the SDK sends with a once token, the tokens' contents, and refused tokens."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from minutehand.client import Callback, Minutehand, MinutehandApiError, MinutehandUnreachable, NewSchedule
from minutehand.client._once import RUN_LENGTH
from minutehand.client._runtime import SystemRuntime
from tests.support.scripted_api import PROBLEM, SCHEDULE, Script, ScriptedRuntime, problem
from tests.unit.front.test_client_retries import lost

CALL = Callback(url="https://a.example/")
NOW = 1_795_253_400_000
CREATES: dict[str, Callable[[Any], Any]] = {
    "one": lambda shop: shop.schedules.create(CALL, delay_seconds=90),
    "batch": lambda shop: shop.schedules.create_batch([NewSchedule(callback=CALL, delay_seconds=90)]),
}


def made(told: str | None = f"{NOW}.1") -> httpx.Response:
    headers = [] if told is None else [(b"Minutehand-Once", told.encode("latin-1"))]
    return httpx.Response(201, json={**SCHEDULE, "items": []}, headers=headers)


def refused(status: int, kind: str, *pointers: str) -> httpx.Response:
    faults = [{"pointer": pointer, "detail": "is wrong"} for pointer in pointers]
    return problem(status, {**PROBLEM, "status": status, "type": f"/problems/{kind}", "errors": faults})


def under(request: httpx.Request) -> str:
    """What a request carries: `key`, `plain`, or its token."""
    if "Idempotency-Key" in request.headers:
        assert "once" not in request.url.params
        return "key"
    return request.url.params.get("once", "plain")


def unders(script: Script) -> list[str]:
    return [under(request) for request in script.requests]


def asked(token: str) -> int:
    return int(token.split(".")[0])


@pytest.mark.parametrize("name", CREATES)
def test_the_first_goes_under_a_key_and_its_answer_makes_tokens_of_the_others(name: str) -> None:
    runtime, script = ScriptedRuntime(), Script(*[made(f"{NOW}.7") for _ in range(3)])
    runtime.chance = 0.5
    with script.api(retries=1, runtime=runtime) as api:
        for _ in range(3):
            CREATES[name](api.client("shop"))
            runtime.now += 10
    # 3.5 rounded down, of seven pollers.
    assert unders(script) == ["key", f"{NOW + 10_001}.7.3.nonce-0000000001", f"{NOW + 10_001}.7.3.nonce-0000000002"]


@pytest.mark.parametrize("kind", ["plain", "asynchronous"])
@pytest.mark.parametrize("name", CREATES)
async def test_a_repeat_is_the_very_same_request(name: str, kind: str) -> None:
    async def both(shop: Any) -> None:
        for _ in range(2):
            answer = CREATES[name](shop)
            if kind == "asynchronous":
                await answer

    runtime, script = ScriptedRuntime(), Script(made(), lost(), refused(503, "overloaded"), made())
    if kind == "plain":
        with script.api(retries=3, runtime=runtime) as api:
            await both(api.client("shop"))
    else:
        async with script.async_api(retries=3, runtime=runtime) as api:
            await both(api.client("shop"))
    first, *others = [(request.url, request.content) for request in script.requests[1:]]
    assert others == [first, first]
    assert under(script.requests[1]) == f"{NOW + 1}.1.0.nonce-0000000001"


def test_every_client_and_connection_learns_for_itself() -> None:
    script = Script(made(), made(), made(), made())
    with script.api(retries=1, runtime=ScriptedRuntime()) as api:
        for client in ("shop", "other", "shop"):
            CREATES["one"](api.client(client))
    assert [under(request)[:3] for request in script.requests] == ["key", "key", str(NOW)[:3]]


@pytest.mark.parametrize("name", CREATES)
def test_an_api_that_tells_nothing_or_nonsense_is_asked_under_keys(name: str) -> None:
    nonsense = ["", "x", "1.x", f"{NOW}.0", f"-{NOW}.1", f"{NOW}.1.", f"{NOW}.10000", f"0{NOW}.1", f"{NOW}.1 "]
    for told in (None, *nonsense, f"{NOW}\u00b2.3", f"{NOW}.\u00b3", "9" * 400 + ".3", "9" * 5_000 + ".3"):
        script = Script(made(told), made(told))
        with script.api(retries=1, runtime=ScriptedRuntime()) as api:
            for _ in range(2):
                CREATES[name](api.client("shop"))
        assert unders(script) == ["key", "key"]


def test_the_token_header_of_any_answer_is_read() -> None:
    unread = httpx.Response(201, content=b"{", headers={"Minutehand-Once": f"{NOW}.1"})
    script = Script(unread, made())
    with script.api(retries=1, runtime=ScriptedRuntime()) as api:
        with pytest.raises(MinutehandUnreachable):
            CREATES["one"](api.client("shop"))
        CREATES["one"](api.client("shop"))
    assert [one[:3] for one in unders(script)] == ["key", "179"]


def test_what_is_never_repeated_has_no_token_and_a_callers_key_comes_first() -> None:
    script = Script(made(), made(), made())
    with script.api(retries=0, runtime=ScriptedRuntime()) as api:
        for _ in range(2):
            CREATES["one"](api.client("shop"))
    with script.api(retries=1, runtime=ScriptedRuntime()) as api:
        api.client("shop").schedules.create(CALL, idempotency_key="mine", delay_seconds=1)
    assert unders(script) == ["plain", "plain", "key"]


@pytest.mark.parametrize("pass_", ["ten-minutes", "a-leap", "a-leap-back"])
def test_a_told_clock_expires(pass_: str) -> None:
    runtime, script = ScriptedRuntime(), Script(made(), made(), made())
    with script.api(retries=1, runtime=runtime) as api:
        CREATES["one"](api.client("shop"))
        if pass_ == "ten-minutes":
            runtime.now += 601
        else:
            runtime.leapt += 2 if pass_ == "a-leap" else -2
        for _ in range(2):
            CREATES["one"](api.client("shop"))
    assert under(script.requests[1]) == "key"
    assert asked(under(script.requests[2])) == NOW + 1


def test_the_shortest_way_counts_until_it_is_old() -> None:
    """The reckoned clock is ahead by the request's way to the API. Answers that took longer than a second are
    ignored.
    """
    runtime, reckoned, way, back = ScriptedRuntime(), list[float | str](), 0.0, 0.0
    begun = runtime.now

    def answer(request: httpx.Request) -> httpx.Response:
        clock = NOW / 1000 + runtime.now - begun
        token = under(request)
        reckoned.append(token if token == "key" else round(asked(token) / 1000 - clock, 2))
        runtime.now += way + back
        return made(f"{int((clock + way) * 1000)}.1")

    with Minutehand("http://api.test", "k", transport=httpx.MockTransport(answer), runtime=runtime) as api:
        for there, again, pause in (
            (3.0, 0.0, 1.0),
            (0.2, 0.9, 1.0),
            (0.6, 0.3, 1.0),
            (0.1, 0.9, 1.0),
            (0.5, 0.0, 1.0),
            (0.9, 0.0, 61.0),
            (2.0, 0.0, 1.0),
            (0.9, 0.0, 1.0),
            (0.0, 0.0, 1.0),
            (0.0, 0.0, 0.0),
        ):
            way, back = there, again
            CREATES["one"](api.client("shop"))
            runtime.now += pause
    assert reckoned == ["key", "key", "key", 0.6, 0.6, 0.5, 0.5, 0.5, 0.9, 0.0]


@pytest.mark.parametrize("answer", [refused(409, "once-refused"), refused(422, "invalid", "/once")])
@pytest.mark.parametrize(
    "before",
    [
        [],
        [refused(429, "too-many-creates")],
        [refused(503, "clock-in-doubt")],
        [httpx.ConnectError("refused"), httpx.ConnectTimeout("no"), httpx.PoolTimeout("no")],
    ],
    ids=["at-once", "after-429", "after-a-start", "never-sent"],
)
def test_a_token_refused_before_anything_can_have_been_made_is_given_up_for_a_key(
    answer: httpx.Response, before: list[httpx.Response | httpx.TransportError]
) -> None:
    script = Script(made(), *before, answer, lost(), made())
    with script.api(retries=5, runtime=ScriptedRuntime()) as api:
        for _ in range(2):
            CREATES["one"](api.client("shop"))
    assert [one[:3] for one in unders(script)] == ["key", *["179" for _ in before], "179", "key", "key"]
    assert len({request.headers["Idempotency-Key"] for request in script.requests[-2:]}) == 1


def test_a_token_refused_later_is_reported_to_the_caller() -> None:
    script = Script(made(), lost(), refused(409, "once-refused"))
    with script.api(retries=3, runtime=ScriptedRuntime()) as api:
        CREATES["one"](api.client("shop"))
        with pytest.raises(MinutehandApiError) as caught:
            CREATES["one"](api.client("shop"))
    assert caught.value.kind == "once-refused"
    assert script.answers == []


@pytest.mark.parametrize("perhaps", [lost(), refused(503, "storage-unavailable"), refused(503, "overloaded")])
@pytest.mark.parametrize("kind", ["plain", "asynchronous"])
async def test_what_may_have_been_made_is_asked_for_again_beside_apis_that_know_no_tokens(
    perhaps: httpx.Response | httpx.TransportError, kind: str
) -> None:
    """The same request is repeated until an API that knows the parameters answers: only such an API refuses wrong
    ones.
    """
    unknown = refused(422, "invalid", "/once")

    async def creates(script: Script, times: int) -> None:
        if kind == "plain":
            with script.api(retries=3, runtime=ScriptedRuntime()) as api:
                for _ in range(times):
                    CREATES["one"](api.client("shop"))
        else:
            async with script.async_api(retries=3, runtime=ScriptedRuntime()) as other:
                for _ in range(times):
                    await CREATES["one"](other.client("shop"))

    script = Script(made(), perhaps, unknown, unknown, made())
    await creates(script, 2)
    assert len(set(unders(script)[1:])) == 1
    script = Script(made(), perhaps, unknown, unknown, unknown)
    with pytest.raises(MinutehandUnreachable, match="may have been made"):
        await creates(script, 2)
    assert script.answers == []
    script = Script(made(), perhaps, unknown, refused(409, "once-refused"))
    with pytest.raises(MinutehandApiError) as caught:
        await creates(script, 2)
    assert caught.value.kind == "once-refused"


def test_beside_apis_that_know_no_tokens_none_is_made_for_a_minute() -> None:
    runtime, script = ScriptedRuntime(), Script(made(), refused(422, "invalid", "/once"), *[made() for _ in range(4)])
    with script.api(retries=1, runtime=runtime) as api:
        for pause in (0, 0, 59, 1, 0):
            runtime.now += pause
            CREATES["one"](api.client("shop"))
    assert [one[:3] for one in unders(script)] == ["key", "179", "key", "key", "179", "179"]


def test_a_refused_tokens_answer_replaces_the_known_clock() -> None:
    """Also if it says that the API's clock is further on."""
    other = refused(409, "once-refused")
    other.headers["Minutehand-Once"] = f"{NOW + 90_000}.2"
    script = Script(made(f"{NOW}.3"), other, made(None), made(None))
    with script.api(retries=1, runtime=ScriptedRuntime(chance=0.0)) as api:
        for _ in range(3):
            CREATES["one"](api.client("shop"))
    assert unders(script)[1:] == [
        f"{NOW + 1}.3.0.nonce-0000000001",
        "key",
        f"{NOW + 90_001}.2.0.nonce-0000000002",
    ]


@pytest.mark.parametrize("kind", ["plain", "asynchronous"])
async def test_what_is_closed_sends_nothing_more(kind: str) -> None:
    script = Script()
    if kind == "plain":
        with script.api(retries=1) as api:
            pass
        with pytest.raises(RuntimeError, match="closed"):
            CREATES["one"](api.client("shop"))
    else:
        async with script.async_api(retries=1) as other:
            pass
        with pytest.raises(RuntimeError, match="closed"):
            await CREATES["one"](other.client("shop"))
    assert script.requests == []


def test_other_refusals_are_what_they_are() -> None:
    script = Script(made(), refused(422, "invalid", "/due"))
    with script.api(retries=3, runtime=ScriptedRuntime()) as api:
        CREATES["one"](api.client("shop"))
        with pytest.raises(MinutehandApiError, match="/due"):
            CREATES["one"](api.client("shop"))


def test_pollers_are_taken_by_turns_for_each_minute() -> None:
    runtime = ScriptedRuntime(chance=0.0)
    script = Script(*[made(f"{NOW}.2") for _ in range(1 + 4 * RUN_LENGTH)])
    due = datetime.fromtimestamp(NOW / 1000 + 3_600, UTC)
    with script.api(retries=1, runtime=runtime) as api:
        schedules = api.client("shop").schedules
        schedules.create(CALL, due=due)
        for number in range(4 * RUN_LENGTH):
            # Four ways to give the due, in turn; the last two are in one minute.
            asked_for: dict[str, Any] = [
                {"delay_seconds": 7_200},
                {"delay_seconds": 7_260.5},
                {"due": due},
                {"due": due.isoformat()},
            ][number % 4]
            schedules.create(CALL, **asked_for)
    pollers = [[int(under(request).split(".")[2]) for request in script.requests[1 + way :: 4]] for way in range(4)]
    assert pollers[0] == pollers[1] == [0] * RUN_LENGTH
    assert sorted(pollers[2] + pollers[3]) == [0] * RUN_LENGTH + [1] * RUN_LENGTH


@pytest.mark.parametrize("due", ["tomorrow", "2026-11-21T09:30:00Z", "9999-12-31T23:59:59-23:59"])
def test_the_sdk_sends_any_due_unjudged(due: str) -> None:
    script = Script(made(f"{NOW}.5"), made(f"{NOW}.5"))
    with script.api(retries=1, runtime=ScriptedRuntime(chance=0.0)) as api:
        for _ in range(2):
            api.client("shop").schedules.create(CALL, due=due)
    assert under(script.requests[1]).split(".")[1:3] == ["5", "0"]


def test_many_tokens_are_all_different() -> None:
    nonces = {SystemRuntime().nonce() for _ in range(100)}
    assert {len(nonce) for nonce in nonces} == {24}
    assert len(nonces) == 100
    assert abs(SystemRuntime().wall() - datetime.now(UTC).timestamp()) < 60
