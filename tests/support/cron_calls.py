"""Helpers of the cron tests: requests about crons, and the work that a node does on them."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from scheduler_service.domain.ids import ClientId, CronId, ScheduleId
from scheduler_service.domain.schedules import Outcome
from scheduler_service.usecases.expand_crons import ExpandCrons
from scheduler_service.usecases.schedule_writer import ScheduleWriter
from tests.support.api import ApiHarness, Reply, SeededRandomness, cron
from tests.support.crons import tell_nobody
from tests.support.outcomes import record

CRONS = "/v1/clients/shop/crons"
NIGHTLY = f"{CRONS}/nightly"


async def put(api: ApiHarness, key: str, cron_id: str = "nightly", **fields: Any) -> Reply:
    return await api.send("PUT", f"{CRONS}/{cron_id}", key=key, json=cron(**fields))


async def made(api: ApiHarness, key: str, cron_id: str = "nightly", **fields: Any) -> dict[str, Any]:
    reply = await put(api, key, cron_id, **fields)
    assert reply.status in (200, 201), reply.body
    return dict(reply.json)


async def expand(api: ApiHarness, cron_id: str = "nightly", *, client_id: str = "shop") -> None:
    """Expand, as the owner of the cron's wake-up does."""
    services, storage = api.services, api.storage
    writer = ScheduleWriter(
        schedules=storage.schedules,
        keys=storage.schedule_keys,
        leases=storage.leases,
        clock=api.clock,
        randomness=SeededRandomness(1),
        hints=api.hints,
    )
    expander = ExpandCrons(
        crons=storage.crons,
        clients=storage.clients,
        known=lambda client_id: None,
        writer=writer,
        resolve=services.schedules.resolve,
        cancel=services.schedules.cancel,
        clock=api.clock,
        on_fault=_never,
        missed=tell_nobody,
    )
    await expander(ClientId(client_id), [CronId(cron_id)])


async def end(api: ApiHarness, schedule_id: str, outcome: Outcome) -> None:
    """Record the end, as the poller's owner does."""
    await record(api, ScheduleId(UUID(schedule_id)), outcome)


async def pages(api: ApiHarness, key: str, path: str, query: Mapping[str, str], *, limit: int) -> list[Any]:
    """Items of every page. Asserts that no page is longer than `limit`."""
    found: list[Any] = []
    asked = {**query, "limit": str(limit)}
    for _ in range(1000):
        reply = await api.send("GET", path, key=key, params=asked)
        assert reply.status == 200, reply.body
        assert len(reply.json["items"]) <= limit
        found += reply.json["items"]
        if reply.json["next_cursor"] is None:
            return found
        asked = {"cursor": reply.json["next_cursor"], "limit": str(limit)}
    raise AssertionError("the listing does not end")


def _never(name: str, error: BaseException) -> None:
    raise AssertionError(f"{name} can't be expanded") from error
