"""An API that gives scripted answers, for tests of the SDK and of commands."""

import json
from typing import Any

import httpx

from minutehand.client import AsyncMinutehand, Minutehand

SCHEDULE = {
    "schedule_id": "01a1fe8c-0f8a-8000-8c91-89a08db81829",
    "client_id": "shop",
    "poller_id": 3,
    "minute": "2026-11-21T09:30:00.000Z",
    "due": "2026-11-21T09:30:15.250Z",
    "state": "scheduled",
    "in_flight": False,
    "attempts": 0,
    "callback": {"url": "https://a.example/", "method": "POST", "headers": {}, "body": ""},
    "created_at": "2026-11-21T09:00:00.000Z",
    "a_field_of_a_later_version": {"x": 1},
}
DESTINATION = {
    "name": "warehouse",
    "client_id": "shop",
    "url": "https://warehouse.example/hooks",
    "method": "POST",
    "headers": {"authorization": "***"},
    "timeout_seconds": None,
    "retry": None,
    "max_per_second": 20.0,
    "max_in_flight": None,
    "certificate": {"subject": "CN=shop", "expires_at": "2027-11-21T09:30:00.000Z"},
    "token": None,
    "proxy": None,
    "cloudevents": None,
    "paused_at": None,
    "revision": 7,
    "created_at": "2026-11-21T09:30:00.000Z",
    "changed_at": "2026-11-21T09:30:00.000Z",
    "figures": None,
}
SUBSCRIPTION = {
    "name": "failures",
    "client_id": "shop",
    "destination": "warehouse",
    "events": ["schedule.failed"],
    "filter": {"label": "orders", "key_prefix": None, "cron_id": None, "destination": None},
    "enabled": True,
    "revision": 7,
    "created_at": "2026-11-21T09:30:00.000Z",
    "changed_at": "2026-11-21T09:30:00.000Z",
}
DESTINATION_FIGURES = {
    "calls": 12,
    "failures": 1,
    "answer_p50_seconds": 0.02,
    "answer_p99_seconds": 0.2,
    "in_flight": 0,
    "waiting": 3,
    "deferred": 0,
    "token_failures": 2,
    "breaker": "half-open",
    "silent_nodes": 0,
}
CRON = {
    "cron_id": "nightly",
    "client_id": "shop",
    "state": "active",
    "revision": 3,
    "expression": "30 2 * * *",
    "timezone": "Europe/Berlin",
    "words": "at 02:30 every day",
    "next_fires": ["2026-11-22T01:30:00.000Z", "2026-11-23T01:30:00.000Z"],
    "callback": {"url": "https://a.example/", "method": "POST", "headers": {}, "body": ""},
    "starts_at": None,
    "ends_at": "2027-01-01T00:00:00.000Z",
    "max_fires": 10,
    "spread_seconds": 0,
    "catch_up_seconds": 3600.0,
    "overlap": "allow",
    "dst": {"gap": "shift", "fold": "first"},
    "retry": {"max_attempts": 3},
    "timeout_seconds": None,
    "label": "l",
    "created_at": "2026-11-21T09:00:00.000Z",
    "changed_at": "2026-11-21T09:10:00.000Z",
    "a_field_of_a_later_version": {"x": 1},
}
CRON_CHANGE = {"cron_id": "nightly", "status": 200, "state": "active", "changed": True, "revision": None}
BACKFILLED = {
    "nominal_due": "2026-11-20T01:30:00.000Z",
    "status": 202,
    "schedule_id": "01a1fe8c-0f8a-8000-8c91-89a08db81829",
    "due": "2026-11-21T09:30:00.120Z",
    "state": "retrying",
    "reason": None,
}
RUN = {
    "nominal_due": "2026-11-21T01:30:00.000Z",
    "due": "2026-11-21T01:30:07.250Z",
    "schedule_id": "01a1fe8c-0f8a-8000-8c91-89a08db81829",
    "state": "failed",
    "attempts": 3,
    "last_status": 503,
    "last_error": None,
    "finished_at": "2026-11-21T01:31:00.000Z",
    "reason": "exhausted",
    "triggered": False,
}
ATTEMPT = {
    "attempt": 2,
    "outcome": "failed",
    "started_at": "2026-11-21T09:30:15.250Z",
    "finished_at": "2026-11-21T09:30:15.262Z",
    "duration_seconds": 0.012,
    "status": 503,
    "error": None,
    "excerpt": "try later",
}
STORY = {
    "sentence": "It was late by 5 s because the limits of its flow key were reached; that attempt delivered it.",
    "verdict": "late",
    "late_seconds": 5.0,
    "cause": "flow",
    "steps": [
        {
            "step": "waited",
            "at": "2026-11-21T09:30:15.250Z",
            "seconds": 4.9,
            "text": "It waited 4.9 s because the limits of its flow key were reached.",
            "cause": "flow",
            "behind": None,
        }
    ],
}
LETTER = {
    "schedule_id": "01a1fe8c-0f8a-8000-8c91-89a08db81829",
    "failed_at": "2026-11-21T09:31:00.000Z",
    "reason": "exhausted",
    "last_status": 503,
    "last_error": None,
    "attempts": 3,
    "state": "failed",
    "label": None,
}
RECONCILIATION = {
    "reconciliation_id": "019aa5c8-1bc0-7a4e-9c1d-5b7e2f90a364",
    "client_id": "shop",
    "action": "redeliver",
    "from": "2026-11-21T09:00:00.000Z",
    "to": "2026-11-21T10:00:00.000Z",
    "states": ["failed"],
    "state": "running",
    "progress": {"minutes_done": 3, "minutes_total": 60, "through": "2026-11-21T09:03:00.000Z"},
    "seen": {"failed": 8},
    "outcomes": {"redelivered": 7, "gone": 1},
    "created_at": "2026-11-21T09:30:00.000Z",
    "created_by": "shop",
    "updated_at": "2026-11-21T09:31:00.000Z",
    "a_field_of_a_later_version": {"x": 1},
}
RECONCILED = {
    "schedule_id": "01a1fe8c-0f8a-8000-8c91-89a08db81829",
    "due": "2026-11-21T09:00:00.000Z",
    "outcome": "open",
    "reason": "retrying",
}
PREVIEW = {
    "expression": "0 9 * * 1-5",
    "timezone": "UTC",
    "words": "at 09:00 on Monday to Friday",
    "next_fires": ["2026-11-23T09:00:00.000Z"],
}
PROBLEM = {
    "type": "/problems/invalid",
    "title": "Invalid request",
    "status": 422,
    "detail": "2 faults were found",
    "request_id": "abc",
    "errors": [{"pointer": "/due", "detail": "is required"}, {"pointer": "", "detail": "is odd"}],
}

