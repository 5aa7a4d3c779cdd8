"""Values for the examples: the client `shop`, its schedules, crons and keys, and the answers about them."""

from typing import Any, Final

import msgspec

from scheduler_service.api.http.query import PATH_PARTS
from scheduler_service.domain.clients import ClientSettings, RetrySettings

NOW: Final = "2026-11-21T09:30:00.000Z"
SCHEDULE_ID: Final = PATH_PARTS["schedule_id"].example
RECONCILIATION_ID: Final = PATH_PARTS["reconciliation_id"].example
KEY_ID: Final = PATH_PARTS["key_id"].example
SECRET_ID: Final = PATH_PARTS["secret_id"].example
KEY: Final = f"mh_{KEY_ID}_0f4c2d7b9e81a35c6d7e8f90123456789abcdef012345678"


def page(*items: Any) -> dict[str, Any]:
    return {"items": list(items), "next_cursor": None}


CALLBACK: Final = {
    "url": "https://shop.example/hooks/expire",
    "method": "POST",
    "headers": {"content-type": "application/json", "authorization": "Bearer of-the-receiver"},
    "body": '{"order": 17}',
    "flow_key": "customer-4711",
    "flow_rate": 0.5,
}
CALLBACK_SHOWN: Final[dict[str, Any]] = {
    **CALLBACK,
    "headers": {"content-type": "application/json", "authorization": "***"},
}
REQUEST_SENT: Final[dict[str, Any]] = {
    name: value for name, value in CALLBACK_SHOWN.items() if not name.startswith("flow_")
}
"""What a receiver gets of it."""
NEW_SCHEDULE: Final = {
    "due": "2026-11-21T09:30:15Z",
    "callback": CALLBACK,
    "label": "order-17",
    "retry": {"max_attempts": 5},
    "on_failure": "https://shop.example/hooks/failed",
}
SCHEDULE: Final = {
    "schedule_id": SCHEDULE_ID,
    "client_id": "shop",
    "poller_id": 2,
    "minute": NOW,
    "due": "2026-11-21T09:30:15.000Z",
    "nominal_due": None,
    "state": "scheduled",
    "in_flight": False,
    "attempts": 0,
    "next_attempt_at": "2026-11-21T09:30:15.000Z",
    "first_attempt_at": None,
    "finished_at": None,
    "last_status": None,
    "last_error": None,
    "reason": None,
    "callback": CALLBACK_SHOWN,
    "label": "order-17",
    "ordering_key": None,
    "key": None,
    "latest": None,
    "retry": {"max_attempts": 5},
    "timeout_seconds": None,
    "skip_after_seconds": None,
    "on_success": None,
    "on_failure": "https://shop.example/hooks/failed",
    "succeed_by": None,
    "cron_id": None,
    "rescheduled_from": None,
    "rescheduled_to": None,
    "redelivered_at": None,
    "created_at": NOW,
}
REDELIVERED: Final = {
    **SCHEDULE,
    "state": "retrying",
    "attempts": 5,
    "next_attempt_at": "2026-11-21T09:30:15.001Z",
    "last_status": 503,
    "reason": "redelivery",
    "redelivered_at": "2026-11-21T09:30:15.001Z",
}
STORY: Final = {
    "sentence": "It is due in 15 s.",
    "verdict": "waiting",
    "late_seconds": 0.0,
    "cause": None,
    "steps": [
        {
            "step": "accepted",
            "at": NOW,
            "seconds": None,
            "text": "It was stored, due 15 s later.",
            "cause": None,
            "behind": None,
        },
        {
            "step": "next",
            "at": "2026-11-21T09:30:15.000Z",
            "seconds": None,
            "text": "It is due then.",
            "cause": None,
            "behind": None,
        },
    ],
}
CANCELLED: Final = {**SCHEDULE, "state": "cancelled", "next_attempt_at": None, "finished_at": NOW}
PLAIN_CALLBACK: Final = {"url": "https://shop.example/hooks/remind", "method": "POST", "headers": {}}
REMINDER: Final = {
    **SCHEDULE,
    "minute": "2026-11-21T09:31:00.000Z",
    "due": "2026-11-21T09:31:30.000Z",
    "next_attempt_at": "2026-11-21T09:31:30.000Z",
    "callback": PLAIN_CALLBACK,
    "label": None,
    "retry": None,
    "on_failure": None,
}
UNDER_KEY: Final = {**REMINDER, "key": PATH_PARTS["schedule_key"].example, "latest": "2026-11-21T10:30:00.000Z"}
LATE: Final = {"due": "2026-11-20T09:30:00Z", "callback": {"url": "https://shop.example/hooks/remind"}}
LATE_REFUSED: Final = {
    "status": 422,
    "problem": {
        "type": "/problems/invalid",
        "title": "Invalid request",
        "status": 422,
        "detail": "1 fault was found",
        "request_id": "5f2b8c0a91d34e7f6a1b2c3d",
        "errors": [
            {"pointer": "/due", "detail": f"is more than 60 seconds in the past; it is {NOW} now"},
        ],
    },
}

