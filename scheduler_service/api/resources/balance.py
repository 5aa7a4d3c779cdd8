"""The books of a client's minutes."""

from typing import Final

from aiohttp import web

from scheduler_service.api.balance_listing import BALANCE_PARAMETERS, balance_cursor, balance_view, read_balance
from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.route import Call, Route, answer
from scheduler_service.api.page import Items
from scheduler_service.api.schemas import BalanceView

PARTITIONS_PER_UNIT: Final = 4
ROWS_PER_UNIT: Final = 250
"""Of minutes that are not settled: those are counted from their rows."""


async def get_balance(call: Call) -> web.Response:
    client_id = call.tenant.client_id
    asked = read_balance(client_id, call.query(), now=call.services.clock.wall_ms())
    books = await call.services.show_balance(client_id, position=asked.position, last=asked.last, limit=asked.limit)
    looked = books.looked
    call.spend(looked.hours + looked.partitions / PARTITIONS_PER_UNIT + looked.rows / ROWS_PER_UNIT)
    cursor = balance_cursor(client_id, asked, books.next)
    return answer(Items([balance_view(minute) for minute in books.minutes], cursor))


ROUTES = (
    Route(
        method="GET",
        path="/v1/clients/{client_id}/balance",
        access=Access.CLIENT,
        handler=get_balance,
        summary="What was accepted for each minute and what became of it, within a window of 24 hours",
        query=BALANCE_PARAMETERS,
        response=Items[BalanceView],
        cost=2,
        reads_much=True,
    ),
)
