"""A client's subscriptions: which events are sent to which destination."""

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from scheduler_service.console.forms import given_below, lines_of
from scheduler_service.console.operations import OperationRefused, part
from scheduler_service.console.pages import Page
from scheduler_service.domain.events import EventType

FILTERS: Final = ("label", "key_prefix", "cron_id", "destination")


async def list_subscriptions(page: Page) -> web.Response:
    return await _subscriptions(page, sought=page.query.get("change"))


async def _subscriptions(
    page: Page, *, sought: str | None = None, error: OperationRefused | None = None
) -> web.Response:
    """`sought`: the one whose form is shown; else that of a new one."""
    listed = (await page.get(f"{page.client()}/subscriptions"))["items"]
    present = next((one for one in listed if one["name"] == sought), None)
    values: Mapping[str, str] = page.form or fields_of(present)
    return page.render(
        "subscriptions.html",
        subscriptions=listed,
        present=present,
        values=values,
        chosen=lines_of(values.get("events", "")),
        types=list(EventType),
        error=error,
    )


async def change_subscription(page: Page) -> web.Response:
    form, at = page.form, f"{page.home()}/subscriptions"
    name = form.get("name", "").strip()
    path = f"{page.client()}/subscriptions/{part(name or '-')}"
    match form.get("act"):
        case "put":
            revision = form.get("revision", "")
            precondition = {"If-Match": f'"{revision}"'} if revision else {"If-None-Match": "*"}
            try:
                await page.send("PUT", path, request_of(form), headers=precondition)
            except OperationRefused as error:
                return await _subscriptions(page, sought=name if revision else None, error=error)
            return page.done(at, f"Events are sent as {name} says.")
        case "delete":
            await page.send("DELETE", path)
            return page.done(at, f"{name} is deleted: what was not sent yet is not sent any more.")
        case act:
            return page.not_found(act)


def request_of(form: Mapping[str, str]) -> dict[str, Any]:
    """Pure. No event chosen: all types."""
    asked: dict[str, Any] = {
        "destination": form.get("destination", "").strip(),
        "events": lines_of(form.get("events", "")),
        "enabled": "enabled" in form,
    }
    if filters := given_below(form, "filter", FILTERS):
        asked["filter"] = filters
    return asked


def fields_of(subscription: Mapping[str, Any] | None) -> dict[str, str]:
    """What the form begins with. Pure."""
    if subscription is None:
        return {"enabled": "on"}
    fields = {
        "name": subscription["name"],
        "destination": subscription["destination"],
        "events": "\n".join(subscription["events"]),
        "revision": str(subscription["revision"]),
    }
    fields |= {f"filter.{name}": value for name in FILTERS if (value := subscription["filter"][name]) is not None}
    return fields | ({"enabled": "on"} if subscription["enabled"] else {})
