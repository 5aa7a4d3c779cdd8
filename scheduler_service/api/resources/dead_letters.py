"""Dead letters: list schedules that failed for good, acknowledge them, and redrive them."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from aiohttp import web
from msgspec import Meta

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.decoding import Body
from scheduler_service.api.http.paging import WindowCursor, WindowListing, seal, until_now
from scheduler_service.api.http.query import DEFAULT_LIMIT, CursorText, Parameter, choice_parameter, text_parameter
from scheduler_service.api.http.route import CREATES, Items, RequestContext, Route, json_response
from scheduler_service.api.resources.schedule_views import (
    AcknowledgedItemView,
    AcknowledgedView,
    LetterView,
    RedrivenItemView,
    RedrivenView,
    letter_id,
    letter_view,
)
from scheduler_service.domain.books import DeadLetter, LetterFilter, LetterKey
from scheduler_service.domain.clients import Scope
from scheduler_service.domain.destinations import DESTINATION_PATTERN
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.ids import MAX_DUE, ClientId, ScheduleId, UnixMillis, is_schedule_id
from scheduler_service.domain.instants import format_instant_or_none
from scheduler_service.domain.notices import EVENTS_GONE
from scheduler_service.domain.schedule_filters import read_destination, read_host
from scheduler_service.usecases.cancel_schedules import NoSuchSchedule
from scheduler_service.usecases.dead_letters import LetterWindow, RedrivenAs
from scheduler_service.usecases.redeliver import Redelivering
from scheduler_service.usecases.redeliver_notices import EventsGone
from scheduler_service.usecases.schedule_request import MAX_TEXT

_LETTERS = "/v1/clients/{client_id}/dead-letters"
MAX_SELECTED = 1000
"""Letters that one request acknowledges or redelivers."""
ACKNOWLEDGED_PER_UNIT = 3
_STATUS = re.compile("[1-5]([0-9][0-9]|xx)")
_LETTER_ID = re.compile("([0-9A-Fa-f-]{36})@(0|[1-9][0-9]{0,14})")


class LettersRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Dead letters: either listed ones, by `letter_ids`, or those of a window that fit all the filters, as in their
    list, and are not acknowledged. A cursor contains window and filters."""

    letter_ids: Annotated[list[str], Meta(min_length=1, max_length=MAX_SELECTED)] | None = None
    start: str | None = msgspec.field(name="from", default=None)
    end: str | None = msgspec.field(name="to", default=None)
    host: str | None = None
    destination: str | None = None
    status: str | None = None
    reason: str | None = None
    error: str | None = None
    label: str | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_SELECTED)] | None = None
    cursor: CursorText | None = None


_SELECTION = Body(LettersRequest)

MAX_LETTERS = 200
"""Storage reads the whole schedule of each letter of a page, body included."""


class LetterCursor(WindowCursor, frozen=True, tag="dead-letters-3"):
    host: str | None
    destination: str | None
    status: str | None
    reason: str | None
    error: str | None
    label: str | None
    acknowledged: str | None
    failed_at: UnixMillis
    schedule_id: ScheduleId


def _status(text: str) -> str:
    if _STATUS.fullmatch(text) is None:
        raise ValueError("must be an HTTP status, such as 503, or a class of them, such as 5xx")
    return text


_ACKNOWLEDGED: Final[Mapping[str | None, bool | None]] = {None: False, "false": False, "true": True, "any": None}


def _acknowledged(text: str) -> str:
    if text not in _ACKNOWLEDGED:
        raise ValueError
    return text


_LISTING: Final = WindowListing(
    LetterCursor,
    start="The first `failed_at` to list. Left out: 24 hours before `to`.",
    end="The first `failed_at` not to list, at most 24 hours after `from`. Left out: now or, if that is "
    "earlier, 24 hours after `from`.",
    left_out=until_now(longest_days=1),
    longest_days=1,
    most=MAX_LETTERS,
    filters=(
        Parameter(
            name="host",
            sentence="List only calls to this host, without port.",
            schema={"type": "string", "minLength": 1, "maxLength": MAX_TEXT},
            read=read_host,
        ),
        Parameter(
            name="destination",
            sentence="List only calls to the destination of this name.",
            schema={"type": "string", "pattern": DESTINATION_PATTERN},
            read=read_destination,
        ),
        Parameter(
            name="status",
            sentence="List only those whose last attempt was answered with this HTTP status, or one of a class: 5xx.",
            schema={"type": "string", "pattern": f"^{_STATUS.pattern}$"},
            read=_status,
        ),
        text_parameter("reason", "List only those that ended for this reason, such as `exhausted`."),
        text_parameter("error", "List only those whose last attempt failed with this error, such as `timeout`."),
        text_parameter("label", "List only schedules with this label."),
        choice_parameter(
            "acknowledged",
            "Whether to list those that are acknowledged. Left out: `false`.",
            _acknowledged,
            [text for text in _ACKNOWLEDGED if text is not None],
        ),
    ),
)
LETTER_PARAMETERS: Final = _LISTING.parameters


