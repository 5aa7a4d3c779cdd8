"""A client's keys and the secrets that its calls are signed with: made, shown once, and ended."""

from typing import Any

from aiohttp import web

from scheduler_service.console.forms import given, instant_of
from scheduler_service.console.operations import OperationRefused, part
from scheduler_service.console.pages import Page
from scheduler_service.domain.clients import Scope, SignatureScheme


async def show_access(page: Page) -> web.Response:
    return await _access(page)


async def _access(page: Page, *, error: OperationRefused | None = None) -> web.Response:
    keys = await page.get(f"{page.client()}/keys")
    secrets = await page.get(f"{page.client()}/signing-secrets")
    return page.render(
        "access.html",
        keys=[one for one in keys["items"] if one["revoked_at"] is None],
        ended=[one for one in keys["items"] if one["revoked_at"] is not None],
        secrets=secrets["items"],
        own_key=page.visitor.principal.key_id,
        scopes=list(Scope),
        schemes=list(SignatureScheme),
        error=error,
        values=page.form,
    )


async def change_access(page: Page) -> web.Response:
    """What is made is shown on the answer itself, and nowhere else: it is in no address, no cookie and no log."""
    client, form, at = page.client(), page.form, f"{page.home()}/keys"
    match form.get("act"):
        case "create-key":
            asked: dict[str, Any] = given(form, ("scope", "name"))
            if expires_at := form.get("expires_at", "").strip():
                asked["expires_at"] = instant_of(expires_at)
            try:
                made = await page.send("POST", f"{client}/keys", asked)
            except OperationRefused as error:
                return await _access(page, error=error)
            return page.render("made_once.html", made=made, what="key", text=made["key"])
        case "revoke-key":
            await page.send("DELETE", f"{client}/keys/{part(form.get('key_id', ''))}")
            return page.done(at, "The key is revoked: it is refused within seconds.")
        case "create-secret":
            made = await page.send("POST", f"{client}/signing-secrets", given(form, ("scheme",)))
            return page.render("made_once.html", made=made, what="secret", text=made["secret"])
        case "delete-secret":
            await page.send("DELETE", f"{client}/signing-secrets/{part(form.get('secret_id', ''))}")
            return page.done(at, "The secret is deleted: calls are signed with the others.")
        case act:
            return page.not_found(act)