CALENDAR: Final = {"country": "DE", "weekends": True, "on": "move-previous"}
NEW_CRON: Final = {
    "expression": "30 2 * * *",
    "timezone": "Europe/Berlin",
    "callback": {"url": "https://shop.example/hooks/close-the-day"},
    "label": "books",
    "pause_after_failures": 3,
    "on_failure": "https://shop.example/hooks/failed",
}
NIGHTS: Final = [f"2026-11-{day}T01:30:00.000Z" for day in range(22, 27)]
CRON: Final = {
    "cron_id": "nightly",
    "client_id": "shop",
    "state": "active",
    "revision": 1,
    "expression": "30 2 * * *",
    "dialect": "cronie",
    "also": [],
    "excluding": [],
    "calendar": None,
    "rule": "30 2 * * *",
    "timezone": "Europe/Berlin",
    "words": "at 02:30 every day",
    "next_fires": NIGHTS,
    "callback": {"url": "https://shop.example/hooks/close-the-day", "method": "POST", "headers": {}},
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
    "ordering_key": None,
    "pause_after_failures": 3,
    "on_success": None,
    "on_failure": "https://shop.example/hooks/failed",
    "succeed_within_seconds": None,
    "pause": None,
    "created_at": NOW,
    "changed_at": NOW,
}
CRON_DELETED: Final = {
    **CRON,
    "state": "deleted",
    "revision": 2,
    "next_fires": [],
    "callback": {"url": "", "method": "POST", "headers": {}},
}
PAUSE_NOTE: Final = "the books are being moved"
PAUSED: Final = {
    **CRON,
    "state": "paused",
    "revision": 2,
    "next_fires": [],
    "pause": {"at": NOW, "by": "request", "note": PAUSE_NOTE},
}
TRIGGERED: Final = {
    **SCHEDULE,
    "due": "2026-11-21T09:30:00.001Z",
    "next_attempt_at": "2026-11-21T09:30:00.001Z",
    "callback": CRON["callback"],
    "label": "books",
    "created_at": "2026-11-21T09:30:00.001Z",
    "retry": None,
    "cron_id": "nightly",
}
BACKFILLED: Final = {
    "nominal_due": "2026-11-20T01:30:00.000Z",
    "status": 202,
    "schedule_id": SCHEDULE_ID,
    "due": "2026-11-21T09:30:00.120Z",
    "state": "retrying",
    "reason": None,
}
PLANNED_RUN: Final = {
    "nominal_due": NIGHTS[0],
    "due": NIGHTS[0],
    "schedule_id": None,
    "state": "planned",
    "attempts": 0,
    "last_status": None,
    "last_error": None,
    "first_attempt_at": None,
    "finished_at": None,
    "duration_seconds": None,
    "reason": None,
    "kind": "scheduled",
    "triggered": False,
}

