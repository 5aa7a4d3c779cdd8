"""Schedules: create, show, cancel; those of an app.

An id says nothing of its client, so a schedule is looked for in every app that the caller reaches and whose pollers
include the id's: one read each. A schedule that was cancelled, or rescheduled by our own API, is gone, as a deleted one
is there. Deleting one that has ended changes nothing: it will not be called, and its outcome stays readable.
"""

from typing import NamedTuple

from aiohttp import web

from scheduler_service.api.goscheduler.callers import Apps
from scheduler_service.api.goscheduler.crons import create_cron, delete_cron, show_cron
from scheduler_service.api.goscheduler.envelope import MADE, NOT_FOUND, WireRefusal, success
from scheduler_service.api.goscheduler.operations import Operation, query_of
from scheduler_service.api.goscheduler.queries import (
    MAX_LISTED_DAYS,
    position_token,
    read_list_query,
    read_schedule_id,
)
from scheduler_service.api.goscheduler.requests import as_written, read_schedule, schedule_request
from scheduler_service.api.goscheduler.statuses import states_of, status_of
from scheduler_service.api.goscheduler.views import View, created_view, schedule_view
from scheduler_service.api.http.route import RequestContext, json_response
from scheduler_service.api.resources.schedules import refused
from scheduler_service.domain.clients import Client, Scope
from scheduler_service.domain.crons import load_zone
from scheduler_service.domain.errors import Invalid
from scheduler_service.domain.ids import ScheduleId, is_schedule_id, poller_of
from scheduler_service.domain.schedule_filters import ScheduleFilter
from scheduler_service.domain.schedules import Row
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.cancel_schedules import (
    AlreadyFinished,
    Cancelled,
    InDoubt,
    InFlight,
    NoSuchSchedule,
    WasRescheduled,
)
from scheduler_service.usecases.list_schedules import Position, Window
from scheduler_service.usecases.resolve_schedule import Resolved

MAX_CALLS = 5
"""Pages of our own listing that one answer is made of at most: 30 empty days are as many."""


class Found(NamedTuple):
    """A schedule, and the app that it is of."""

    app_id: str
    client: Client
    row: Row


async def goscheduler_create_schedule(context: RequestContext, apps: Apps) -> web.Response:
    asked = read_schedule(await context.read(typed=False))
    client = await apps.client(asked.app_id)
    if asked.recurring:
        view = await create_cron(context, client, asked)
        return json_response(success({"schedule": view, **view}, code=MADE, count=1))
    create = context.services.schedules.create
    create.admit.by_wire(client)
    rate = context.services.rate_limit.take(client)
    request, faults = schedule_request(asked, client, now=context.services.clock.wall_ms())
    if faults:
        raise Invalid([*faults, *as_written(asked, create.faults(client, request))])
    try:
        made = await create.one(client, request)
    except Invalid as invalid:
        raise Invalid(as_written(asked, invalid.errors)) from None
    context.record(schedule_id=str(made.schedule_id))
    view = created_view(asked, made)
    # The program answers with the schedule below `schedule`, its README shows its fields beside that.
    return json_response(success({"schedule": view, **view}, code=MADE, count=1), headers=rate)


async def goscheduler_get_schedule(context: RequestContext, apps: Apps) -> web.Response:
    schedule_id = read_schedule_id(context.path("schedule_id"))
    if not is_schedule_id(schedule_id):
        return _one(await show_cron(context, apps, schedule_id))
    found = await _find(context, apps, ScheduleId(schedule_id))
    return _one(_shown(context, found))


