"""Requests of GoScheduler's callers as ours. Pure.

    appId, partitions, active, configuration      a client, its quota and settings
    payload, callback.details, scheduleTime       a schedule, due at that second
    ... with cronExpression instead               a cron, read in GoScheduler's dialect

Where GoScheduler drops the connection because there is no callback, or takes callbacks of types that programs register
with it, the request is refused. Every other rule is ours (`usecases.schedule_request`); faults are named as the caller
has written the fields.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import msgspec

from scheduler_service.api.goscheduler.go_json import UINT32, Unreadable, read_object
from scheduler_service.domain.client_bounds import ClientBounds
from scheduler_service.domain.clients import Client, ClientSettings
from scheduler_service.domain.errors import FieldError
from scheduler_service.domain.ids import DAY_MS
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.wires import GOSCHEDULER
from scheduler_service.usecases.cron_request import CronRequest
from scheduler_service.usecases.rule_request import DstRequest
from scheduler_service.usecases.schedule_request import CallbackRequest, ScheduleRequest

CALLBACK_TYPE: Final = "http"
LEAST_TIMEOUT_MS: Final = 100
_LEFT_OUT: Final = frozenset(
    {"connection", "content-length", "host", "keep-alive", "trailer", "transfer-encoding", "user-agent"}
)
"""Headers that Go's client sets itself, or that are ours: a callback that names them is called without."""
_FIELDS: Final[Mapping[str, str]] = {
    "/due": "/scheduleTime",
    "/delay_seconds": "/scheduleTime",
    "/expression": "/cronExpression",
    "/callback/url": "/callback/details/url",
    "/callback/method": "/callback/details/method",
    "/callback/body": "/payload",
}
_HEADERS: Final = "/callback/headers"


class GoSchedulerCallback(CallbackRequest, frozen=True, forbid_unknown_fields=True, kw_only=True, gc=False):
    """A callback that came by this wire."""

    wire: ClassVar[str | None] = GOSCHEDULER


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedCallback:
    """`details` of a callback. `headers` as the caller has written them."""

    url: str
    method: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedSchedule:
    """The body of a create. `schedule_time` in Unix seconds; a cron has a `cron_expression` instead. Without a
    `callback` there is a fault."""

    app_id: str
    payload: str
    schedule_time: int
    cron_expression: str
    callback: AskedCallback | None
    faults: tuple[FieldError, ...]

    @property
    def recurring(self) -> bool:
        return bool(self.cron_expression)

    def sent(self) -> GoSchedulerCallback:
        """The callback that is stored."""
        callback = self.callback or AskedCallback(url="", method="", headers={})
        headers = {
            name: value.strip(" \t") for name, value in callback.headers.items() if name.lower() not in _LEFT_OUT
        }
        return GoSchedulerCallback(url=callback.url, method=callback.method or None, headers=headers, body=self.payload)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedApp:
    """The body of a registration. Numbers of 0 are left out."""

    app_id: str
    partitions: int
    active: bool
    future_days: int
    fired_days: int
    payload_bytes: int
    http_retries: int
    http_timeout_ms: int

    def over(self, settings: ClientSettings) -> ClientSettings:
        """A client's settings with those that are given."""
        asked: dict[str, object] = {
            "horizon_days": self.future_days,
            "retention_days": self.fired_days,
            "payload_bytes": self.payload_bytes,
            "timeout_seconds": self.http_timeout_ms / 1000,
        }
        if self.http_retries:
            asked["retry"] = msgspec.structs.replace(settings.retry, max_attempts=self.http_retries)
        return msgspec.structs.replace(settings, **{name: value for name, value in asked.items() if value})


CONFIGURATION: Final[Mapping[str, str]] = {
    "horizon_days": "futureScheduleCreationPeriod",
    "retention_days": "firedScheduleRetentionPeriod",
    "payload_bytes": "payloadSize",
    "retry": "httpRetries",
    "timeout_seconds": "httpTimeout",
}
"""Settings, and what they are called in an app's configuration."""


