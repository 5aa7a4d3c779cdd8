"""The problems listed in the route table are exactly those that the routes answer."""

from collections.abc import Awaitable, Callable

import pytest

from scheduler_service.api.http.route import CREATES, Route, operation_id
from scheduler_service.api.openapi.answers import kinds_of
from scheduler_service.api.resources import ROUTES
from tests.support.api import ApiHarness
from tests.support.api_story import Story

IDS = [operation_id(route) for route in ROUTES]
Situation = Callable[[ApiHarness, Story], Awaitable[None]]


async def suspended(api: ApiHarness, story: Story) -> None:
    await story.send("suspend_client")


async def built_in(api: ApiHarness, story: Story) -> None:
    story.names["client_id"] = "$cron"


async def doubtful_clock(api: ApiHarness, story: Story) -> None:
    api.clock.trusted = False


SITUATIONS = dict(zip((*CREATES, "built-in-client"), (suspended, doubtful_clock, built_in), strict=True))


@pytest.mark.parametrize("kind", SITUATIONS)
@pytest.mark.parametrize("route", ROUTES, ids=IDS)
async def test_it_is_answered_where_it_is_named(api: ApiHarness, route: Route, kind: str) -> None:
    await api.add_built_in_clients()
    story = Story(api)
    for before in ("put_client", "put_cron", "create_schedule", "create_key", "create_secret"):
        await story.send(before)
    await SITUATIONS[kind](api, story)
    reply = await story.try_(operation_id(route))
    answered = reply.json["type"] if reply.headers.get("Content-Type") == "application/problem+json" else None
    assert (answered == f"/problems/{kind}") == (kind in kinds_of(route)), answered
