"""GoScheduler's wire over an API in memory or on a real Cassandra."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import msgspec

from scheduler_service.api.goscheduler.settings import GoSchedulerSettings
from scheduler_service.domain.ids import ClientId, ScheduleId
from scheduler_service.domain.schedules import Outcome
from tests.support.api import NOW, ApiHarness, Reply
from tests.support.outcomes import record

APPS = ("test", "Athena=athena")
NOW_SECONDS = NOW // 1000
PREFIX = "/goscheduler"


def settings(**fields: Any) -> GoSchedulerSettings:
    return GoSchedulerSettings(**{"apps": APPS, **fields})


async def send(
    api: ApiHarness,
    method: str,
    path: str,
    body: object = None,
    *,
    key: str | None = None,
    data: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    params: Mapping[str, str] | None = None,
) -> Reply:
    """A request below the prefix, as GoScheduler's callers send it: without a key and a content type."""
    if body is not None:
        data = msgspec.json.encode(body)
    reply = await api.send(method, PREFIX + path, key=key, data=data, headers=headers, params=params)
    assert reply.headers["Content-Type"] == "application/json"
    if path != "/healthcheck":
        status = reply.json["status"]
        assert status["statusType"] == ("Success" if reply.status == 200 else "Fail")
        assert isinstance(status["statusCode"], int)
        assert status["statusMessage"]
    return reply


def callback(**details: object) -> dict[str, object]:
    """A callback whose `details` are these."""
    shown = {"url": "https://receiver.example/hook", "method": "POST", "headers": {"Accept": "application/json"}}
    return {"type": "http", "details": {**shown, **details}}


def schedule(**fields: object) -> dict[str, object]:
    """A valid body of a create. Fields of None are left out."""
    body = {
        "appId": "test",
        "payload": '{"order": 17}',
        "scheduleTime": NOW_SECONDS + 90,
        "callback": callback(),
        **fields,
    }
    return {name: value for name, value in body.items() if value is not None}


def cron(**fields: object) -> dict[str, object]:
    return schedule(**{"scheduleTime": None, "cronExpression": "*/5 * * * *", **fields})


async def register(api: ApiHarness, app_id: str = "test", **fields: object) -> Reply:
    reply = await send(api, "POST", "/apps", {"appId": app_id, "partitions": 3, "active": True, **fields})
    assert reply.status == 200, reply.body
    return reply


async def create(api: ApiHarness, **fields: object) -> dict[str, Any]:
    """A schedule, or a cron with a `cronExpression`, as it is shown."""
    reply = await send(api, "POST", "/schedules", schedule(**fields))
    assert (reply.status, reply.json["status"]["statusCode"]) == (200, 201), reply.body
    return dict(reply.json["data"]["schedule"])


async def claim(api: ApiHarness, client_id: str, schedule_id: str) -> None:
    """Claim it, as the poller's owner does before it calls."""
    await record(api, ScheduleId(UUID(schedule_id)), None, in_flight=True, client_id=ClientId(client_id))


async def end(api: ApiHarness, client_id: str, schedule_id: str, outcome: Outcome) -> None:
    """Record an outcome, as the poller's owner does."""
    await record(api, ScheduleId(UUID(schedule_id)), outcome, client_id=ClientId(client_id))
