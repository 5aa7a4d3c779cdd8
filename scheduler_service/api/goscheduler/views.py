"""Schedules, crons and apps as GoScheduler shows them. Pure.

Times are Unix seconds. Fields that GoScheduler leaves out when they are empty are left out. Credentials among the
headers are masked, as everywhere: the ones who create are not the only ones who look.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from msgspec import UNSET

from scheduler_service.api.goscheduler.requests import CONFIGURATION, AskedSchedule
from scheduler_service.api.goscheduler.statuses import status_of, status_of_cron
from scheduler_service.api.resources.schedule_views import callback_view
from scheduler_service.domain.clients import Client, ClientSettings, ClientState
from scheduler_service.domain.crons.row import Cron, CronOptions
from scheduler_service.domain.ids import ClientId, poller_of
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.options import NO_OPTIONS
from scheduler_service.domain.ports import SecretEncryption
from scheduler_service.domain.schedules import Definition, Row, State

_MINUTE: Final = 60
_MAX_MESSAGE: Final = 200
_DEFAULTS: Final = ClientSettings()
_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}
View = dict[str, object]


def created_view(asked: AskedSchedule, made: Definition) -> View:
    """A schedule that was just created, with the callback as its caller wrote it, and without a status."""
    return _view(asked.app_id, made, payload=asked.payload, callback=_asked_callback(asked))


def created_cron_view(asked: AskedSchedule, cron: Cron) -> View:
    return _cron_view(asked.app_id, cron, payload=asked.payload, callback=_asked_callback(asked))


def schedule_view(
    app_id: str, client_id: ClientId, row: Row, encryption: SecretEncryption, *, payload: str = ""
) -> View:
    """A row that has its definition. `payload`: of one that was read without its body."""
    shown = callback_view(client_id, row, encryption, NO_OPTIONS)
    view = _view(
        app_id,
        row,
        payload=(row.body or b"").decode(errors="replace") or payload,
        callback=_callback(
            _text(shown.url) or row.url or "", _text(shown.method) or row.method or "", shown.headers or {}
        ),
    )
    status = status_of(row.state)
    if status is not None:
        view["status"] = status
    if (message := _message(row)) is not None:
        view["errorMessage"] = message
    if row.redelivered_at is not None and row.finished_at is not None and status is not None:
        day, _, time = format_instant(row.finished_at).partition("T")
        entry = {"status": status, "errorMessage": message or "", "callbackOn": f"{day} {time[:8]}"}
        view["reconciliationHistory"] = [{name: value for name, value in entry.items() if value}]
    return view


def cron_view(app_id: str, cron: Cron, encryption: SecretEncryption) -> View:
    shown = callback_view(cron.client_id, cron.callback, encryption, CronOptions())
    callback = _callback(_text(shown.url), _text(shown.method), shown.headers or {})
    return _cron_view(app_id, cron, payload=payload_of(cron), callback=callback)


def payload_of(cron: Cron) -> str:
    """The payload of a cron, and of its runs; a deleted one has none any more."""
    return cron.callback.body.decode(errors="replace")


def app_view(app_id: str, client: Client) -> View:
    return {
        "appId": app_id,
        "partitions": client.poller_quota,
        "active": client.state is ClientState.ACTIVE,
        "configuration": _configuration(client.settings),
    }


def _view(app_id: str, source: Definition | Row, *, payload: str, callback: View) -> View:
    seconds = (source.due if source.nominal_due is None else source.nominal_due) // 1000
    return {
        "scheduleId": str(source.schedule_id),
        "payload": payload,
        "appId": app_id,
        "scheduleTime": seconds,
        "partitionId": poller_of(source.schedule_id),
        "scheduleGroup": seconds // _MINUTE * _MINUTE,
        "callback": callback,
    }


def _cron_view(app_id: str, cron: Cron, *, payload: str, callback: View) -> View:
    return {
        "scheduleId": cron.cron_id,
        "payload": payload,
        "appId": app_id,
        "partitionId": cron.poller_id,
        "callback": callback,
        "cronExpression": cron.expression if cron.options.source is None else cron.options.source.expression,
        "status": status_of_cron(cron.state),
    }


def _asked_callback(asked: AskedSchedule) -> View:
    assert asked.callback is not None
    return _callback(asked.callback.url, asked.callback.method, asked.callback.headers)


def _callback(url: str, method: str, headers: Mapping[str, str]) -> View:
    return {"type": "http", "details": {"url": url, "method": method, "headers": dict(sorted(headers.items()))}}


def _text(value: object) -> str:
    return "" if value is UNSET else str(value)


def _message(row: Row) -> str | None:
    """Why it failed, or is tried again: a status as HTTP names it, or a word."""
    if row.state is None or row.state == State.DELIVERED:
        return None
    if row.last_status is not None:
        return f"{row.last_status} {_PHRASES.get(row.last_status, '')}".rstrip()
    return (row.last_error or row.reason or "")[:_MAX_MESSAGE] or None


def _configuration(settings: ClientSettings) -> View:
    """What differs from the defaults."""
    values = {
        "horizon_days": settings.horizon_days,
        "retention_days": settings.retention_days,
        "payload_bytes": settings.payload_bytes,
        "retry": settings.retry.max_attempts,
        "timeout_seconds": round(settings.timeout_seconds * 1000),
    }
    return {
        CONFIGURATION[name]: value
        for name, value in values.items()
        if getattr(settings, name) != getattr(_DEFAULTS, name)
    }
