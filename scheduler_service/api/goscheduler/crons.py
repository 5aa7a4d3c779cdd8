"""Crons: create, show, delete, list; and the runs of one.

A cron of this wire is one of ours under a random UUID, which is its schedule id there. Crons that were made otherwise,
under names of the client's own, have no such id and are not shown. Those that were deleted are shown with the status
DELETED, without their callback, for the client's retention.
"""

from collections.abc import AsyncIterator
from typing import Final
from uuid import UUID

from aiohttp import web

from scheduler_service.api.goscheduler.callers import Apps
from scheduler_service.api.goscheduler.envelope import INVALID, NOT_FOUND, WireRefusal, success
from scheduler_service.api.goscheduler.operations import Operation, query_of
from scheduler_service.api.goscheduler.queries import read_runs_query, read_schedule_id, run_token
from scheduler_service.api.goscheduler.requests import AskedSchedule, as_written, cron_request
from scheduler_service.api.goscheduler.statuses import DELETED, SCHEDULED, status_of, status_of_cron
from scheduler_service.api.goscheduler.views import View, created_cron_view, cron_view, payload_of, schedule_view
from scheduler_service.api.http.route import RequestContext, json_response
from scheduler_service.api.resources.crons import MAX_CRONS, MAX_RUNS
from scheduler_service.domain.clients import Client, Scope
from scheduler_service.domain.crons.row import Cron
from scheduler_service.domain.errors import Invalid, NotFound
from scheduler_service.domain.ids import DAY_MS, HOUR_MS, CronId, UnixMillis, is_schedule_id
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.show_crons import RunShown

MAX_LISTED: Final = 2_000
"""Crons in one answer, which has no pages."""
AHEAD_MS: Final = DAY_MS
"""Runs are placed less than a day ahead."""


async def create_cron(context: RequestContext, client: Client, asked: AskedSchedule) -> View:
    """Raises what a put of a cron raises, with the names of the caller's fields."""
    crons = context.services.crons.request
    crons.admit.by_wire(client)
    context.services.rate_limit.take(client)
    request = cron_request(asked, timezone=context.settings.goscheduler.timezone)
    if asked.faults:
        raise Invalid([*asked.faults, *as_written(asked, crons.faults(client, request))])
    cron_id = CronId(str(context.services.randomness.uuid4()))
    try:
        changed = await crons.put(client, cron_id, request, has_read=context.has_read)
    except Invalid as invalid:
        raise Invalid(as_written(asked, invalid.errors)) from None
    context.record(cron_id=cron_id, revision=changed.cron.revision)
    return created_cron_view(asked, changed.cron)


async def show_cron(context: RequestContext, apps: Apps, schedule_id: UUID) -> View:
    app_id, _, cron = await _find(context, apps, schedule_id)
    return cron_view(app_id, cron, context.services.encryption)


async def delete_cron(context: RequestContext, apps: Apps, schedule_id: UUID) -> View:
    """The cron as it was, deleted."""
    app_id, client, cron = await _find(context, apps, schedule_id)
    view = cron_view(app_id, cron, context.services.encryption)
    await context.services.crons.change.delete(client.client_id, cron.cron_id)
    return {**view, "status": DELETED}


async def goscheduler_list_crons(context: RequestContext, apps: Apps) -> web.Response:
    query = query_of(context)
    wanted, status = query.get("app_id", ""), query.get("status", "")
    views: list[View] = []
    for app_id, client in await apps.registered():
        if wanted in ("", app_id):
            async for cron in _crons(context, client):
                if status in (SCHEDULED, DELETED) and status != status_of_cron(cron.state):
                    continue
                if len(views) == MAX_LISTED:
                    raise WireRefusal(
                        INVALID, f"there are more than {MAX_LISTED} crons; give app_id and status, or list them at /v1"
                    )
                views.append(cron_view(app_id, cron, context.services.encryption))
    if not views:
        raise WireRefusal(NOT_FOUND, "No cron schedules found")
    return json_response(success(views))


