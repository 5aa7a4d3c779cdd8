"""A client's settings: its own by fields, and for operators quota and all others."""

import json
from collections.abc import Mapping
from typing import Any, Final, get_args

from aiohttp import web

from scheduler_service.console.forms import json_of, number_of
from scheduler_service.console.operations import OperationRefused
from scheduler_service.console.pages import Page
from scheduler_service.console.settings_forms import settings_fields, settings_request
from scheduler_service.domain.clients import ReadConsistency, WriteConsistency
from scheduler_service.domain.verbs import VERBS

CONSISTENCIES: Final[Mapping[str, tuple[str, ...]]] = {
    "read_consistency": get_args(ReadConsistency),
    "write_consistency": get_args(WriteConsistency),
}


async def show_settings(page: Page) -> web.Response:
    return await _settings(page, None)


async def _settings(
    page: Page, values: Mapping[str, str] | None, *, error: OperationRefused | None = None
) -> web.Response:
    """`values`: what was typed; None: the settings as they are."""
    client = await page.get(page.client())
    began = {
        **settings_fields(client["stored_settings"]),
        "tag": page.operations.tags.get(page.client(), ""),
        "poller_quota": str(client["poller_quota"]),
        "settings": json.dumps(client["stored_settings"], indent=2),
    }
    # A form has only its own part of the fields.
    own = values is not None and values.get("act") == "own"
    shown = began if values is None else {**({} if own else began), **values, "tag": values.get("tag", "")}
    for name in ("poller_quota", "settings"):
        shown.setdefault(name, began[name])
    return page.render(
        "settings.html",
        client=client,
        values=shown,
        error=error,
        of_own=own,
        verbs=VERBS,
        consistencies=CONSISTENCIES,
        lower={
            name: client["settings"][name]
            for name, value in client["stored_settings"].items()
            if value is not None and client["settings"][name] != value
        },
    )


async def change_settings(page: Page) -> web.Response:
    form, faults = page.form, dict[str, str]()
    precondition = {"If-Match": tag} if (tag := form.get("tag", "")) else {}
    match form.get("act"):
        case "own":
            present = await page.get(page.client(), shown=False)
            body, faults = settings_request(form, present["stored_settings"])
            if not body and not faults:
                return page.done(f"{page.home()}/settings", "Nothing was changed.")
            method, path = "PATCH", f"{page.client()}/settings"
        case "all":
            body = {
                "poller_quota": number_of(form.get("poller_quota", "").strip()),
                "settings": json_of(form.get("settings", ""), "/settings", faults),
            }
            method, path = "PUT", page.client()
        case act:
            return page.not_found(act)
    changed: Any = await page.ask(method, path, body, faults, headers=precondition)
    if isinstance(changed, OperationRefused):
        return await _settings(page, form, error=changed)
    return page.done(f"{page.home()}/settings", "The settings are changed: nodes and APIs know within seconds.")
