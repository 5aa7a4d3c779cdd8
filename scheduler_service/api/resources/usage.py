"""What a client used."""

from aiohttp import web

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.route import Call, Route, answer
from scheduler_service.api.page import Items
from scheduler_service.api.usage_listing import USAGE_PARAMETERS, UsageView, read_usage, usage_view


async def get_usage(call: Call) -> web.Response:
    asked = read_usage(call.query(), now=call.services.clock.wall_ms())
    days = await call.services.show_job_results.usage(call.tenant.client_id, first=asked.first, last=asked.last)
    return answer(Items([usage_view(day) for day in days]))


ROUTES = (
    Route(
        method="GET",
        path="/v1/clients/{client_id}/usage",
        access=Access.CLIENT,
        handler=get_usage,
        summary="What was used on each day, as it was counted last, within a window of 31 days",
        query=USAGE_PARAMETERS,
        response=Items[UsageView],
        cost=5,
    ),
)
