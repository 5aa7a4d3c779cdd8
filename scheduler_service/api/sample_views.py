"""The exchange of a sample, as it is shown. What carries credentials is masked, in both directions."""

from collections.abc import Iterable
from uuid import UUID

import msgspec

from scheduler_service.api.resources.schedule_views import MASK, MASKED_HEADERS
from scheduler_service.api.schemas import CallbackView, Instant
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.samples import Exchange, SampleTimes


class SampleTimesView(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds from the start until the name was resolved, the connection stood, TLS was agreed upon, the first byte of
    the answer came, and all was over. Null: it did not come to that, or was not needed."""

    resolved_seconds: float | None
    connected_seconds: float | None
    secured_seconds: float | None
    first_byte_seconds: float | None
    ended_seconds: float


class ExchangeView(msgspec.Struct, frozen=True, kw_only=True):
    """A sample and what the receiver made of it.

    `delivered`: a schedule with this answer would be. `schedule_id` is what the receiver was told; it names no
    schedule. `request` is what was written, or with `sent` false what was to be. `addresses` are those that a
    connection was tried to, in order, and `connected_to` the one that took it. Without `status`, `error` is a stable
    word for why and `detail` says it in words. `excerpt` is the beginning of the answer; headers that came more than
    once are joined by a comma."""

    schedule_id: UUID
    delivered: bool
    sent: bool
    started_at: Instant
    request: CallbackView
    addresses: list[str]
    connected_to: str | None
    times: SampleTimesView
    status: int | None
    http_version: str | None
    response_headers: dict[str, str]
    excerpt: str
    error: str | None
    detail: str | None


def exchange_view(schedule_id: UUID, exchange: Exchange) -> ExchangeView:
    return ExchangeView(
        schedule_id=schedule_id,
        delivered=exchange.delivered,
        sent=exchange.sent,
        started_at=format_instant(exchange.started_at),
        request=_request(exchange),
        addresses=list(exchange.addresses),
        connected_to=exchange.connected_to,
        times=_times(exchange.times),
        status=exchange.status,
        http_version=exchange.http_version,
        response_headers=_masked(exchange.response_headers),
        excerpt=exchange.excerpt,
        error=exchange.error,
        detail=exchange.detail or None,
    )


def _request(exchange: Exchange) -> CallbackView:
    headers = _masked(exchange.headers)
    try:
        return CallbackView(url=exchange.url, method=exchange.method, headers=headers, body=exchange.body.decode())
    except UnicodeDecodeError:
        return CallbackView(url=exchange.url, method=exchange.method, headers=headers, body_base64=exchange.body)


def _masked(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    shown: dict[str, str] = {}
    for name, value in headers:
        if name.lower() in MASKED_HEADERS:
            shown[name] = MASK
        else:
            shown[name] = f"{shown[name]}, {value}" if name in shown else value
    return shown


def _times(times: SampleTimes) -> SampleTimesView:
    def rounded(seconds: float | None) -> float | None:
        return None if seconds is None else round(seconds, 6)

    return SampleTimesView(
        resolved_seconds=rounded(times.resolved),
        connected_seconds=rounded(times.connected),
        secured_seconds=rounded(times.secured),
        first_byte_seconds=rounded(times.first_byte),
        ended_seconds=round(times.ended, 6),
    )
