"""Trial calls: one callback without a schedule, sent now; the answer shows the whole exchange."""

import math
from uuid import UUID

import msgspec
from aiohttp import web

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.decoding import Body
from scheduler_service.api.http.route import CREATES, RequestContext, Route, json_response
from scheduler_service.api.problems import Refusal
from scheduler_service.api.resources.schedule_views import masked, request_view
from scheduler_service.api.schemas import CallbackView, Instant
from scheduler_service.domain.clients import Scope
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.trial_calls import Exchange, TooManyTrialCalls, TrialCallTimes
from scheduler_service.usecases.trial_call import TrialCallRequest

_TRIAL_CALL = Body(TrialCallRequest)


class TrialCallTimesView(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds from the start until the name was resolved, the connection was open, TLS was established, the first byte
    of the answer arrived, and the exchange ended. Null: that was not reached, or not needed."""

    resolved_seconds: float | None
    connected_seconds: float | None
    secured_seconds: float | None
    first_byte_seconds: float | None
    ended_seconds: float


class ExchangeView(msgspec.Struct, frozen=True, kw_only=True):
    """A trial call and the receiver's answer.

    `delivered`: this answer would count as delivered. `schedule_id` is the id that the receiver got; it names no
    schedule. `request` is what was sent, or with `sent` false would have been. `addresses` are those to which a
    connection was tried, in order; `connected_to` is the one that accepted it. Without `status`, `error` is a stable
    word for the cause and `detail` a sentence; a call delivered to a topic has neither. `excerpt` is the beginning of
    the answer; repeated headers are joined by commas. `verb` is what its headers ask for, and `verb_ignored` why a
    schedule would not obey."""

    schedule_id: UUID
    delivered: bool
    sent: bool
    started_at: Instant
    request: CallbackView
    addresses: list[str]
    connected_to: str | None
    times: TrialCallTimesView
    status: int | None
    http_version: str | None
    response_headers: dict[str, str]
    excerpt: str
    error: str | None
    detail: str | None
    verb: str | None
    verb_ignored: str | None


def exchange_view(schedule_id: UUID, exchange: Exchange) -> ExchangeView:
    return ExchangeView(
        schedule_id=schedule_id,
        delivered=exchange.delivered,
        sent=exchange.sent,
        started_at=format_instant(exchange.started_at),
        request=request_view(exchange),
        addresses=list(exchange.addresses),
        connected_to=exchange.connected_to,
        times=_times(exchange.times),
        status=exchange.status,
        http_version=exchange.http_version,
        response_headers=masked(exchange.response_headers),
        excerpt=exchange.excerpt,
        error=exchange.error,
        detail=exchange.detail or None,
        verb=exchange.verb,
        verb_ignored=exchange.verb_ignored,
    )


def _times(times: TrialCallTimes) -> TrialCallTimesView:
    def rounded(seconds: float | None) -> float | None:
        return None if seconds is None else round(seconds, 6)

    return TrialCallTimesView(
        resolved_seconds=rounded(times.resolved),
        connected_seconds=rounded(times.connected),
        secured_seconds=rounded(times.secured),
        first_byte_seconds=rounded(times.first_byte),
        ended_seconds=round(times.ended, 6),
    )


async def trial_call(context: RequestContext) -> web.Response:
    client, send_trial_call = context.client, context.services.send_trial_call
    send_trial_call.admit(client)
    request = await context.body(_TRIAL_CALL, lambda wrong: send_trial_call.faults(client, wrong))
    trial_call = await send_trial_call.draw(client, request)
    context.deadline.disarm()  # a trial call may take as long as the client's calls may
    try:
        exchange = await send_trial_call.send(trial_call)
    except TooManyTrialCalls as error:
        seconds = max(math.ceil(error.retry_after_seconds), 1)
        raise Refusal("too-many-trial-calls", str(error), headers={"Retry-After": str(seconds)}) from None
    context.log("trial-call-sent", client_id=client.client_id, schedule_id=str(trial_call.definition.schedule_id))
    return json_response(exchange_view(trial_call.definition.schedule_id, exchange))


ROUTES = (
    Route(
        method="POST",
        path="/v1/clients/{client_id}/callbacks:try",
        access=Access.CLIENT,
        scope=Scope.WRITE,
        handler=trial_call,
        summary="Send one signed trial call now, even while the client is paused, and see the whole exchange; nothing "
        "of it is stored",
        request=TrialCallRequest,
        response=ExchangeView,
        problems=(*CREATES, "too-many-trial-calls", "secret-locked"),
    ),
)
