"""Clients: all of them for administrators, and one at a glance."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from aiohttp import web

from scheduler_service.console.forms import number_of
from scheduler_service.console.operations import OperationRefused, part
from scheduler_service.console.pages import Page
from scheduler_service.domain.ids import DAY_MS, HOUR_MS, MINUTE_MS
from scheduler_service.domain.instants import format_instant

BACKLOGS_READ: Final = 100
LATEST_MS: Final = (5 * MINUTE_MS, HOUR_MS, DAY_MS)
"""Windows in which failures are sought."""
LETTERS_READ: Final = 200
LETTERS_SHOWN: Final = 10
CLIENTS_A_PAGE: Final = 100
ORDERS: Final = {
    "": "id",
    "calls": "most calls",
    "part": "most of the quota",
    "mean_late_seconds": "most late",
    "failed_attempts": "most failures",
    "overdue": "most overdue",
}
"""In which order clients are listed."""
ACTS: Final = {
    "suspend": "None of its calls are made until it is resumed.",
    "resume": "Its calls are made again, the overdue ones by its late policy.",
    "pause": "It holds its calls.",
    "unpause": "Its calls are made again.",
}
"""What each act says when it is done."""


async def list_clients(page: Page) -> web.Response:
    """By id, or those first that have most of something. Calls are those of the last minute, as far as nodes count them
    by name."""
    listed = await page.get("/v1/clients")
    backlog = await page.get("/v1/cluster/backlog", limit=BACKLOGS_READ)
    calls = await page.get("/v1/cluster/calls")
    sought, by, after = page.query.get("q", "").strip(), page.query.get("by", ""), page.query.get("after", "")
    by = by if by in ORDERS else ""
    found = [one for one in listed["items"] if sought in one["client_id"]]
    rows = used_by(found, calls["clients"], backlog["items"], by=by)
    left = rows if by else [row for row in rows if row.client["client_id"] > after]
    return page.render(
        "clients.html",
        rows=left[:CLIENTS_A_PAGE],
        # Those with most of something are on the first page: who wants others asks for them by id.
        more=not by and len(left) > CLIENTS_A_PAGE,
        found=len(found),
        sought=sought,
        by=by,
        orders=ORDERS,
    )


class Used(NamedTuple):
    """A client beside what it uses. `calls` None: too few for nodes to count it by name. `overdue` None: fewer than
    those that were read."""

    client: Mapping[str, Any]
    calls: Mapping[str, Any] | None
    overdue: int | None

    @property
    def part(self) -> float:
        """Of the calls of a minute that its quota guarantees."""
        made = 0 if self.calls is None else self.calls["calls"]
        return float(made / max(self.client["guaranteed_calls_per_minute"], 1))


def used_by(
    clients: Sequence[Mapping[str, Any]],
    calls: Sequence[Mapping[str, Any]],
    backlog: Sequence[Mapping[str, Any]],
    *,
    by: str = "",
) -> list[Used]:
    """`by`: one of ORDERS. Pure."""
    made = {one["client_id"]: one for one in calls}
    overdue = {one["client_id"]: one["overdue"]["rows"] for one in backlog}
    otherwise = 0 if len(backlog) < BACKLOGS_READ else None
    by_id = sorted(clients, key=lambda one: one["client_id"])
    rows = [Used(one, made.get(one["client_id"]), overdue.get(one["client_id"], otherwise)) for one in by_id]
    match by:
        case "":
            return rows
        case "overdue":
            return sorted(rows, key=lambda row: -(row.overdue or 0))
        case "part":
            return sorted(rows, key=lambda row: -row.part)
        case _:
            return sorted(rows, key=lambda row: 0 if row.calls is None else -row.calls[by])


async def register_client(page: Page) -> web.Response:
    """A new client. Its signing secret is shown once, on the page that answers."""
    client_id, quota = page.form.get("client_id", ""), page.form.get("poller_quota", "")
    made = await page.send(
        "PUT",
        f"/v1/clients/{part(client_id)}",
        {"poller_quota": number_of(quota.strip())},
        headers={"If-None-Match": "*"},
    )
    return page.render("client_made.html", made=made)


async def show_client(page: Page) -> web.Response:
    client = page.client()
    backlog = await page.get(f"{client}/backlog")
    dead = await _latest_failures(page)
    return page.render("client.html", client=await _settings(page), backlog=backlog, dead=dead)


async def _latest_failures(page: Page) -> list[Any]:
    """The newest first. A window is listed from its start, so the narrowest one that has any is read."""
    listed: Any = {"items": []}
    for age in LATEST_MS:
        since = format_instant(page.now_ms - age)
        listed = await page.get(
            f"{page.client()}/dead-letters",
            {"from": since},
            limit=LETTERS_READ,
            acknowledged="false",
            shown=age == LATEST_MS[0],
        )
        if listed["items"]:
            break
    return list(reversed(listed["items"]))[:LETTERS_SHOWN]


async def _settings(page: Page) -> Any:
    """The client's view; None: the key may not see it."""
    try:
        return await page.get(page.client())
    except OperationRefused as refused:
        if refused.status != 403:
            raise
        return None


async def show_pollers(page: Page) -> web.Response:
    return page.render("pollers.html", pollers=(await page.get(f"{page.client()}/pollers"))["items"])


async def act_on_client(page: Page) -> web.Response:
    act = page.form.get("act", "")
    if act == "delete":
        await page.send("DELETE", page.client())
        return page.done("/console/clients", f"{page.context.path('client_id')} is deleted.")
    if act not in ACTS:
        return page.not_found(act)
    await page.send("POST", f"{page.client()}:{act}")
    return page.done(page.home(), ACTS[act])
