"""All operations of GoScheduler's wire."""

from typing import Final

from scheduler_service.api.goscheduler import apps, bulk_actions, crons, schedules
from scheduler_service.api.goscheduler.envelope import refusal
from scheduler_service.api.goscheduler.operations import PREFIX
from scheduler_service.api.http.route import Route
from scheduler_service.api.http.wire import WireForm

WIRE: Final = WireForm(name="goscheduler", prefix=PREFIX, refusal=refusal)

OPERATIONS = (*schedules.OPERATIONS, *crons.OPERATIONS, *apps.OPERATIONS, *bulk_actions.OPERATIONS)
"""The busiest first, because aiohttp tries them in this order."""
ROUTES: tuple[Route, ...] = tuple(route for operation in OPERATIONS for route in operation.routes())
