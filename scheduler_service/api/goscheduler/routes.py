"""All operations of GoScheduler's wire."""

from scheduler_service.api.goscheduler import apps, bulk_actions, crons, schedules
from scheduler_service.api.http.route import Route

OPERATIONS = (*schedules.OPERATIONS, *crons.OPERATIONS, *apps.OPERATIONS, *bulk_actions.OPERATIONS)
"""The busiest first, because aiohttp tries them in this order."""
ROUTES: tuple[Route, ...] = tuple(route for operation in OPERATIONS for route in operation.routes())
