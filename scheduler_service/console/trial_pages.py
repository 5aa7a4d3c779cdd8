"""A trial call: one request, now, and all that was said."""

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from scheduler_service.api.resources.schedule_views import MASK
from scheduler_service.console.forms import METHODS, callback_of, numbers
from scheduler_service.console.operations import Asked, OperationUnsuccessful, refused_form
from scheduler_service.console.pages import Page

TIMES: Final = (
    ("resolved_seconds", "Name resolved"),
    ("connected_seconds", "Connected"),
    ("secured_seconds", "TLS established"),
    ("first_byte_seconds", "First byte of the answer"),
    ("ended_seconds", "Ended"),
)


async def show_trial(page: Page) -> web.Response:
    # Also refuses those who have no business here.
    known = await page.get(f"{page.client()}/destinations", shown=False)
    return _trial(page, {"destination": page.query.get("destination", "")}, known)


async def call_trial(page: Page) -> web.Response:
    known = await page.get(f"{page.client()}/destinations", shown=False)
    path = f"{page.client()}/callbacks:try"
    body, faults = trial_request(page.form)
    page.operations.asked.append(Asked(method="POST", path=path, body=without_values(body)))
    try:
        if faults:
            raise refused_form(faults)
        page.context.deadline.disarm()  # it may take as long as the client's calls may: the operation has that bound
        exchange = await page.send("POST", path, body, shown=False)
    except OperationUnsuccessful as error:
        return _trial(page, page.form, known, error=error)
    return _trial(page, page.form, known, exchange=exchange)


def _trial(
    page: Page,
    values: Mapping[str, str],
    known: Any,
    *,
    error: OperationUnsuccessful | None = None,
    exchange: Any = None,
) -> web.Response:
    return page.render(
        "trial.html",
        values=values,
        error=error,
        exchange=exchange,
        times=TIMES,
        methods=METHODS,
        destinations=[one["name"] for one in known["items"]],
    )


def trial_request(form: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The request, and faults by pointer. Pure."""
    faults: dict[str, str] = {}
    callback = callback_of(form, faults)
    return {"callback": callback, **numbers(form, ("timeout_seconds",))}, faults


def without_values(body: Mapping[str, Any]) -> dict[str, Any]:
    """As the page shows it among its samples: headers may be credentials. Pure."""
    callback = body["callback"]
    if "headers" not in callback:
        return dict(body)
    return {**body, "callback": {**callback, "headers": dict.fromkeys(callback["headers"], MASK)}}