def read_letter_listing(
    client_id: ClientId, query: Mapping[str, str], *, now: int
) -> tuple[LetterWindow, Mapping[str, Any]]:
    """The window, and its filters as a cursor holds them. Raises Invalid."""

    def fits(cursor: LetterCursor) -> bool:
        return cursor.start - 1 <= cursor.failed_at <= cursor.end and (
            cursor.acknowledged in _ACKNOWLEDGED
            and (cursor.status is None or _STATUS.fullmatch(cursor.status) is not None)
        )

    asked = _LISTING.read(client_id, query, now=now, fits=fits)
    after = None if asked.cursor is None else LetterKey(asked.cursor.failed_at, asked.cursor.schedule_id)
    wanted = LetterFilter(**{**asked.filters, "acknowledged": _ACKNOWLEDGED[asked.filters["acknowledged"]]})
    return LetterWindow(asked.start, asked.end, after, asked.limit, wanted), asked.filters


def letter_cursor(
    client_id: ClientId, asked: LetterWindow, filters: Mapping[str, Any], following: LetterKey | None
) -> str | None:
    if following is None:
        return None
    cursor = LetterCursor(
        start=asked.start,
        end=asked.end,
        **filters,
        failed_at=following.failed_at,
        schedule_id=following.schedule_id,
    )
    return seal(client_id, cursor)


def read_selection(
    client_id: ClientId, request: LettersRequest, *, now: int
) -> tuple[LetterWindow, Mapping[str, Any]] | None:
    """The window of a selection, given in the body as a listing's is in its query; None: the request gives ids. Raises
    Invalid."""
    names = {"from": "start", "to": "end"}
    given = {name: getattr(request, names.get(name, name)) for name in _SELECTED_BY}
    query = {name: value for name, value in given.items() if value is not None}
    if request.letter_ids is not None:
        limit = {} if request.limit is None else {"limit": request.limit}
        if query or limit:
            raise Invalid(
                [FieldError(f"/{name}", "can't be given together with letter_ids") for name in (*query, *limit)]
            )
        return None
    window, filters = read_letter_listing(client_id, query, now=now)
    if window.filter.acknowledged is not False:
        raise Invalid([FieldError("/cursor", "it is that of a list with acknowledged letters")])
    return window._replace(limit=request.limit or DEFAULT_LIMIT), filters


_SELECTED_BY: Final = ("from", "to", "host", "destination", "status", "reason", "error", "label", "cursor")


def read_letter_ids(texts: Sequence[str]) -> dict[str, LetterKey]:
    """The texts that can be ids of letters, parsed."""
    found: dict[str, LetterKey] = {}
    for text in texts:
        match = _LETTER_ID.fullmatch(text)
        if match is None:
            continue
        try:
            value = UUID(match[1])
        except ValueError:
            continue
        failed_at = int(match[2])
        if str(value) == match[1].lower() and is_schedule_id(value) and failed_at <= MAX_DUE:
            found[text] = LetterKey(UnixMillis(failed_at), ScheduleId(value))
    return found


async def list_dead_letters(context: RequestContext) -> web.Response:
    client = context.client
    asked, filters = read_letter_listing(client.client_id, context.query(), now=context.services.clock.wall_ms())
    page = await context.services.dead_letters.list.page(client, asked, has_read=context.has_read)
    views = [letter_view(shown) for shown in page.items]
    return json_response(Items(views, letter_cursor(client.client_id, asked, filters, page.next)))


