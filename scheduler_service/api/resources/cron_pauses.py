"""Pause and resume all crons that have a label, a page of crons at a time."""

from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.decoding import Body
from scheduler_service.api.http.paging import Cursor, Listing, seal
from scheduler_service.api.http.query import CursorText
from scheduler_service.api.http.route import CREATES, Items, RequestContext, Route, json_response
from scheduler_service.api.resources.crons import CRONS
from scheduler_service.domain.clients import Scope
from scheduler_service.domain.crons.row import CronState
from scheduler_service.domain.errors import Conflict, NotFound
from scheduler_service.domain.ids import CronId
from scheduler_service.usecases.cron_request import Note
from scheduler_service.usecases.pause_crons import CRONS_CHANGED, ChangePage, CronChange, Labelled
from scheduler_service.usecases.schedule_request import Name

COST_OF_CHANGE: Final = 3.0
"""Units of one change, as if it were asked for alone."""


class PauseManyRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All crons with this label. Those that are paused already keep their note. `dry_run`: only say which ones.
    Continue with the cursor beside the same fields."""

    label: Name
    note: Note | None = None
    dry_run: bool = False
    cursor: CursorText | None = None


class ResumeManyRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All paused crons with this label; with a `note`, only those that were paused with that note. `dry_run`: only say
    which ones. Continue with the cursor beside the same fields."""

    label: Name
    note: Note | None = None
    dry_run: bool = False
    cursor: CursorText | None = None


class CronChangeView(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one cron. `status`: 200 it is as wanted (`changed`: by this request), in a dry run it would be;
    404 deleted meanwhile; 409 finished; 503 unknown, repeat the request. `state`: afterwards, in a dry run the present
    one; null if it is unknown."""

    cron_id: str
    status: int
    state: Annotated[str, Meta(extra_json_schema={"enum": list(CronState)})] | None
    changed: bool
    revision: int | None = None


class _ManyCursor(Cursor, frozen=True, tag="crons-many-1"):
    after: CronId


_PAUSE: Final = Body(PauseManyRequest)
_RESUME: Final = Body(ResumeManyRequest)
_LISTING: Final = Listing(_ManyCursor, most=CRONS_CHANGED)


def change_view(change: CronChange, *, wanted: CronState) -> CronChangeView:
    match change.error:
        case None:
            cron = change.cron
            return CronChangeView(
                cron_id=change.cron_id,
                status=200,
                state=change.found if cron is None else cron.state,
                changed=change.found is not wanted,
                revision=None if cron is None else cron.revision,
            )
        case NotFound():
            return CronChangeView(cron_id=change.cron_id, status=404, state=None, changed=False)
        case Conflict():
            return CronChangeView(cron_id=change.cron_id, status=409, state=change.found, changed=False)
        case _:
            return CronChangeView(cron_id=change.cron_id, status=503, state=None, changed=False)


async def pause_crons(context: RequestContext) -> web.Response:
    client, request = context.client, await context.body(_PAUSE)
    page = await context.services.crons.many.pause(
        client,
        Labelled(label=request.label),
        note=request.note,
        dry_run=request.dry_run,
        after=_after(context, request.cursor),
        has_read=context.has_read,
    )
    return _answered(context, request, page, CronState.PAUSED)


async def resume_crons(context: RequestContext) -> web.Response:
    client = context.client
    context.services.crons.request.admit(client)
    request = await context.body(_RESUME)
    page = await context.services.crons.many.resume(
        client,
        Labelled(label=request.label, note=request.note),
        dry_run=request.dry_run,
        after=_after(context, request.cursor),
        has_read=context.has_read,
    )
    return _answered(context, request, page, CronState.ACTIVE)


def _after(context: RequestContext, cursor: str | None) -> CronId | None:
    """Raises Invalid."""
    found, _ = _LISTING.read(context.client.client_id, {} if cursor is None else {"cursor": cursor})
    return None if found is None else found.after


def _answered(
    context: RequestContext, request: PauseManyRequest | ResumeManyRequest, page: ChangePage, wanted: CronState
) -> web.Response:
    views = [change_view(change, wanted=wanted) for change in page.items]
    context.record(label=request.label, crons=len(views), dry_run=int(request.dry_run))
    if request.note is not None:
        context.record(note=request.note)
    if not request.dry_run:
        context.spend(COST_OF_CHANGE * len(views))
        context.record(changed=sum(view.changed for view in views))
    following = None if page.next is None else seal(context.client.client_id, _ManyCursor(page.next))
    return json_response(Items(views, following))


ROUTES = (
    Route(
        method="POST",
        path=CRONS + ":pause",
        access=Access.CLIENT,
        scope=Scope.WRITE,
        handler=pause_crons,
        summary=f"Pause all crons with a label, up to {CRONS_CHANGED} at a time; a dry run says which ones",
        request=PauseManyRequest,
        response=Items[CronChangeView],
        cost=5,
        reads_much=True,
        recorded=True,
    ),
    Route(
        method="POST",
        path=CRONS + ":resume",
        access=Access.CLIENT,
        scope=Scope.WRITE,
        handler=resume_crons,
        summary=f"Resume all paused crons with a label, up to {CRONS_CHANGED} at a time; a dry run says which ones",
        request=ResumeManyRequest,
        response=Items[CronChangeView],
        problems=CREATES,
        cost=5,
        reads_much=True,
        recorded=True,
    ),
)
