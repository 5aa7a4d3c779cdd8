"""A client's destinations: whether calls to them work, pause and resume, who uses them, create and change."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from scheduler_service.console.destination_forms import destination_fields, destination_request
from scheduler_service.console.findings import Sentence
from scheduler_service.console.forms import METHODS
from scheduler_service.console.operations import OperationRefused, part
from scheduler_service.console.pages import Page
from scheduler_service.domain.destination_figures import BreakerState

FIGURES_SHOWN: Final = 20
"""Destinations whose figures a list has: each is a question to all nodes."""
CRONS_SEARCHED: Final = 200


async def list_destinations(page: Page) -> web.Response:
    listed = (await page.get(f"{page.client()}/destinations"))["items"]

    async def shown(one: Any) -> Any:
        return await page.get(f"{page.client()}/destinations/{part(one['name'])}", shown=False)

    with_figures = await asyncio.gather(*(shown(one) for one in listed[:FIGURES_SHOWN]))
    found = [(one, health_of(one)) for one in (*with_figures, *listed[FIGURES_SHOWN:])]
    return page.render("destinations.html", found=found)


async def show_destination(page: Page) -> web.Response:
    destination = await page.get(_operation(page))
    name = destination["name"]
    crons, subscriptions, waiting = await asyncio.gather(
        page.get(f"{page.client()}/crons", limit=CRONS_SEARCHED),
        page.get(f"{page.client()}/subscriptions"),
        page.get(f"{page.client()}/schedules:count", destination=name, state="scheduled"),
    )
    return page.render(
        "destination.html",
        destination=destination,
        health=health_of(destination),
        crons=[one for one in crons["items"] if one["callback"].get("destination") == name],
        more_crons=crons["next_cursor"] is not None,
        subscriptions=[one for one in subscriptions["items"] if one["destination"] == name],
        waiting=waiting,
    )


async def change_destination(page: Page) -> web.Response:
    path, at = _operation(page), page.address("destinations", "destination")
    match page.form.get("act"):
        case "pause":
            await page.send("POST", f"{path}:pause")
            return page.done(at, "It is paused: its calls wait until it is resumed.")
        case "resume":
            await page.send("POST", f"{path}:resume")
            return page.done(at, "It is resumed: what waited is called over the next minutes.")
        case "delete":
            force = "?force=true" if page.form.get("force") else ""
            await page.send("DELETE", path + force)
            return page.done(f"{page.home()}/destinations", "It is deleted.")
        case act:
            return page.not_found(act)


async def new_destination(page: Page) -> web.Response:
    await page.get(f"{page.client()}/destinations", shown=False)  # refused where this caller has no business
    return _form(page, {"kind": "http", "method": "POST"}, present=None)


async def create_destination(page: Page) -> web.Response:
    await page.get(f"{page.client()}/destinations", shown=False)
    name = page.form.get("name", "").strip()
    return await _save(page, name, present=None, precondition={"If-None-Match": "*"})


async def edit_destination(page: Page) -> web.Response:
    present = await page.get(_operation(page))
    return _form(page, destination_fields(present), present=present)


async def replace_destination(page: Page) -> web.Response:
    present = await page.get(_operation(page), shown=False)
    precondition = {"If-Match": f'"{page.form.get("revision", "")}"'}
    return await _save(page, present["name"], present=present, precondition=precondition)


async def _save(
    page: Page, name: str, *, present: Mapping[str, Any] | None, precondition: Mapping[str, str]
) -> web.Response:
    body, faults = destination_request(page.form, present)
    if not name:
        faults["/name"] = "is required"
    error = await page.put(f"{page.client()}/destinations/{part(name)}", body, faults, precondition=precondition)
    if error is not None:
        return _form(page, page.form, present=present, error=error)
    at = f"{page.home()}/destinations/{part(name)}"
    return page.done(at, "It is created." if present is None else "It is changed: nodes know within seconds.")


def _form(
    page: Page,
    values: Mapping[str, str],
    *,
    present: Mapping[str, Any] | None,
    error: OperationRefused | None = None,
) -> web.Response:
    return page.render(
        "destination_form.html",
        values=values,
        present=present,
        error=error,
        methods=METHODS,
    )


def health_of(destination: Mapping[str, Any]) -> Sentence:
    """How calls to it go. Pure."""
    if destination["paused_at"] is not None:
        return Sentence("warn", "Paused: its calls wait until it is resumed.")
    figures = destination["figures"]
    if figures is None:
        return Sentence("plain", "Its page says how its calls go.")
    calls, failures = figures["calls"], figures["failures"]
    if figures["breaker"] == BreakerState.OPEN:
        return Sentence("bad", "Its breaker is open: its receiver only fails, so calls wait, and few of them probe it.")
    if figures["breaker"] == BreakerState.HALF_OPEN:
        return Sentence("warn", "Its breaker is half-open: a few calls probe whether its receiver works again.")
    if figures["token_failures"]:
        return Sentence("warn", f"{figures['token_failures']:,} fetches of its token failed in the last hour.")
    if failures:
        return Sentence("warn", f"{failures:,} of {calls:,} calls failed in the last hour.")
    if calls:
        return Sentence("good", f"All {calls:,} calls of the last hour were taken.")
    return Sentence("plain", "No call was made in the last hour.")


def _operation(page: Page) -> str:
    return page.operation("destinations", "destination")
