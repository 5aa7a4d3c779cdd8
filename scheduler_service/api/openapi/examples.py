"""An example of every operation, by its id: what is sent, and what comes back. The only thing written by hand here.

They tell one story: an administrator registers the client `shop` at 2026-11-21T09:30:00Z; it creates schedules and a
cron. A test lives through it and compares; ids and secrets are the only things in which its answers may differ.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from scheduler_service.api.parameters import PATH_PARTS
from scheduler_service.domain.clients import ClientSettings, RetrySettings

_NOW: Final = "2026-11-21T09:30:00.000Z"
_SCHEDULE_ID: Final = PATH_PARTS["schedule_id"].example
_RECONCILIATION_ID: Final = PATH_PARTS["reconciliation_id"].example
_KEY_ID: Final = PATH_PARTS["key_id"].example
_SECRET_ID: Final = PATH_PARTS["secret_id"].example
_KEY: Final = f"mh_{_KEY_ID}_0f4c2d7b9e81a35c6d7e8f90123456789abcdef012345678"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """`request` UNSET: no body. `answer` is the body of success; `partial`: as far as it is told here, which for text
    means that the answer holds it."""

    query: Mapping[str, str] = field(default_factory=dict)
    request: Any = msgspec.UNSET
    answer: Any = None
    partial: bool = False


def _page(*items: Any) -> dict[str, Any]:
    return {"items": list(items), "next_cursor": None}


_CALLBACK: Final = {
    "url": "https://shop.example/hooks/expire",
    "method": "POST",
    "headers": {"content-type": "application/json", "authorization": "Bearer of-the-receiver"},
    "body": '{"order": 17}',
}
_CALLBACK_SHOWN: Final = {
    **_CALLBACK,
    "headers": {"content-type": "application/json", "authorization": "***"},
}
_SCHEDULE_ASKED: Final = {
    "due": "2026-11-21T09:30:15Z",
    "callback": _CALLBACK,
    "label": "order-17",
    "retry": {"max_attempts": 5},
}
_SCHEDULE: Final = {
    "schedule_id": _SCHEDULE_ID,
    "client_id": "shop",
    "poller_id": 2,
    "minute": _NOW,
    "due": "2026-11-21T09:30:15.000Z",
    "state": "scheduled",
    "in_flight": False,
    "attempts": 0,
    "next_attempt_at": "2026-11-21T09:30:15.000Z",
    "first_attempt_at": None,
    "finished_at": None,
    "last_status": None,
    "last_error": None,
    "reason": None,
    "callback": _CALLBACK_SHOWN,
    "label": "order-17",
    "ordering_key": None,
    "retry": {"max_attempts": 5},
    "timeout_seconds": None,
    "skip_after_seconds": None,
    "cron_id": None,
    "rescheduled_from": None,
    "rescheduled_to": None,
    "redelivered_at": None,
    "created_at": _NOW,
}
_REDELIVERED: Final = {
    **_SCHEDULE,
    "state": "retrying",
    "attempts": 5,
    "next_attempt_at": "2026-11-21T09:30:15.001Z",
    "last_status": 503,
    "reason": "redelivery",
    "redelivered_at": "2026-11-21T09:30:15.001Z",
}
_CANCELLED: Final = {**_SCHEDULE, "state": "cancelled", "next_attempt_at": None, "finished_at": _NOW}
_PLAIN_CALLBACK: Final = {"url": "https://shop.example/hooks/remind", "method": "POST", "headers": {}}
_REMINDER: Final = {
    **_SCHEDULE,
    "minute": "2026-11-21T09:31:00.000Z",
    "due": "2026-11-21T09:31:30.000Z",
    "next_attempt_at": "2026-11-21T09:31:30.000Z",
    "callback": {**_PLAIN_CALLBACK, "body": ""},
    "label": None,
    "retry": None,
}
_LATE: Final = {"due": "2026-11-20T09:30:00Z", "callback": {"url": "https://shop.example/hooks/remind"}}
_LATE_REFUSED: Final = {
    "status": 422,
    "problem": {
        "type": "/problems/invalid",
        "title": "Invalid request",
        "status": 422,
        "detail": "1 fault was found",
        "request_id": "5f2b8c0a91d34e7f6a1b2c3d",
        "errors": [
            {"pointer": "/due", "detail": f"is more than 60 seconds in the past; it is {_NOW} now"},
        ],
    },
}

_CRON_ASKED: Final = {
    "expression": "30 2 * * *",
    "timezone": "Europe/Berlin",
    "callback": {"url": "https://shop.example/hooks/close-the-day"},
    "label": "books",
}
_NIGHTS: Final = [f"2026-11-{day}T01:30:00.000Z" for day in range(22, 27)]
_CRON: Final = {
    "cron_id": "nightly",
    "client_id": "shop",
    "state": "active",
    "revision": 1,
    "expression": "30 2 * * *",
    "timezone": "Europe/Berlin",
    "words": "at 02:30 every day",
    "next_fires": _NIGHTS,
    "callback": {"url": "https://shop.example/hooks/close-the-day", "method": "POST", "headers": {}, "body": ""},
    "starts_at": None,
    "ends_at": None,
    "max_fires": None,
    "spread_seconds": 0,
    "catch_up_seconds": 3600.0,
    "overlap": "allow",
    "dst": {"gap": "shift", "fold": "first"},
    "retry": None,
    "timeout_seconds": None,
    "label": "books",
    "created_at": _NOW,
    "changed_at": _NOW,
}
_PAUSED: Final = {**_CRON, "state": "paused", "revision": 2, "next_fires": []}
_TRIGGERED: Final = {
    **_SCHEDULE,
    "due": "2026-11-21T09:30:00.001Z",
    "next_attempt_at": "2026-11-21T09:30:00.001Z",
    "callback": _CRON["callback"],
    "label": "books",
    "retry": None,
    "cron_id": "nightly",
}
_PLANNED_RUN: Final = {
    "nominal_due": _NIGHTS[0],
    "due": _NIGHTS[0],
    "schedule_id": None,
    "state": "planned",
    "attempts": 0,
    "last_status": None,
    "last_error": None,
    "finished_at": None,
    "reason": None,
    "triggered": False,
}

_RECONCILED: Final = {
    "from": "2026-11-21T09:00:00Z",
    "to": "2026-11-21T10:00:00Z",
    "states": ["failed"],
    "action": "redeliver",
}
_RECONCILIATION: Final = {
    "reconciliation_id": _RECONCILIATION_ID,
    "client_id": "shop",
    "action": "redeliver",
    "from": "2026-11-21T09:00:00.000Z",
    "to": "2026-11-21T10:00:00.000Z",
    "states": ["failed"],
    "state": "running",
    "progress": {"minutes_done": 0, "minutes_total": 60, "through": "2026-11-21T09:00:00.000Z"},
    "seen": {},
    "outcomes": {},
    "created_at": _NOW,
    "created_by": "configured",
    "updated_at": _NOW,
}

_SETTINGS: Final = ClientSettings(retry=RetrySettings(max_attempts=20), horizon_days=365)
_CLIENT: Final = {
    "client_id": "shop",
    "poller_quota": 3,
    "poller_ceiling": 3,
    "guaranteed_calls_per_minute": 3000,
    "state": "active",
    "settings": msgspec.json.decode(msgspec.json.encode(_SETTINGS.effective(poller_quota=3))),
    "revision": 1,
    "created_at": _NOW,
}
_NEW_KEY: Final = {"key_id": _KEY_ID, "key": _KEY, "created_at": _NOW}
_KEY_SHOWN: Final = {"key_id": _KEY_ID, "created_at": _NOW, "revoked_at": None}
_NODE: Final = {
    "node_id": "node-a",
    "incarnation": 7,
    "state": "live",
    "beat_age_seconds": 0.0,
    "pollers": 0,
    "clock_offset_ms": None,
    "capacity_per_minute": 5000,
    "weight": 1.0,
    "version": "0.1.0",
    "address": "node-a:1",
}

EXAMPLES: Final[Mapping[str, Example]] = {
    "create_schedule": Example(request=_SCHEDULE_ASKED, answer=_SCHEDULE),
    "get_schedule": Example(answer=_SCHEDULE),
    "cancel_schedule": Example(answer=_CANCELLED),
    "create_batch": Example(
        request={"items": [{"delay_seconds": 90, "callback": {"url": "https://shop.example/hooks/remind"}}, _LATE]},
        answer={"items": [{"status": 201, "schedule": _REMINDER}, _LATE_REFUSED]},
    ),
    "list_schedules": Example(
        query={
            "from": "2026-11-21T09:00:00Z",
            "to": "2026-11-21T10:00:00Z",
            "state": "scheduled",
            "label": "order-17",
            "limit": "50",
        },
        answer=_page(_SCHEDULE),
    ),
    "cancel_schedules": Example(
        request={"from": "2026-11-21T09:00:00Z", "to": "2026-11-21T10:00:00Z", "label": "order-17"},
        answer=_page({"schedule_id": _SCHEDULE_ID, "status": 200, "state": "cancelled"}),
    ),
    "reschedule_schedule": Example(
        request={"due": "2026-11-21T10:00:00Z"},
        answer={
            **_SCHEDULE,
            "minute": "2026-11-21T10:00:00.000Z",
            "due": "2026-11-21T10:00:00.000Z",
            "next_attempt_at": "2026-11-21T10:00:00.000Z",
            "rescheduled_from": _SCHEDULE_ID,
        },
    ),
    "redeliver_schedule": Example(answer=_REDELIVERED),
    "list_attempts": Example(answer=_page()),
    "list_dead_letters": Example(
        query={"from": "2026-11-21T00:00:00Z", "to": "2026-11-22T00:00:00Z", "limit": "50"}, answer=_page()
    ),
    "redeliver_dead_letters": Example(
        request={"from": "2026-11-21T00:00:00Z", "to": "2026-11-22T00:00:00Z", "limit": 100},
        answer={"redelivered": 0, "passed_over": 0, "next_cursor": None},
    ),
    "get_balance": Example(
        query={"from": "2026-11-21T09:00:00Z", "to": "2026-11-21T10:00:00Z", "limit": "60"},
        answer=_page(
            {
                "minute": _NOW,
                "accepted": 1,
                "delivered": 0,
                "failed": 0,
                "cancelled": 0,
                "skipped": 0,
                "open": 1,
                "lateness": None,
            }
        ),
    ),
    "create_reconciliation": Example(request=_RECONCILED, answer=_RECONCILIATION),
    "get_reconciliation": Example(answer=_RECONCILIATION),
    "list_reconciliations": Example(query={"limit": "50"}, answer=_page(_RECONCILIATION)),
    "stop_reconciliation": Example(answer={**_RECONCILIATION, "state": "stopped"}),
    "put_cron": Example(request=_CRON_ASKED, answer=_CRON),
    "get_cron": Example(answer=_CRON),
    "list_crons": Example(query={"limit": "50"}, answer=_page(_CRON)),
    "delete_cron": Example(answer={**_CRON, "state": "deleted", "revision": 2, "next_fires": []}),
    "pause_cron": Example(answer=_PAUSED),
    "resume_cron": Example(answer={**_CRON, "revision": 3}),
    "trigger_cron": Example(answer=_TRIGGERED),
    "list_runs": Example(
        query={"from": "2026-11-22T00:00:00Z", "to": "2026-11-23T00:00:00Z", "limit": "100"},
        answer=_page(_PLANNED_RUN),
    ),
    "preview_cron": Example(
        request={"expression": "@daily", "timezone": "Asia/Tokyo", "from": "2026-11-21T00:00:00Z", "count": 2},
        answer={
            "expression": "0 0 * * *",
            "timezone": "Asia/Tokyo",
            "words": "at 00:00 every day",
            "next_fires": ["2026-11-21T15:00:00.000Z", "2026-11-22T15:00:00.000Z"],
        },
    ),
    "put_client": Example(
        request={"poller_quota": 3, "settings": {"retry": {"max_attempts": 20}, "horizon_days": 365}}, answer=_CLIENT
    ),
    "list_clients": Example(answer=_page(_CLIENT)),
    "get_client": Example(answer=_CLIENT),
    "delete_client": Example(),
    "suspend_client": Example(answer={**_CLIENT, "state": "suspended", "revision": 2}),
    "resume_client": Example(answer={**_CLIENT, "revision": 3}),
    "create_key": Example(answer=_NEW_KEY),
    "list_keys": Example(answer=_page(_KEY_SHOWN)),
    "revoke_key": Example(),
    "create_secret": Example(
        answer={
            "secret_id": _SECRET_ID,
            "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwYmFzZTY0IQA=",
            "created_at": _NOW,
        }
    ),
    "list_secrets": Example(answer=_page({"secret_id": _SECRET_ID, "created_at": _NOW, "expires_at": None})),
    "delete_secret": Example(),
    "create_admin_key": Example(
        request={"name": "ops"}, answer={"key_id": _KEY_ID, "name": "ops", "key": _KEY, "created_at": _NOW}
    ),
    "list_admin_keys": Example(
        answer=_page({"key_id": _KEY_ID, "name": "ops", "created_at": _NOW, "revoked_at": None})
    ),
    "revoke_admin_key": Example(),
    "get_cluster": Example(
        answer={
            "nodes": [_NODE],
            "pollers": {"total": 3, "owned": 0},
            "guaranteed_calls_per_minute": 3000,
            "capacity_per_minute": 5000,
        }
    ),
    "drain_node": Example(answer={"node_id": "node-a", "incarnation": 7, "state": "draining"}),
    "list_pollers": Example(
        answer=_page(
            *(
                {
                    "poller_id": number,
                    "owner": None,
                    "epoch": 0,
                    "watermark": "2026-11-21T09:29:00.000Z",
                    "lagging": True,
                    "open_minutes": 0,
                    "backlog": 0,
                    "cut": False,
                }
                for number in range(3)
            )
        )
    ),
    "livez": Example(answer={"status": "ok", "reasons": []}),
    "readyz": Example(answer={"status": "ok", "reasons": []}),
    "metrics": Example(
        answer="# HELP minutehand_api_requests_total Requests answered, by route template and status.\n", partial=True
    ),
    "get_openapi": Example(
        answer={"openapi": "3.1.1", "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema"}, partial=True
    ),
    "get_docs": Example(answer="<!doctype html>\n", partial=True),
    "get_problem": Example(answer="Invalid request\n\nHTTP status 422. `errors` lists every fault", partial=True),
}
