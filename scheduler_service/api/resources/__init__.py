"""All routes as data: the application is built from `ROUTES`, and tests and the OpenAPI document enumerate it.

A variable part of a path ends at a colon, so `/clients/{client_id}` and `/clients/{client_id}:suspend` are distinct.
"""

from scheduler_service.api.http.route import Route
from scheduler_service.api.resources import (
    admin_keys,
    audit_log,
    audits,
    balance,
    clients,
    cluster,
    cron_backfills,
    cron_pauses,
    crons,
    dead_letters,
    destinations,
    documents,
    explanations,
    forecast,
    health,
    keys,
    public_keys,
    reconciliations,
    reschedule_window,
    schedule_keys,
    schedule_listings,
    schedule_verbs,
    schedules,
    signing_secrets,
    trial_call,
    usage,
)

ROUTES: tuple[Route, ...] = (
    *schedules.ROUTES,
    *schedule_listings.ROUTES,
    *schedule_verbs.ROUTES,
    *explanations.ROUTES,
    *reschedule_window.ROUTES,
    *schedule_keys.ROUTES,
    *dead_letters.ROUTES,
    *crons.ROUTES,
    *cron_pauses.ROUTES,
    *cron_backfills.ROUTES,
    *destinations.ROUTES,
    *balance.ROUTES,
    *trial_call.ROUTES,
    *reconciliations.ROUTES,
    *usage.ROUTES,
    *audits.ROUTES,
    *clients.ROUTES,
    *keys.ROUTES,
    *signing_secrets.ROUTES,
    *public_keys.ROUTES,
    *admin_keys.ROUTES,
    *audit_log.ROUTES,
    *cluster.ROUTES,
    *forecast.ROUTES,
    *health.ROUTES,
    *documents.ROUTES,
)
"""The busiest first, because aiohttp tries them in this order."""
