"""What is stored, as it is shown."""

from typing import Final

from scheduler_service.api.schemas import (
    AdminKeyView,
    CallbackView,
    ClientView,
    KeyView,
    NewAdminKeyView,
    NewKeyView,
    NewSecretView,
    ScheduleView,
    SecretView,
)
from scheduler_service.domain.client_bounds import ClientBounds
from scheduler_service.domain.clients import GUARANTEED_CALLS_PER_MINUTE, ApiKey, Client, SigningSecret
from scheduler_service.domain.crons.row import CronCallback
from scheduler_service.domain.errors import SecretLocked
from scheduler_service.domain.ids import ClientId, poller_of
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.options import NO_OPTIONS, ScheduleOptions, Undecodable, decode_headers, decode_options
from scheduler_service.domain.ports import SecretBox
from scheduler_service.domain.schedules import Definition, Row, State
from scheduler_service.usecases.keys import NewKey
from scheduler_service.usecases.signing_secrets import NewSecret

MASKED_HEADERS: Final = frozenset({"authorization", "cookie", "proxy-authorization", "set-cookie"})
MASK: Final = "***"
_SCHEDULED: Final = State.SCHEDULED.value
_TO_SECONDS: Final = len("2026-11-21T09:30:")


def client_view(client: Client, bounds: ClientBounds) -> ClientView:
    return ClientView(
        client_id=client.client_id,
        poller_quota=client.poller_quota,
        poller_ceiling=client.poller_ceiling,
        guaranteed_calls_per_minute=client.poller_quota * GUARANTEED_CALLS_PER_MINUTE,
        state=client.state.value,
        settings=bounds.effective(client),
        stored_settings=client.settings,
        revision=client.revision,
        created_at=format_instant(client.created_at),
    )


def key_view(key: ApiKey) -> KeyView:
    return KeyView(key_id=key.key_id, created_at=format_instant(key.created_at), revoked_at=_instant(key.revoked_at))


def new_key_view(new: NewKey) -> NewKeyView:
    return NewKeyView(key_id=new.key.key_id, key=new.text, created_at=format_instant(new.key.created_at))


def admin_key_view(key: ApiKey) -> AdminKeyView:
    return AdminKeyView(
        key_id=key.key_id,
        name=key.owner,
        created_at=format_instant(key.created_at),
        revoked_at=_instant(key.revoked_at),
    )


def new_admin_key_view(new: NewKey) -> NewAdminKeyView:
    return NewAdminKeyView(
        key_id=new.key.key_id, name=new.key.owner, key=new.text, created_at=format_instant(new.key.created_at)
    )


def secret_view(secret: SigningSecret) -> SecretView:
    return SecretView(
        secret_id=secret.secret_id,
        created_at=format_instant(secret.created_at),
        expires_at=_instant(secret.expires_at),
    )


def new_secret_view(new: NewSecret) -> NewSecretView:
    return NewSecretView(
        secret_id=new.secret.secret_id, secret=new.text, created_at=format_instant(new.secret.created_at)
    )


def created_schedule_view(definition: Definition, box: SecretBox) -> ScheduleView:
    """A schedule that was stored a moment ago."""
    return _schedule_view(definition.client_id, definition, box, outcome=None, in_flight=False)


def schedule_view(client_id: ClientId, row: Row, box: SecretBox, *, in_flight: bool) -> ScheduleView:
    """An original row, defined."""
    return _schedule_view(client_id, row, box, outcome=row if row.state is not None else None, in_flight=in_flight)


def _schedule_view(
    client_id: ClientId, source: Definition | Row, box: SecretBox, *, outcome: Row | None, in_flight: bool
) -> ScheduleView:
    due = format_instant(source.due)
    options = _options(source.options)
    state = _SCHEDULED if outcome is None or outcome.state is None else outcome.state
    next_attempt_at = _instant(outcome.next_attempt_at) if outcome is not None else due
    return ScheduleView(
        schedule_id=source.schedule_id,
        client_id=client_id,
        poller_id=poller_of(source.schedule_id),
        minute=f"{due[:_TO_SECONDS]}00.000Z",
        due=due,
        state=state,
        in_flight=in_flight,
        attempts=(outcome.attempts or 0) if outcome is not None else 0,
        next_attempt_at=next_attempt_at,
        first_attempt_at=_instant(outcome.first_attempt_at) if outcome is not None else None,
        finished_at=_instant(outcome.finished_at) if outcome is not None else None,
        last_status=outcome.last_status if outcome is not None else None,
        last_error=outcome.last_error if outcome is not None else None,
        reason=outcome.reason if outcome is not None else None,
        callback=callback_view(client_id, source, box),
        label=source.label,
        ordering_key=source.ordering_key,
        retry=options.retry,
        timeout_seconds=options.timeout_seconds,
        skip_after_seconds=options.skip_after_seconds,
        cron_id=source.cron_id,
        rescheduled_from=source.rescheduled_from,
        rescheduled_to=outcome.rescheduled_to if outcome is not None else None,
        redelivered_at=_instant(outcome.redelivered_at) if outcome is not None else None,
        created_at=format_instant(source.created_at or 0),
    )


def callback_view(client_id: ClientId, source: Definition | Row | CronCallback, box: SecretBox) -> CallbackView:
    """A callback as it is stored, its credentials masked."""
    body = source.body or b""
    try:
        sent = decode_headers(box.open_headers(client_id, source.headers or ""))
        headers: dict[str, str] | None = (
            {name: MASK if name.lower() in MASKED_HEADERS else value for name, value in sent} if sent else {}
        )
    except SecretLocked:
        headers = None
    except Undecodable:
        # Of content that can't be read the body is all of it, credentials among it.
        headers, body = None, b""
    url, method = source.url or "", source.method or ""
    try:
        return CallbackView(url=url, method=method, headers=headers, body=body.decode())
    except UnicodeDecodeError:
        return CallbackView(url=url, method=method, headers=headers, body_base64=body)


def _options(text: str | None) -> ScheduleOptions:
    try:
        return decode_options(text)
    except Undecodable:
        return NO_OPTIONS


def _instant(value: int | None) -> str | None:
    return None if value is None else format_instant(value)
