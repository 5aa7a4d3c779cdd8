"""Bulk actions of an app: call schedules of a window again (`reconcile`), or do not call them (`delete`).

Both are reconciliations (`usecases.reconciliations`), so they are durable, and their progress is shown by our own API.
Schedules that wait are not called before their time, and those that have ended are not deleted: a status that means
only such ones is refused.
"""

from aiohttp import web

from scheduler_service.api.goscheduler.callers import Apps
from scheduler_service.api.goscheduler.envelope import INVALID, OK, UNKNOWN_ACTION, WireRefusal, succeeded
from scheduler_service.api.goscheduler.operations import Operation, query_of
from scheduler_service.api.goscheduler.queries import MAX_BULK_DAYS, read_list_query
from scheduler_service.api.goscheduler.statuses import ACTIONS, states_to_handle
from scheduler_service.api.http.endpoint import under_audit
from scheduler_service.api.http.route import RequestContext, json_response
from scheduler_service.domain.clients import Scope
from scheduler_service.domain.crons import load_zone
from scheduler_service.domain.instants import format_instant
from scheduler_service.usecases.reconciliations import ReconciliationRequest


async def goscheduler_bulk_action(context: RequestContext, apps: Apps) -> web.StreamResponse:
    app_id, word = context.path("app_id"), context.path("bulk_action")
    asked = read_list_query(
        query_of(context),
        now=context.services.clock.wall_ms(),
        zone=load_zone(context.settings.goscheduler.query_timezone),
        longest_days=MAX_BULK_DAYS,
    )
    action = ACTIONS.get(word)
    if action is None:
        raise WireRefusal(UNKNOWN_ACTION, f"action type {word[:128]} is invalid; there are {', '.join(ACTIONS)}")
    client = await apps.client(app_id)
    states = states_to_handle(action, asked.status)
    if not states:
        raise WireRefusal(INVALID, f"{word} does not apply to schedules that are {asked.status[:128]}")

    async def begin(context: RequestContext) -> web.StreamResponse:
        reconciliations, principal = context.services.reconciliations.request, context.principal
        assert principal is not None
        if asked.start < asked.end:
            request = ReconciliationRequest(
                start=format_instant(asked.start), end=format_instant(asked.end), states=list(states), action=action
            )
            made = await reconciliations.create(
                client, request, reconciliation_id=reconciliations.new_id(), created_by=principal.name
            )
            context.record(reconciliation_id=str(made.reconciliation_id))
        remarks = (
            f"{word} initiated successfully for app: {app_id}, timeRange: {format_instant(asked.start)} to "
            f"{format_instant(asked.end)}, status: {asked.status[:128]}"
        )
        return json_response({"status": succeeded(OK, 0), "remarks": remarks})

    return await under_audit(
        context, action=goscheduler_bulk_action.__name__, target={"client_id": client.client_id}, handler=begin
    )


OPERATIONS = (
    Operation(
        methods=("POST",),
        paths=("/apps/{app_id}/bulk-action/{bulk_action}",),
        handler=goscheduler_bulk_action,
        scope=Scope.WRITE,
        cost=10,
        audited=True,
    ),
)