async def goscheduler_cancel_schedule(context: RequestContext, apps: Apps) -> web.Response:
    schedule_id = read_schedule_id(context.path("schedule_id"))
    if not is_schedule_id(schedule_id):
        return _one(await delete_cron(context, apps, schedule_id))
    found = await _find(context, apps, ScheduleId(schedule_id))
    match await context.services.schedules.cancel.one(found.client.client_id, ScheduleId(schedule_id)):
        case Cancelled() | AlreadyFinished():
            # As it was before: a status is shown of one that has ended.
            view = _shown(context, found)
            if not found.row.ended:
                view.pop("status", None)
            return _one(view)
        case NoSuchSchedule() | WasRescheduled():
            raise no_such_schedule()
        case (InFlight() | InDoubt()) as refusal:
            raise refused(refusal)


async def goscheduler_list_schedules(context: RequestContext, apps: Apps) -> web.Response:
    app_id = context.path("app_id")
    client = await apps.client(app_id)
    asked = read_list_query(
        query_of(context),
        now=context.services.clock.wall_ms(),
        zone=load_zone(context.settings.goscheduler.query_timezone),
        longest_days=MAX_LISTED_DAYS,
    )
    window = Window(
        client_id=client.client_id,
        start=asked.start,
        end=asked.end,
        filter=ScheduleFilter(states=states_of(asked.status)),
    )
    rows: list[Row] = []
    position: Position | None = asked.position or Position(asked.start)
    for _ in range(MAX_CALLS):
        if position is None or len(rows) >= asked.size:
            break
        page = await context.services.schedules.list(
            window,
            limit=asked.size - len(rows),
            position=position,
            consistency=client.settings.read_consistency,
            has_read=context.has_read,
        )
        rows += (listed.row for listed in page.items)
        position = page.next
    views = [schedule_view(app_id, client.client_id, row, context.services.encryption) for row in rows]
    data = {
        # There, an empty list is null.
        "schedules": views or None,
        "continuationToken": position_token(position) if asked.size else "",
        "continuationStartTime": (asked.end if position is None else position.due) // 1000,
    }
    return json_response(success(data, count=len(views)))


async def _find(context: RequestContext, apps: Apps, schedule_id: ScheduleId) -> Found:
    """Raises WireRefusal where no app has it, or it was cancelled; StoreUnavailable."""
    poller_id = poller_of(schedule_id)
    possible = [one for one in await apps.registered() if poller_id < one[1].poller_ceiling]
    context.spend(max(len(possible) - 1, 0))

    async def resolve(one: tuple[str, Client]) -> Resolved | None:
        client = one[1]
        return await context.services.schedules.resolve(
            client.client_id, schedule_id, consistency=client.settings.read_consistency
        )

    found = await concurrently(resolve, possible)
    for (app_id, client), resolved in zip(possible, found, strict=True):
        if resolved is not None and status_of(resolved.row.state) is not None:
            return Found(app_id, client, resolved.row)
    raise no_such_schedule()


def _shown(context: RequestContext, found: Found) -> View:
    return schedule_view(found.app_id, found.client.client_id, found.row, context.services.encryption)


def _one(view: View) -> web.Response:
    return json_response(success({"schedule": view}, count=1))


def no_such_schedule() -> WireRefusal:
    return WireRefusal(NOT_FOUND, "not found")


OPERATIONS = (
    Operation(
        methods=("POST",),
        paths=("/schedules", "/schedule"),
        handler=goscheduler_create_schedule,
        scope=Scope.WRITE,
        cost=0,
    ),
    Operation(
        methods=("GET",),
        paths=("/schedules/{schedule_id}", "/schedule/{schedule_id}"),
        handler=goscheduler_get_schedule,
        scope=Scope.READ,
    ),
    Operation(
        methods=("DELETE",),
        paths=("/schedules/{schedule_id}", "/schedule/{schedule_id}"),
        handler=goscheduler_cancel_schedule,
        scope=Scope.WRITE,
        cost=3,
    ),
    Operation(
        methods=("GET",),
        paths=("/apps/{app_id}/schedules",),
        handler=goscheduler_list_schedules,
        scope=Scope.READ,
        cost=10,
        reads_much=True,
    ),
)