async def goscheduler_list_runs(context: RequestContext, apps: Apps) -> web.Response:
    schedule_id, asked = read_schedule_id(context.path("schedule_id")), read_runs_query(query_of(context))
    if is_schedule_id(schedule_id):
        raise _no_runs()
    try:
        app_id, client, cron = await _find(context, apps, schedule_id)
    except WireRefusal:
        raise _no_runs() from None
    now = context.services.clock.wall_ms()
    newest = now + AHEAD_MS
    if asked.when == "future":
        found = await _runs(context, client, cron, start=now + 1, end=newest, limit=asked.size)
        following = None
    else:
        end = min(now if asked.when == "past" else newest, newest if asked.before is None else asked.before)
        found, following = await _newest(context, client, cron, now=now, end=end, limit=asked.size)
    if not found:
        raise _no_runs()
    payload, encryption = payload_of(cron), context.services.encryption
    views = [
        schedule_view(app_id, client.client_id, run.row, encryption, payload=payload)
        for run in found
        if run.row is not None
    ]
    data = {"schedules": views, "continuationToken": run_token(following)}
    return json_response(success(data, count=len(views)))


async def _newest(
    context: RequestContext, client: Client, cron: Cron, *, now: int, end: int, limit: int
) -> tuple[list[RunShown], int | None]:
    """The newest `limit` runs before `end`, the newest first, and where to continue: None if there are no more. The
    span that is looked at doubles until there are enough."""
    oldest = max(now - client.settings.retention_days * DAY_MS - HOUR_MS, 0)
    found: list[RunShown] = []
    span = HOUR_MS
    while end > oldest and len(found) <= limit:
        start = max(end - span, oldest)
        found += reversed(await _runs(context, client, cron, start=start, end=end, limit=None))
        end, span = start, span * 2
        if len(found) > MAX_RUNS:
            break
    if len(found) > limit:
        return found[:limit], (found[limit - 1].nominal_due if limit else None)
    return found, None


async def _runs(
    context: RequestContext, client: Client, cron: Cron, *, start: int, end: int, limit: int | None
) -> list[RunShown]:
    """Runs with start <= nominal instant < end that have a row which is shown, in their order."""
    found: list[RunShown] = []
    begin: int | None = start
    while begin is not None and begin < end and (limit is None or len(found) < limit):
        page = await context.services.crons.show.runs(
            client, cron.cron_id, start=UnixMillis(begin), end=UnixMillis(end), limit=MAX_RUNS
        )
        context.has_read(len(page.items), 0)
        found += (run for run in page.items if run.row is not None and status_of(run.row.state) is not None)
        begin = None if page.next is None else page.next + 1
    return found if limit is None else found[:limit]


async def _crons(context: RequestContext, client: Client) -> AsyncIterator[Cron]:
    """Those of this wire, deleted ones too, in the order of their ids."""
    after: CronId | None = None
    while True:
        page = await context.services.crons.show.page(
            client.client_id, after=after, limit=MAX_CRONS, has_read=context.has_read, deleted=True
        )
        for cron in page.items:
            if _is_ours(cron.cron_id):
                yield cron
        if page.next is None:
            return
        after = page.next


async def _find(context: RequestContext, apps: Apps, schedule_id: UUID) -> tuple[str, Client, Cron]:
    """Raises WireRefusal where no app has it; StoreUnavailable."""
    possible, cron_id = await apps.registered(), CronId(str(schedule_id))
    context.spend(max(len(possible) - 1, 0))

    async def read(one: tuple[str, Client]) -> Cron | None:
        try:
            return await context.services.crons.show.one(one[1].client_id, cron_id, deleted=True)
        except NotFound:
            return None

    for (app_id, client), cron in zip(possible, await concurrently(read, possible), strict=True):
        if cron is not None:
            return app_id, client, cron
    raise WireRefusal(NOT_FOUND, "not found")


def _is_ours(cron_id: CronId) -> bool:
    try:
        return str(UUID(cron_id)) == cron_id
    except ValueError:
        return False


def _no_runs() -> WireRefusal:
    return WireRefusal(NOT_FOUND, "No cron runs found")


OPERATIONS = (
    Operation(
        methods=("GET",),
        paths=("/crons/schedules",),
        handler=goscheduler_list_crons,
        scope=Scope.READ,
        cost=5,
        reads_much=True,
    ),
    Operation(
        methods=("GET",),
        paths=("/schedules/{schedule_id}/runs",),
        handler=goscheduler_list_runs,
        scope=Scope.READ,
        cost=5,
        reads_much=True,
    ),
)
