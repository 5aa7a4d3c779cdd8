"""Who changed what: the audit log of everything for administrators, or of one client."""

from typing import Final

from aiohttp import web

from scheduler_service.console.forms import instant_of
from scheduler_service.console.pages import Page

ENTRIES_A_PAGE: Final = 100


async def show_audit_log(page: Page) -> web.Response:
    of_client = "client_id" in page.context.request.match_info
    path = f"{page.client()}/audit-log" if of_client else "/v1/audit-log"
    window = {name: instant_of(page.query.get(name, "")) for name in ("from", "to")}
    listed = await page.get(path, window, limit=ENTRIES_A_PAGE, cursor=page.query.get("cursor"))
    return page.render("audit_log.html", listed=listed, window=window)