def settings_faults(asked: AskedApp, *, bounds: ClientBounds, most: int) -> list[FieldError]:
    """What the operator's bounds refuse. `most`: partitions."""
    given = [
        ("/partitions", asked.partitions, most),
        ("/configuration/futureScheduleCreationPeriod", asked.future_days, bounds.horizon_days),
        ("/configuration/firedScheduleRetentionPeriod", asked.fired_days, bounds.retention_days),
        ("/configuration/payloadSize", asked.payload_bytes, bounds.payload_bytes),
        ("/configuration/httpRetries", asked.http_retries, bounds.retry_max_attempts),
        ("/configuration/httpTimeout", asked.http_timeout_ms, round(bounds.timeout_seconds * 1000)),
    ]
    faults = [
        FieldError(pointer, f"must be from 0 to {bound}, by the operator's configuration")
        for pointer, value, bound in given
        if not 0 <= value <= bound
    ]
    if 0 < asked.http_timeout_ms < LEAST_TIMEOUT_MS:
        faults.append(FieldError("/configuration/httpTimeout", f"must be at least {LEAST_TIMEOUT_MS}"))
    return faults


def read_schedule(data: bytes) -> AskedSchedule:
    """The body of a create. Raises Unreadable. Its `faults` are those that our own rules do not find."""
    body = read_object(data)
    callback = body.inner("callback")
    type_, details = callback.text("type"), callback.inner("details")
    url, method, headers = details.text("url"), details.text("method"), details.texts("headers")
    payload = body.text("payload")
    app_id, seconds, expression = body.text("appId"), body.integer("scheduleTime"), body.text("cronExpression")
    body.check()
    if body.has("callback") and type_ != CALLBACK_TYPE:
        raise Unreadable(f"unknown callback type: {type_[:128]}; only {CALLBACK_TYPE} is taken")
    faults = []
    if not payload:
        faults.append(FieldError("/payload", "is missing"))
    if not body.has("callback"):
        faults.append(FieldError("/callback", f"is missing: give one of type {CALLBACK_TYPE}, with its details"))
    elif not method:
        faults.append(FieldError("/callback/details/method", "is missing"))
    return AskedSchedule(
        app_id=app_id,
        payload=payload,
        schedule_time=seconds,
        cron_expression=expression,
        callback=AskedCallback(url=url, method=method, headers=headers) if body.has("callback") else None,
        faults=tuple(faults),
    )


def schedule_request(asked: AskedSchedule, client: Client, *, now: int) -> tuple[ScheduleRequest, list[FieldError]]:
    """The request of a one-time schedule made at `now` (Unix milliseconds), with faults beside those that it has by our
    rules."""
    faults, seconds = list(asked.faults), asked.schedule_time
    latest = now + client.settings.horizon_days * DAY_MS
    due: str | None = None
    if seconds < now // 1000:
        faults.append(FieldError("/scheduleTime", f"{seconds} is in the past; it is {now // 1000} now"))
    elif seconds * 1000 > latest:
        days = client.settings.horizon_days
        faults.append(FieldError("/scheduleTime", f"{seconds} is more than {days} days ahead; it is {now // 1000} now"))
    elif seconds * 1000 >= now:
        due = format_instant(seconds * 1000)
    # The present second has begun already.
    return ScheduleRequest(callback=asked.sent(), due=due, delay_seconds=0 if due is None else None), faults


def cron_request(asked: AskedSchedule, *, timezone: str) -> CronRequest:
    """The request of a cron. GoScheduler compares each minute with the local time: what a change of clocks skips does
    not fire, and what it repeats fires twice."""
    return CronRequest(
        expression=asked.cron_expression,
        dialect="goscheduler",
        timezone=timezone,
        dst=DstRequest(gap="skip", fold="both"),
        callback=asked.sent(),
    )


def as_written(asked: AskedSchedule, faults: Iterable[FieldError]) -> list[FieldError]:
    """Faults of our request, under the names of the caller's fields. Where the callback is missing, nothing is said of
    its parts."""
    return [
        FieldError(_named(fault.pointer), fault.detail)
        for fault in faults
        if asked.callback is not None or not fault.pointer.startswith("/callback/")
    ]


def _named(pointer: str) -> str:
    if pointer.startswith(_HEADERS):
        return "/callback/details/headers" + pointer.removeprefix(_HEADERS)
    return _FIELDS.get(pointer, pointer)


def read_app(data: bytes) -> AskedApp:
    """The body of a registration. Raises Unreadable."""
    body = read_object(data)
    configuration = body.inner("configuration")
    asked = AskedApp(
        app_id=body.text("appId"),
        partitions=body.integer("partitions", UINT32),
        active=body.flag("active"),
        future_days=configuration.integer("futureScheduleCreationPeriod"),
        fired_days=configuration.integer("firedScheduleRetentionPeriod"),
        payload_bytes=configuration.integer("payloadSize"),
        http_retries=configuration.integer("httpRetries"),
        http_timeout_ms=configuration.integer("httpTimeout"),
    )
    body.check()
    return asked
