"""Administrators' keys: all see them, and the configured administrator makes and revokes them."""

from aiohttp import web

from scheduler_service.console.operations import OperationRefused, part
from scheduler_service.console.pages import Page

KEYS = "/v1/admin-keys"
AT = "/console/admin-keys"


async def show_admin_keys(page: Page) -> web.Response:
    return await _keys(page)


async def _keys(page: Page, *, error: OperationRefused | None = None) -> web.Response:
    keys = (await page.get(KEYS))["items"]
    return page.render(
        "admin_keys.html",
        keys=[one for one in keys if one["revoked_at"] is None],
        ended=[one for one in keys if one["revoked_at"] is not None],
        own_key=page.visitor.principal.key_id,
        error=error,
        values=page.form,
    )


async def change_admin_keys(page: Page) -> web.Response:
    """What is made is shown on the answer itself, and nowhere else."""
    match page.form.get("act"):
        case "create-key":
            try:
                made = await page.send("POST", KEYS, {"name": page.form.get("name", "").strip()})
            except OperationRefused as error:
                if error.status == 403:
                    raise
                return await _keys(page, error=error)
            return page.render("admin_key_made.html", made=made)
        case "revoke-key":
            await page.send("DELETE", f"{KEYS}/{part(page.form.get('key_id', ''))}")
            return page.done(AT, "The key is revoked: it is refused within seconds.")
        case act:
            return page.not_found(act)