EXCHANGE: dict[str, Any] = {
    "schedule_id": "01a1fe8c-0000-8000-8000-000000000000",
    "delivered": True,
    "sent": True,
    "started_at": "2026-11-21T09:30:15.250Z",
    "request": {
        "url": "https://a.example/",
        "method": "POST",
        "headers": {"webhook-id": "01a1fe8c-0000-8000-8000-000000000000", "Minutehand-Trial": "true"},
        "body": '{"a": 1}',
    },
    "addresses": ["203.0.113.7:443"],
    "connected_to": "203.0.113.7:443",
    "times": {"resolved_seconds": 0.004, "connected_seconds": 0.012, "secured_seconds": None, "ended_seconds": 0.05},
    "status": 204,
    "http_version": "2",
    "response_headers": {},
    "excerpt": "",
    "error": None,
    "detail": None,
    "a_field_of_a_later_version": 1,
}


class ScriptedRuntime:
    """A runtime whose time moves by pauses only, which it records. `chance` is the value of every draw, `leapt` by how
    much the wall clock was set.
    """

    def __init__(self, *, chance: float = 1.0) -> None:
        self.now = 1_000.0
        self.chance = chance
        self.pauses: list[float] = []
        self.keys = self.nonces = 0
        self.leapt = 0.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now + self.leapt

    def fraction(self) -> float:
        return self.chance

    def new_key(self) -> str:
        self.keys += 1
        return f"key-{self.keys}"

    def nonce(self) -> str:
        self.nonces += 1
        return f"nonce-{self.nonces:010d}"

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    async def sleep_async(self, seconds: float) -> None:
        self.sleep(seconds)


class Script:
    """Gives one answer or failure after the other, and records the requests."""

    def __init__(self, *answers: httpx.Response | httpx.TransportError) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, httpx.TransportError):
            raise answer
        return answer

    def api(self, *, retries: int = 0, **settings: Any) -> Minutehand:
        transport = httpx.MockTransport(self)
        return Minutehand("http://api.test", "the-key", transport=transport, retries=retries, **settings)

    def async_api(self, *, retries: int = 0, **settings: Any) -> AsyncMinutehand:
        transport = httpx.MockTransport(self)
        return AsyncMinutehand("http://api.test", "the-key", transport=transport, retries=retries, **settings)

    def sent(self, index: int = 0) -> Any:
        return json.loads(self.requests[index].content)


def problem(status: int, body: Any = PROBLEM, **headers: str) -> httpx.Response:
    return httpx.Response(
        status, content=json.dumps(body), headers={"Content-Type": "application/problem+json", **headers}
    )
