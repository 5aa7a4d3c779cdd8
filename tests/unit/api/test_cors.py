"""Pages of allowed origins may call the API from a browser, and no others."""

from collections.abc import AsyncIterator

import pytest

from scheduler_service.api.http.route import Route, operation_id
from scheduler_service.api.resources import ROUTES
from scheduler_service.api.settings import ApiSettings
from tests.support.api import ADMIN_KEY, ApiHarness, Reply, schedule

PAGE, OTHER = "https://console.example", "https://elsewhere.example"
SCHEDULES = "/v1/clients/shop/schedules"
ASKED = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,idempotency-key"}


@pytest.fixture
async def open_api() -> AsyncIterator[ApiHarness]:
    async with ApiHarness(allowed_origins=(PAGE, "http://127.0.0.1:3000")) as harness:
        yield harness


def told(reply: Reply) -> dict[str, str]:
    return {name.lower(): value for name, value in reply.headers.items() if name.lower().startswith("access-control-")}


async def test_a_preflight_is_answered_to_pages_that_may_call(open_api: ApiHarness) -> None:
    reply = await open_api.send("OPTIONS", SCHEDULES, key=None, headers={"Origin": PAGE, **ASKED})
    assert (reply.status, reply.body, reply.headers["Vary"]) == (204, b"", "Origin")
    answered = told(reply)
    assert answered["access-control-allow-origin"] == PAGE
    assert set(answered["access-control-allow-methods"].split(", ")) == {"GET", "HEAD", "POST"}
    allowed = {name.lower() for name in answered["access-control-allow-headers"].split(", ")}
    assert allowed >= {"authorization", "content-type", "idempotency-key", "if-match", "if-none-match"}
    assert answered["access-control-max-age"] == "600"
    assert "access-control-allow-credentials" not in answered


async def test_a_preflight_of_another_page_is_refused(open_api: ApiHarness) -> None:
    for origin in (OTHER, f"{PAGE}:8443", f"{PAGE}.elsewhere.example", "http://console.example", "null"):
        reply = await open_api.send("OPTIONS", SCHEDULES, key=None, headers={"Origin": origin, **ASKED})
        assert (reply.status, told(reply), reply.headers["Vary"]) == (405, {}, "Origin")
    asks_nothing = await open_api.send("OPTIONS", SCHEDULES, key=None, headers={"Origin": PAGE})
    assert asks_nothing.status == 405


@pytest.mark.parametrize("route", ROUTES, ids=map(operation_id, ROUTES))
async def test_every_path_answers_preflights(open_api: ApiHarness, route: Route) -> None:
    path = route.path.replace("{client_id}", "shop").replace("{", "").replace("}", "")
    asked = {"Origin": PAGE, "Access-Control-Request-Method": route.method}
    reply = await open_api.send("OPTIONS", path, key=None, headers=asked)
    assert reply.status == 204
    assert route.method in reply.headers["Access-Control-Allow-Methods"].split(", ")


async def test_answers_name_the_page_that_may_read_them(open_api: ApiHarness) -> None:
    key = await open_api.register("shop")
    for origin, allowed in ((PAGE, PAGE), (OTHER, None), (None, None)):
        headers = {} if origin is None else {"Origin": origin}
        for method, path, with_key, status in (
            ("POST", SCHEDULES, key, 201),
            ("POST", SCHEDULES, key, 201),
            ("GET", SCHEDULES, key, 200),
            ("GET", SCHEDULES, None, 401),
            ("GET", "/nowhere", key, 404),
            ("GET", "/problems/invalid", None, 200),
        ):
            body = schedule() if method == "POST" else None
            reply = await open_api.send(method, path, key=with_key, json=body, headers=headers)
            assert (reply.status, reply.headers.get("Access-Control-Allow-Origin")) == (status, allowed)
            # Plain creates are not for browsers, and their answers are not cached.
            assert (method, origin) == ("POST", None) or reply.headers["Vary"].endswith("Origin")
            shown = reply.headers.get("Access-Control-Expose-Headers", "").split(", ")
            assert ({"Location", "ETag", "Retry-After", "X-Request-Id"} <= set(shown)) == (allowed is not None)
            assert "Access-Control-Allow-Credentials" not in reply.headers
    problem = await open_api.send("GET", "/problems/invalid", key=None)
    assert problem.headers["Vary"] == "Accept, Origin"


async def test_unless_it_is_set_no_page_may(api: ApiHarness, key: str) -> None:
    asked = await api.send("OPTIONS", SCHEDULES, key=None, headers={"Origin": PAGE, **ASKED})
    made = await api.send("POST", SCHEDULES, key=key, json=schedule(), headers={"Origin": PAGE})
    assert (asked.status, told(asked), made.status, told(made)) == (405, {}, 201, {})
    assert "Vary" not in made.headers


@pytest.mark.parametrize(
    "origin", ["*", "console.example", f"{PAGE}/", f"{PAGE}/x", "https://Console.example", "null", ""]
)
def test_what_is_no_origin_is_refused(origin: str) -> None:
    with pytest.raises(ValueError, match="allowed_origins"):
        ApiSettings(admin_key=ADMIN_KEY, allowed_origins=(PAGE, origin))
