"""Clients: all of them for administrators, and one at a glance."""

from typing import Any, Final

from aiohttp import web

from scheduler_service.console.operations import OperationRefused, part
from scheduler_service.console.pages import Page

BACKLOGS_READ: Final = 100
CLIENTS_A_PAGE: Final = 100
ACTS: Final = {
    "suspend": "None of its calls are made until it is resumed.",
    "resume": "Its calls are made again, the overdue ones by its late policy.",
    "pause": "It holds its calls.",
    "unpause": "Its calls are made again.",
}
"""What each act says when it is done."""


async def list_clients(page: Page) -> web.Response:
    listed = await page.get("/v1/clients")
    backlog = await page.get("/v1/cluster/backlog", limit=BACKLOGS_READ)
    overdue = {one["client_id"]: one["overdue"]["rows"] for one in backlog["items"]}
    sought, after = page.query.get("q", "").strip(), page.query.get("after", "")
    found = sorted((one for one in listed["items"] if sought in one["client_id"]), key=lambda one: one["client_id"])
    left = [one for one in found if one["client_id"] > after]
    return page.render(
        "clients.html",
        clients=left[:CLIENTS_A_PAGE],
        more=len(left) > CLIENTS_A_PAGE,
        found=len(found),
        overdue=overdue,
        # Those with the most are read, and no others are known.
        otherwise=0 if len(overdue) < BACKLOGS_READ else None,
        sought=sought,
    )


async def register_client(page: Page) -> web.Response:
    """A new client. Its signing secret is shown once, on the page that answers."""
    client_id, quota = page.form.get("client_id", ""), page.form.get("poller_quota", "")
    made = await page.send(
        "PUT",
        f"/v1/clients/{part(client_id)}",
        {"poller_quota": int(quota) if quota.isdigit() else quota},
        headers={"If-None-Match": "*"},
    )
    return page.render("client_made.html", made=made)


async def show_client(page: Page) -> web.Response:
    client = page.client()
    backlog = await page.get(f"{client}/backlog")
    dead = await page.get(f"{client}/dead-letters", limit=10, acknowledged="false")
    return page.render("client.html", client=await _settings(page), backlog=backlog, dead=dead["items"])


async def _settings(page: Page) -> Any:
    """The client's view; None: the key may not see it."""
    try:
        return await page.get(page.client())
    except OperationRefused as refused:
        if refused.status != 403:
            raise
        return None


async def act_on_client(page: Page) -> web.Response:
    act = page.form.get("act", "")
    if act not in ACTS:
        return page.render("not_found.html", status=404, sought=act)
    await page.send("POST", f"{page.client()}:{act}")
    return page.done(page.home(), ACTS[act])