async def redeliver_dead_letters(context: RequestContext) -> web.Response:
    client, redrive = context.client, context.services.dead_letters.redrive
    context.services.schedules.create.admit(client)
    request = await context.body(_SELECTION)
    selected = read_selection(client.client_id, request, now=context.services.clock.wall_ms())
    if selected is None:
        texts = list(dict.fromkeys(request.letter_ids or ()))
        ids = read_letter_ids(texts)
        context.spend(len(ids))
        done = await redrive.listed(client, list(ids.values()))
        results = dict(done.results)
        items = [redriven_item(text, results[ids[text]] if text in ids else NoSuchSchedule()) for text in texts]
        cursor = None
    else:
        asked, filters = selected
        done = await redrive.window(client, asked, has_read=context.has_read)
        context.spend(len(done.results))
        items = [redriven_item(letter_id(key), result) for key, result in done.results]
        cursor = letter_cursor(client.client_id, asked, filters, done.next)
    redelivered = sum(item.status == 202 for item in items)
    context.record(redelivered=redelivered, passed_over=len(items) - redelivered)
    view = RedrivenView(redelivered=redelivered, passed_over=len(items) - redelivered, items=items, next_cursor=cursor)
    return json_response(view)


def redriven_item(text: str, result: RedrivenAs) -> RedrivenItemView:
    match result:
        case NoSuchSchedule():
            return RedrivenItemView(letter_id=text, status=404, state=None)
        case Redelivering(row=row):
            return RedrivenItemView(letter_id=text, status=202, state=row.shown_state.value)
        case EventsGone(row=row):
            return RedrivenItemView(letter_id=text, status=409, state=row.shown_state.value, reason=EVENTS_GONE)
        case _:
            return RedrivenItemView(letter_id=text, status=409, state=result.row.shown_state.value)


async def acknowledge_dead_letters(context: RequestContext) -> web.Response:
    client, acknowledge = context.client, context.services.dead_letters.acknowledge
    assert context.principal is not None
    principal = context.principal
    by = principal.name if principal.client_id is None else principal.key_id or principal.name
    request = await context.body(_SELECTION)
    selected = read_selection(client.client_id, request, now=context.services.clock.wall_ms())
    if selected is None:
        texts = list(dict.fromkeys(request.letter_ids or ()))
        ids = read_letter_ids(texts)
        context.spend(len(ids) / ACKNOWLEDGED_PER_UNIT)
        done = await acknowledge.listed(client, list(ids.values()), by=by)
        present = {letter.key: letter for letter in done.letters}
        items = [acknowledged_item(text, present.get(ids[text]) if text in ids else None) for text in texts]
        cursor = None
    else:
        asked, filters = selected
        done = await acknowledge.window(client, asked, by=by, has_read=context.has_read)
        context.spend(len(done.letters) / ACKNOWLEDGED_PER_UNIT)
        items = [acknowledged_item(letter_id(letter.key), letter) for letter in done.letters]
        cursor = letter_cursor(client.client_id, asked, filters, done.next)
    context.record(acknowledged=done.changed)
    return json_response(AcknowledgedView(acknowledged=done.changed, items=items, next_cursor=cursor))


def acknowledged_item(text: str, letter: DeadLetter | None) -> AcknowledgedItemView:
    if letter is None:
        return AcknowledgedItemView(letter_id=text, status=404)
    return AcknowledgedItemView(
        letter_id=text,
        status=200,
        acknowledged_at=format_instant_or_none(letter.acknowledged_at),
        acknowledged_by=letter.acknowledged_by,
    )


ROUTES = (
    Route(
        method="POST",
        path=_LETTERS + ":redeliver",
        access=Access.CLIENT,
        scope=Scope.WRITE,
        handler=redeliver_dead_letters,
        summary=f"Redeliver listed dead letters, or those of a window of 24 hours, up to {MAX_SELECTED} at a time",
        request=LettersRequest,
        response=RedrivenView,
        problems=CREATES,
        cost=15,
        reads_much=True,
    ),
    Route(
        method="POST",
        path=_LETTERS + ":acknowledge",
        access=Access.CLIENT,
        scope=Scope.WRITE,
        handler=acknowledge_dead_letters,
        summary=f"Acknowledge listed dead letters, or those of a window of 24 hours, up to {MAX_SELECTED} at a time",
        request=LettersRequest,
        response=AcknowledgedView,
        cost=15,
        reads_much=True,
        recorded=True,
    ),
    Route(
        method="GET",
        path=_LETTERS,
        access=Access.CLIENT,
        scope=Scope.READ,
        handler=list_dead_letters,
        summary="List dead letters by the instant at which they failed, within a window of 24 hours",
        query=LETTER_PARAMETERS,
        response=Items[LetterView],
        cost=15,
        reads_much=True,
    ),
)
