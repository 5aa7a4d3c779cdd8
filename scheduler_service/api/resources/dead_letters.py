"""Dead letters: list schedules that failed for good, and redrive them."""

from collections.abc import Mapping
from typing import Annotated, Final, NamedTuple

import msgspec
from aiohttp import web
from msgspec import Meta

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.decoding import Body
from scheduler_service.api.http.paging import WindowCursor, WindowListing, seal, until_now
from scheduler_service.api.http.query import DEFAULT_LIMIT, CursorText
from scheduler_service.api.http.route import CREATES, Items, RequestContext, Route, json_response
from scheduler_service.api.resources.schedule_views import LetterView, RedrivenView, letter_view
from scheduler_service.domain.books import LetterKey
from scheduler_service.domain.clients import Scope
from scheduler_service.domain.ids import ClientId, ScheduleId, UnixMillis

_LETTERS = "/v1/clients/{client_id}/dead-letters"
MAX_REDRIVEN = 1000


class RedriveRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The dead letters to redeliver, by the window of their list. A cursor contains its window."""

    start: str | None = msgspec.field(name="from", default=None)
    end: str | None = msgspec.field(name="to", default=None)
    limit: Annotated[int, Meta(ge=1, le=MAX_REDRIVEN)] = DEFAULT_LIMIT
    cursor: CursorText | None = None


_REDRIVE = Body(RedriveRequest)

MAX_LETTERS = 200
"""Storage reads the whole schedule of each letter of a page, body included."""


class LetterCursor(WindowCursor, frozen=True, tag="dead-letters-1"):
    failed_at: UnixMillis
    schedule_id: ScheduleId


_LISTING: Final = WindowListing(
    LetterCursor,
    start="The first `failed_at` to list. Left out: 24 hours before `to`.",
    end="The first `failed_at` not to list, at most 24 hours after `from`. Left out: now or, if that is "
    "earlier, 24 hours after `from`.",
    left_out=until_now(longest_days=1),
    longest_days=1,
    most=MAX_LETTERS,
)
LETTER_PARAMETERS: Final = _LISTING.parameters


class LettersQuery(NamedTuple):
    """At most `limit` letters with start <= failed_at < end after `after` (None: from the first on)."""

    start: UnixMillis
    end: UnixMillis
    after: LetterKey | None
    limit: int


def read_letter_listing(client_id: ClientId, query: Mapping[str, str], *, now: int) -> LettersQuery:
    """Raises Invalid."""

    def fits(cursor: LetterCursor) -> bool:
        return cursor.start - 1 <= cursor.failed_at <= cursor.end

    asked = _LISTING.read(client_id, query, now=now, fits=fits)
    after = None if asked.cursor is None else LetterKey(asked.cursor.failed_at, asked.cursor.schedule_id)
    return LettersQuery(asked.start, asked.end, after, asked.limit)


def read_redrive(client_id: ClientId, request: RedriveRequest, *, now: int) -> LettersQuery:
    """The window of a redrive, given in the body as a listing's is in its query. Raises Invalid."""
    given = {"from": request.start, "to": request.end, "cursor": request.cursor}
    query = {name: value for name, value in given.items() if value is not None}
    return read_letter_listing(client_id, query, now=now)._replace(limit=request.limit)


def letter_cursor(client_id: ClientId, asked: LettersQuery, following: LetterKey | None) -> str | None:
    if following is None:
        return None
    return seal(client_id, LetterCursor(asked.start, asked.end, *following))


async def list_dead_letters(context: RequestContext) -> web.Response:
    client = context.client
    asked = read_letter_listing(client.client_id, context.query(), now=context.services.clock.wall_ms())
    page = await context.services.dead_letters.list.page(
        client, start=asked.start, end=asked.end, after=asked.after, limit=asked.limit
    )
    views = [letter_view(shown) for shown in page.items]
    return json_response(Items(views, letter_cursor(client.client_id, asked, page.next)))


async def redeliver_dead_letters(context: RequestContext) -> web.Response:
    client = context.client
    context.services.schedules.create.admit(client)
    asked = read_redrive(client.client_id, await context.body(_REDRIVE), now=context.services.clock.wall_ms())
    done = await context.services.dead_letters.redrive(
        client, start=asked.start, end=asked.end, after=asked.after, limit=asked.limit
    )
    cursor = letter_cursor(client.client_id, asked, done.next)
    context.spend(done.redelivered + done.passed_over)
    context.record(redelivered=done.redelivered, passed_over=done.passed_over)
    return json_response(RedrivenView(redelivered=done.redelivered, passed_over=done.passed_over, next_cursor=cursor))


ROUTES = (
    Route(
        method="POST",
        path=_LETTERS + ":redeliver",
        access=Access.CLIENT,
        scope=Scope.WRITE,
        handler=redeliver_dead_letters,
        summary=f"Redeliver the dead letters of a window of 24 hours, up to {MAX_REDRIVEN} at a time",
        request=RedriveRequest,
        response=RedrivenView,
        problems=CREATES,
        cost=15,
        reads_much=True,
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
