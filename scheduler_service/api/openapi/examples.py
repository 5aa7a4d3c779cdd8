"""An example of every operation, by operation id: its request and its answer. Only these are written by hand.

Together they are one story: an administrator registers the client `shop` at 2026-11-21T09:30:00Z; it creates schedules
and a cron. A test runs it and compares; only ids and secrets may differ.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from scheduler_service.api.openapi import example_values as of


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """`request` UNSET: no body. `answer` is the body of success. `partial`: the real answer has more fields or, as
    text, contains it."""

    query: Mapping[str, str] = field(default_factory=dict)
    request: Any = msgspec.UNSET
    answer: Any = None
    partial: bool = False


EXAMPLES: Final[Mapping[str, Example]] = {
    "create_schedule": Example(request=of.NEW_SCHEDULE, answer=of.SCHEDULE),
    "get_schedule": Example(answer=of.SCHEDULE),
    "cancel_schedule": Example(answer=of.CANCELLED),
    "create_batch": Example(
        request={"items": [{"delay_seconds": 90, "callback": {"url": "https://shop.example/hooks/remind"}}, of.LATE]},
        answer={"items": [{"status": 201, "schedule": of.REMINDER}, of.LATE_REFUSED]},
    ),
    "list_schedules": Example(
        query={
            "from": "2026-11-21T09:00:00Z",
            "to": "2026-11-21T10:00:00Z",
            "state": "scheduled",
            "label": "order-17",
            "limit": "50",
        },
        answer=of.page(of.SCHEDULE),
    ),
    "count_schedules": Example(
        query={"from": "2026-11-21T09:00:00Z", "to": "2026-11-28T09:00:00Z", "host": "shop.example"},
        answer={"count": 1, "next_cursor": None},
    ),
    "cancel_schedules": Example(
        request={"from": "2026-11-21T09:00:00Z", "to": "2026-11-21T10:00:00Z", "label": "order-17"},
        answer=of.page({"schedule_id": of.SCHEDULE_ID, "status": 200, "state": "cancelled"}),
    ),
    "reschedule_schedule": Example(
        request={"due": {"local": "2026-11-21T11:00", "timezone": "Europe/Berlin"}},
        answer={
            **of.SCHEDULE,
            "minute": "2026-11-21T10:00:00.000Z",
            "due": "2026-11-21T10:00:00.000Z",
            "next_attempt_at": "2026-11-21T10:00:00.000Z",
            "rescheduled_from": of.SCHEDULE_ID,
        },
    ),
    "update_schedule": Example(
        request={"label": "order-18", "callback": {"headers": {"X-Shop": "2"}}, "timeout_seconds": 5},
        answer={
            **of.SCHEDULE,
            "callback": {**of.CALLBACK_SHOWN, "headers": {**of.CALLBACK_SHOWN["headers"], "X-Shop": "2"}},
            "label": "order-18",
            "timeout_seconds": 5.0,
            "rescheduled_from": of.SCHEDULE_ID,
        },
    ),
    "run_schedule": Example(
        answer={
            **of.SCHEDULE,
            "minute": of.NOW,
            "due": of.NOW,
            "next_attempt_at": of.NOW,
            "rescheduled_from": of.SCHEDULE_ID,
        }
    ),
    "preview_schedule": Example(
        answer={
            **of.REQUEST_SENT,
            "headers": {**of.REQUEST_SENT["headers"], "webhook-id": of.SCHEDULE_ID},
        },
        partial=True,
    ),
    "put_schedule": Example(
        request={
            "delay_seconds": 90,
            "latest": "2026-11-21T10:30:00Z",
            "callback": {"url": "https://shop.example/hooks/remind"},
        },
        answer=of.UNDER_KEY,
    ),
    "get_schedule_by_key": Example(answer=of.UNDER_KEY),
    "cancel_schedule_by_key": Example(
        answer={**of.UNDER_KEY, "state": "cancelled", "next_attempt_at": None, "finished_at": of.NOW}
    ),
    "redeliver_schedule": Example(answer=of.REDELIVERED),
    "reschedule_schedules": Example(
        request={
            "from": "2026-11-21T09:00:00Z",
            "to": "2026-11-28T09:00:00Z",
            "host": "shop.example",
            "shift_seconds": 3600,
        },
        answer=of.page(
            {
                "schedule_id": of.SCHEDULE_ID,
                "status": 200,
                "state": "cancelled",
                "rescheduled_to": "01a1fed4-0f8a-8000-8c91-89a08db81829",
            }
        ),
    ),
    "list_attempts": Example(answer=of.page()),
    "explain_schedule": Example(answer=of.STORY),
    "list_dead_letters": Example(
        query={"from": "2026-11-21T00:00:00Z", "to": "2026-11-22T00:00:00Z", "limit": "50"}, answer=of.page()
    ),
    "redeliver_dead_letters": Example(
        request={"from": "2026-11-21T00:00:00Z", "to": "2026-11-22T00:00:00Z", "limit": 100},
        answer={"redelivered": 0, "passed_over": 0, "items": [], "next_cursor": None},
    ),
    "acknowledge_dead_letters": Example(
        request={
            "from": "2026-11-21T00:00:00Z",
            "to": "2026-11-22T00:00:00Z",
            "destination": "shop",
            "status": "5xx",
            "limit": 100,
        },
        answer={"acknowledged": 0, "items": [], "next_cursor": None},
    ),
    "get_usage": Example(
        query={"from": "2026-11-21", "to": "2026-11-22"},
        answer=of.page(
            {
                **of.USED,
                "day": "2026-11-21",
                "complete": False,
                "counted_at": of.NOW,
                "failing_hosts": [{"host": "shop.example", "failed": 1}],
                "hours": [{**of.USED, "hour": "2026-11-21T09:00:00.000Z"}],
            }
        ),
    ),
    "get_balance": Example(
        query={"from": "2026-11-21T09:00:00Z", "to": "2026-11-21T10:00:00Z", "limit": "60"},
        answer=of.page(
            {
                "minute": of.NOW,
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
    "list_events": Example(
        query={"after": "earliest", "limit": "50", "wait_seconds": "30"},
        answer={
            "events": [
                {
                    "id": "8c0ffee0-0000-8000-8000-000000000001",
                    "type": "schedule.delivered",
                    "at": of.NOW,
                    "schedule_id": of.SCHEDULE_ID,
                    "data": {"due": of.NOW, "attempts": 1, "label": "invoices", "last_status": 204},
                }
            ],
            "cursor": "Afqcog4AAAcAAQ",
            "more": False,
        },
    ),
    "list_audits": Example(query={"limit": "20"}, answer=of.page()),
    "trial_call": Example(
        request={"callback": of.CALLBACK, "timeout_seconds": 5},
        answer={
            "schedule_id": of.SCHEDULE_ID,
            "delivered": True,
            "sent": True,
            "started_at": of.NOW,
            "request": {
                **of.REQUEST_SENT,
                "headers": {
                    "content-type": "application/json",
                    "authorization": "***",
                    "webhook-id": of.SCHEDULE_ID,
                    "Minutehand-Trial": "true",
                },
            },
            "addresses": ["203.0.113.7:443"],
            "connected_to": "203.0.113.7:443",
            "times": {
                "resolved_seconds": 0.004,
                "connected_seconds": 0.012,
                "secured_seconds": 0.031,
                "first_byte_seconds": 0.05,
                "ended_seconds": 0.051,
            },
            "status": 204,
            "http_version": "2",
            "response_headers": {"date": "Sat, 21 Nov 2026 09:30:00 GMT", "set-cookie": "***"},
            "excerpt": "",
            "error": None,
            "detail": None,
            "verb": None,
            "verb_ignored": None,
        },
    ),
    "create_reconciliation": Example(request=of.RECONCILED, answer=of.RECONCILIATION),
    "get_reconciliation": Example(answer=of.RECONCILIATION),
    "list_reconciliations": Example(query={"limit": "50"}, answer=of.page(of.RECONCILIATION)),
    "list_reconciled_schedules": Example(query={"outcome": "in-flight", "limit": "50"}, answer=of.page()),
    "stop_reconciliation": Example(answer={**of.RECONCILIATION, "state": "stopped"}),
    "put_cron": Example(request=of.NEW_CRON, answer=of.CRON),
    "get_cron": Example(answer=of.CRON),
    "list_crons": Example(query={"limit": "50"}, answer=of.page(of.CRON)),
    "delete_cron": Example(answer=of.CRON_DELETED),
    "pause_cron": Example(request={"note": of.PAUSE_NOTE}, answer=of.PAUSED),
    "pause_crons": Example(
        request={"label": "books", "note": of.PAUSE_NOTE},
        answer=of.page({"cron_id": "nightly", "status": 200, "state": "paused", "changed": True, "revision": 2}),
    ),
    "resume_crons": Example(
        request={"label": "books", "note": of.PAUSE_NOTE, "dry_run": True},
        answer=of.page({"cron_id": "nightly", "status": 200, "state": "paused", "changed": True, "revision": None}),
    ),
    "resume_cron": Example(answer={**of.CRON, "revision": 3}),
    "backfill_cron": Example(
        request={"from": "2026-11-20T00:00:00Z", "to": "2026-11-21T00:00:00Z"},
        answer=of.page(of.BACKFILLED),
    ),
    "trigger_cron": Example(answer=of.TRIGGERED),
    "list_runs": Example(
        query={"from": "2026-11-22T00:00:00Z", "to": "2026-11-23T00:00:00Z", "limit": "100"},
        answer=of.page(of.PLANNED_RUN),
    ),
    "preview_cron": Example(
        request={
            "expression": "0 0 9 L * ?",
            "dialect": "quartz",
            "timezone": "Europe/Berlin",
            "calendar": of.CALENDAR,
            "from": "2026-12-01T00:00:00Z",
            "count": 2,
        },
        answer={
            "expression": "0 0 9 L * ?",
            "dialect": "quartz",
            "also": [],
            "excluding": [],
            "calendar": of.CALENDAR,
            "rule": '{"any":["0 9 L * *"],"calendar":{"country":"DE","weekends":true,"on":"move-previous"}}',
            "timezone": "Europe/Berlin",
            "words": "at 09:00 on the last day of the month; "
            "moved from weekends and public holidays of DE to the previous working day",
            "next_fires": ["2026-12-31T08:00:00.000Z", "2027-01-29T08:00:00.000Z"],
        },
    ),
    "put_destination": Example(request=of.NEW_DESTINATION, answer=of.DESTINATION),
    "get_destination": Example(answer={**of.DESTINATION, "figures": of.FIGURES}),
    "list_destinations": Example(answer=of.page(of.DESTINATION)),
    "pause_destination": Example(answer={**of.DESTINATION, "paused_at": of.NOW, "revision": of.CREATED + 1}),
    "resume_destination": Example(answer={**of.DESTINATION, "revision": of.CREATED + 2}),
    "delete_destination": Example(query={"force": "false"}),
    "put_subscription": Example(request=of.NEW_SUBSCRIPTION, answer=of.SUBSCRIPTION),
    "get_subscription": Example(answer=of.SUBSCRIPTION),
    "list_subscriptions": Example(answer=of.page(of.SUBSCRIPTION)),
    "delete_subscription": Example(),
    "put_client": Example(
        request={"poller_quota": 3, "settings": {"retry": {"max_attempts": 20}, "horizon_days": 365}},
        answer=of.NEW_CLIENT,
    ),
    "list_clients": Example(answer=of.page(of.CLIENT)),
    "get_client": Example(answer=of.CLIENT),
    "delete_client": Example(),
    "suspend_client": Example(answer={**of.CLIENT, "state": "suspended", "revision": 2}),
    "resume_client": Example(answer={**of.CLIENT, "revision": 3}),
    "change_settings": Example(
        request={"timeout_seconds": 5, "in_doubt": "drop"},
        answer={
            **of.CLIENT,
            "settings": {**of.CLIENT["settings"], "timeout_seconds": 5.0, "in_doubt": "drop"},
            "stored_settings": {**of.CLIENT["stored_settings"], "timeout_seconds": 5.0, "in_doubt": "drop"},
            "revision": 2,
        },
    ),
    "pause_client": Example(answer={**of.CLIENT, "paused": True, "revision": 2}),
    "unpause_client": Example(answer={**of.CLIENT, "revision": 3}),
    "create_key": Example(
        request={"scope": "write", "name": "web shop", "expires_at": "2027-11-21T09:30:00Z"}, answer=of.NEW_KEY
    ),
    "list_keys": Example(answer=of.page(of.KEY_SHOWN)),
    "revoke_key": Example(),
    "acknowledge": Example(
        request={"result": "done", "data": {"rows": 4812}},
        answer={"schedule_id": of.SCHEDULE_ID, "state": "awaiting", "deadline": None},
    ),
    "create_secret": Example(request={"scheme": "v1a"}, answer=of.NEW_KEY_PAIR),
    "list_secrets": Example(answer=of.page(of.SECRET_SHOWN)),
    "list_public_keys": Example(answer=of.page(of.PUBLIC_KEY)),
    "delete_secret": Example(),
    "create_admin_key": Example(
        request={"name": "ops"}, answer={"key_id": of.KEY_ID, "name": "ops", "key": of.KEY, "created_at": of.NOW}
    ),
    "list_admin_keys": Example(
        answer=of.page({"key_id": of.KEY_ID, "name": "ops", "created_at": of.NOW, "revoked_at": None})
    ),
    "revoke_admin_key": Example(),
    "list_audit_log": Example(query=of.AUDITED, answer=of.page(of.AUDIT_ENTRY)),
    "list_client_audit_log": Example(query=of.AUDITED, answer=of.page(of.AUDIT_ENTRY)),
    "get_cluster": Example(
        answer={
            "nodes": [of.NODE],
            "pollers": {"total": 3, "owned": 0},
            "guaranteed_calls_per_minute": 3000,
            "capacity_per_minute": 5000,
            "not_calling": None,
        }
    ),
    "get_cluster_calls": Example(
        answer={
            "per_second": 0.0,
            "late": [{"part": part, "seconds": None} for part in (0.5, 0.9, 0.99, 1.0)],
            "delivered": 0,
            "failed": 0,
            "clients": [],
            "nodes_not_answering": [],
        }
    ),
    "get_forecast": Example(query=of.FORESEEN, answer=of.FORECAST),
    "get_cluster_forecast": Example(query=of.FORESEEN, answer=of.FORECAST),
    "get_backlog": Example(answer=of.BACKLOG),
    "get_cluster_backlog": Example(
        query={"limit": "20"},
        answer={"overdue": of.OVERDUE, "clients": 1, "drain_seconds": None, "items": [of.BACKLOG], "next_cursor": None},
    ),
    "list_reconciliations_under_way": Example(
        query={"limit": "20"}, answer={"items": [of.RECONCILIATION], "left_out": 0, "next_cursor": None}
    ),
    "list_latest_audits": Example(
        query={"limit": "20"},
        answer={
            "items": [of.LATEST_AUDIT],
            "clients": 1,
            "clients_unaudited": 0,
            "clients_left_out": 0,
            "findings_standing": None,
            "next_cursor": None,
        },
    ),
    "get_overdue_rate": Example(answer={"overdue_per_second": None}),
    "put_overdue_rate": Example(request={"overdue_per_second": 50.0}, answer={"overdue_per_second": 50.0}),
    "delete_overdue_rate": Example(),
    "drain_node": Example(answer={"node_id": "node-a", "incarnation": 7, "state": "draining"}),
    "undrain_node": Example(answer={"node_id": "node-a", "incarnation": 7, "state": "live"}),
    "list_pollers": Example(
        answer=of.page(
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
        answer="# HELP minutehand_api_requests_total Requests answered, by method, route template and status.\n",
        partial=True,
    ),
    "get_openapi": Example(
        answer={"openapi": "3.1.1", "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema"}, partial=True
    ),
    "get_llms": Example(answer="# Minutehand\n\n> HTTP calls at the instants that you choose", partial=True),
    "get_docs": Example(answer="<!doctype html>\n", partial=True),
    "get_problem": Example(answer="Invalid request\n\nHTTP status 422. `errors` lists the faults", partial=True),
}