RECONCILED: Final = {
    "from": "2026-11-21T09:00:00Z",
    "to": "2026-11-21T10:00:00Z",
    "states": ["failed"],
    "host": "shop.example",
    "action": "redeliver",
}
RECONCILIATION: Final = {
    "reconciliation_id": RECONCILIATION_ID,
    "client_id": "shop",
    "action": "redeliver",
    "from": "2026-11-21T09:00:00.000Z",
    "to": "2026-11-21T10:00:00.000Z",
    "states": ["failed"],
    "filters": {"host": "shop.example"},
    "state": "running",
    "progress": {"minutes_done": 0, "minutes_total": 60, "through": "2026-11-21T09:00:00.000Z"},
    "seen": {},
    "outcomes": {},
    "hours": [],
    "samples": [],
    "created_at": NOW,
    "created_by": "configured",
    "updated_at": NOW,
}

SETTINGS: Final = ClientSettings(retry=RetrySettings(max_attempts=20), horizon_days=365)
CLIENT: Final = {
    "client_id": "shop",
    "poller_quota": 3,
    "poller_ceiling": 3,
    "guaranteed_calls_per_minute": 3000,
    "state": "active",
    "paused": False,
    "settings": msgspec.json.decode(msgspec.json.encode(SETTINGS.effective(poller_quota=3))),
    "stored_settings": msgspec.json.decode(msgspec.json.encode(SETTINGS)),
    "revision": 1,
    "created_at": NOW,
}
NEW_SECRET: Final = {
    "secret_id": SECRET_ID,
    "scheme": "v1",
    "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwYmFzZTY0IQA=",
    "created_at": NOW,
}
_PUBLIC_KEY: Final = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="
NEW_KEY_PAIR: Final = {**NEW_SECRET, "scheme": "v1a", "secret": _PUBLIC_KEY}
PUBLIC_KEY: Final = {"secret_id": SECRET_ID, "public_key": _PUBLIC_KEY, "created_at": NOW}
SECRET_SHOWN: Final = {
    "secret_id": SECRET_ID,
    "scheme": "v1",
    "public_key": None,
    "created_at": NOW,
    "expires_at": None,
}
NEW_CLIENT: Final = {**CLIENT, "signing_secret": NEW_SECRET}
_KEY: Final = {"name": "web shop", "scope": "write", "created_at": NOW, "expires_at": "2027-11-21T09:30:00.000Z"}
NEW_KEY: Final = {"key_id": KEY_ID, "key": KEY, **_KEY}
KEY_SHOWN: Final = {"key_id": KEY_ID, **_KEY, "last_used_at": None, "revoked_at": None}
NODE: Final = {
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
USED: Final = {
    "accepted": 3,
    "delivered": 1,
    "failed": 1,
    "cancelled": 0,
    "skipped": 0,
    "open": 1,
    "attempts": 6,
    "bytes": 39,
    "lateness": {"p50_seconds": 0.004, "p95_seconds": 0.021, "p99_seconds": 0.021, "max_seconds": 0.021},
}

FORESEEN: Final = {"from": "2026-11-21T09:30:00Z", "to": "2026-11-22T09:30:00Z"}
FORECAST: Final = {
    "from": "2026-11-21T09:30:00.000Z",
    "to": "2026-11-22T09:30:00.000Z",
    "guaranteed_per_minute": 3000,
    "capacity_per_minute": 5000,
    "calls": 2,
    "minutes_beyond_guarantee": 0,
    "minutes_beyond_capacity": 0,
    "crons_left_out": 0,
    "peak": {"minute": "2026-11-21T09:30:00.000Z", "calls": 1},
    "runs": [
        {"from": "2026-11-21T09:30:00.000Z", "rows": [1], "fires": [0]},
        {"from": "2026-11-22T01:30:00.000Z", "rows": [0], "fires": [1]},
    ],
}
OVERDUE: Final = {
    "rows": 1,
    "counted": 1,
    "estimated": 0,
    "exact": True,
    "ages": {
        "under_1_minute": 0,
        "under_10_minutes": 1,
        "under_1_hour": 0,
        "under_6_hours": 0,
        "under_1_day": 0,
        "older": 0,
    },
    "oldest": "2026-11-21T09:30:00.000Z",
    "open_minutes": 1,
}
BACKLOG: Final = {
    "client_id": "shop",
    "overdue": OVERDUE,
    "pollers": 3,
    "pollers_behind": 3,
    "held_by": ["no-owner"],
    "late_policy": {"kind": "fire", "after_seconds": 0.0},
    "to_skip": 0,
    "at_most_once": False,
    "overdue_per_second": None,
    "drain_seconds": None,
}
LATEST_AUDIT: Final[dict[str, Any]] = {
    "client_id": "shop",
    "audit_id": "01a1fd70-f1c0-8000-83ca-9d3752e6b438",
    "audited_at": NOW,
    "from": "2026-11-21T08:00:00.000Z",
    "to": "2026-11-21T09:00:00.000Z",
    "counts": {"accepted": 120, "delivered": 117, "failed": 1, "cancelled": 2, "skipped": 0, "open": 0},
    "findings": {"stranded": 1},
    "repaired": {},
    "left_out": [],
}
AUDITED: Final = {"from": "2026-11-21T00:00:00Z", "to": "2026-11-22T00:00:00Z", "limit": "50"}
AUDIT_ENTRY: Final = {
    "entry_id": "019e0b1f-7b40-8000-8a5c-0c6f1d2e3b47",
    "at": NOW,
    "actor": "configured",
    "key_id": None,
    "by_client": False,
    "action": "put_client",
    "client_id": "shop",
    "target": {"client_id": "shop"},
    "request_id": "5f2b8c0a91d34e7f6a1b2c3d",
    "result": "done",
    "status": 201,
    "problem": None,
    "details": {"client_id": "shop", "poller_quota": 3, "revision": 1, "secret_id": SECRET_ID},
}
CREATED: Final = 1_795_253_400_000
"""NOW in Unix milliseconds, the first revision of a destination."""
NEW_DESTINATION: Final[dict[str, Any]] = {
    "url": "https://warehouse.example/hooks",
    "headers": {"x-source": "shop"},
    "max_per_second": 20,
    "token": {
        "client_id": "shop",
        "client_secret": "of-the-token-server",
        "issuer": "https://login.example",
        "scope": "orders.write",
    },
    "cloudevents": {"type": "shop.order.expired", "source": "/shop"},
}
DESTINATION: Final[dict[str, Any]] = {
    "name": PATH_PARTS["destination"].example,
    "client_id": "shop",
    "url": "https://warehouse.example/hooks",
    "kind": "http",
    "target": None,
    "method": "POST",
    "headers": {"x-source": "***"},
    "timeout_seconds": None,
    "retry": None,
    "max_per_second": 20.0,
    "max_in_flight": None,
    "certificate": None,
    "token": {
        "client_id": "shop",
        "token_url": None,
        "issuer": "https://login.example",
        "scope": "orders.write",
        "audience": None,
        "authentication": "basic",
        "id_token": False,
    },
    "proxy": None,
    "cloudevents": {"type": "shop.order.expired", "source": "/shop"},
    "paused_at": None,
    "revision": CREATED,
    "created_at": NOW,
    "changed_at": NOW,
    "figures": None,
}
NEW_SUBSCRIPTION: Final[dict[str, Any]] = {
    "destination": PATH_PARTS["destination"].example,
    "events": ["schedule.failed", "destination.opened"],
    "filter": {"label": "orders"},
}
SUBSCRIPTION: Final[dict[str, Any]] = {
    "name": PATH_PARTS["subscription"].example,
    "client_id": "shop",
    "destination": PATH_PARTS["destination"].example,
    "events": ["destination.opened", "schedule.failed"],
    "filter": {"label": "orders", "key_prefix": None, "cron_id": None, "destination": None},
    "enabled": True,
    "revision": CREATED,
    "created_at": NOW,
    "changed_at": NOW,
}
FIGURES: Final[dict[str, Any]] = {
    "calls": 4_812,
    "failures": 3,
    "answer_p50_seconds": 0.0381,
    "answer_p99_seconds": 0.2153,
    "in_flight": 2,
    "waiting": 11,
    "deferred": 0,
    "token_failures": 0,
    "breaker": "closed",
    "silent_nodes": 0,
}
