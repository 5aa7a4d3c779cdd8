"""A receiver's word about a call that it took by 202: at a signed address, since receivers have no key of this API."""

from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.decoding import Body
from scheduler_service.api.http.route import RequestContext, Route, json_response
from scheduler_service.api.problems import Refusal
from scheduler_service.api.request_budget import RECEIVER, TOO_MANY
from scheduler_service.api.schemas import Instant, ScheduleStateName
from scheduler_service.domain.acknowledgements import (
    LONGEST_ACK_SECONDS,
    MAX_REASON,
    MAX_RESULT,
    PATH,
    WordName,
    read_token,
)
from scheduler_service.domain.errors import FieldError, Invalid, NotFound
from scheduler_service.domain.instants import format_instant_or_none
from scheduler_service.usecases.acknowledge import TooEarly, Word
from scheduler_service.usecases.authenticate import Principal

TOO_EARLY: Final = "too-early"
COST: Final = 3.0
MAX_TOKEN: Final = 1_000


class AckRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What became of the call. done: the schedule is delivered. failed: the attempt has failed, and is retried by
    policy. extend: more time is needed, `within_seconds` from now (as in the callback's `ack` unless given).
    `data` is any JSON, up to 64 KiB, and kept with the attempt."""

    result: WordName
    reason: Annotated[str, Meta(max_length=MAX_REASON)] | None = None
    within_seconds: Annotated[float, Meta(ge=1, le=LONGEST_ACK_SECONDS)] | None = None
    data: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class AckView(msgspec.Struct, frozen=True, kw_only=True):
    """The schedule that the word is about. `state`: awaiting until its node has recorded the word, within a second as a
    rule. `deadline`: until when another word is awaited, null if none is."""

    schedule_id: str
    state: ScheduleStateName
    deadline: Instant | None


_BODY: Final = Body(AckRequest)


async def acknowledge(context: RequestContext) -> web.Response:
    services, token = context.services, context.path("ack_token")
    signed = read_token(token) if len(token) <= MAX_TOKEN else None
    if signed is None:
        raise NotFound("there is no such address")
    budget, remote = services.request_budget, context.request.remote or "unknown"
    address = await services.check_address(
        signed,
        before_guess=lambda: budget.take_open_read(remote),
        no_guess=lambda: budget.give_back_open_read(remote),
    )
    client = await services.catalog.client(address.client_id)
    # From here on the budget of this client's receivers counts.
    context.principal = Principal(RECEIVER, client_id=client.client_id, client=client)
    budget.take(context.principal, COST)
    request = await context.body(_BODY, _faults)
    if faults := _faults(request):
        raise Invalid(faults)
    word = Word(request.result, request.reason, request.within_seconds, bytes(request.data))
    try:
        row = await services.acknowledge(address, word)
    except TooEarly as early:
        raise Refusal(TOO_EARLY, str(early), headers={"Retry-After": "1"}) from None
    deadline = format_instant_or_none(row.next_attempt_at) if request.result == "extend" else None
    return json_response(AckView(schedule_id=str(row.schedule_id), state=row.shown_state.value, deadline=deadline))


def _faults(request: AckRequest) -> list[FieldError]:
    faults = []
    if len(bytes(request.data)) > MAX_RESULT:
        faults.append(FieldError("/data", f"has more than {MAX_RESULT} bytes"))
    if request.within_seconds is not None and request.result != "extend":
        faults.append(FieldError("/within_seconds", "is only for extend"))
    return faults


ROUTES = (
    Route(
        method="POST",
        path=PATH + "{ack_token}",
        access=Access.OPEN,
        handler=acknowledge,
        summary="Say what became of a call that was taken by 202, at the address that it carried",
        request=AckRequest,
        response=AckView,
        problems=(
            TOO_MANY,
            TOO_EARLY,
            "invalid",
            "stale-attempt",
            "already-finished",
            "secret-locked",
            "storage-unavailable",
            "overloaded",
        ),
        cost=COST,
    ),
)
