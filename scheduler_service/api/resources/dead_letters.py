"""Dead letters: list what gave up, and have it called again."""

from aiohttp import web

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.decoding import Body
from scheduler_service.api.http.route import CREATES, Call, Route, answer
from scheduler_service.api.letter_listing import (
    LETTER_PARAMETERS,
    MAX_REDRIVEN,
    RedriveRequest,
    letter_cursor,
    read_letter_listing,
    read_redrive,
)
from scheduler_service.api.outcome_views import LetterView, RedrivenView, letter_view
from scheduler_service.api.page import Items

_LETTERS = "/v1/clients/{client_id}/dead-letters"
_REDRIVE = Body(RedriveRequest)


async def list_dead_letters(call: Call) -> web.Response:
    client = call.tenant
    asked = read_letter_listing(client.client_id, call.query(), now=call.services.clock.wall_ms())
    page = await call.services.list_dead_letters.page(
        client, start=asked.start, end=asked.end, after=asked.after, limit=asked.limit
    )
    views = [letter_view(shown) for shown in page.items]
    return answer(Items(views, letter_cursor(client.client_id, asked, page.next)))


async def redeliver_dead_letters(call: Call) -> web.Response:
    client = call.tenant
    call.services.create_schedules.admit(client)
    asked = read_redrive(client.client_id, await call.body(_REDRIVE), now=call.services.clock.wall_ms())
    done = await call.services.redrive_dead_letters(
        client, start=asked.start, end=asked.end, after=asked.after, limit=asked.limit
    )
    cursor = letter_cursor(client.client_id, asked, done.next)
    call.spend(done.redelivered + done.passed_over)
    call.record(redelivered=done.redelivered, passed_over=done.passed_over)
    return answer(RedrivenView(redelivered=done.redelivered, passed_over=done.passed_over, next_cursor=cursor))


ROUTES = (
    Route(
        method="POST",
        path=_LETTERS + ":redeliver",
        access=Access.CLIENT,
        handler=redeliver_dead_letters,
        summary=f"Call again what gave up within a window of 24 hours, up to {MAX_REDRIVEN} at a time",
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
        handler=list_dead_letters,
        summary="List what gave up, by when it did, within a window of 24 hours",
        query=LETTER_PARAMETERS,
        response=Items[LetterView],
        cost=15,
        reads_much=True,
    ),
)
