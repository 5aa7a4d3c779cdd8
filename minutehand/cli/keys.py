"""`minutehand keys`: the keys that clients authenticate with."""

from typing import Annotated

import typer

from minutehand.cli.options import DEFAULT_URL, AsJson, ClientId, KeyText, Url, connect
from minutehand.cli.output import print_fields, print_json, print_table, say

app = typer.Typer(
    help="Make, list and revoke a client's keys. Takes an administrator's key, or one of the client's of scope manage."
)

KeyId = Annotated[str, typer.Argument(metavar="KEY_ID", help="The key's id, as listed.", show_default=False)]


@app.command(epilog="Example: minutehand keys create shop --scope read --name dashboard")
def create(
    client_id: ClientId,
    scope: Annotated[
        str,
        typer.Option(
            metavar="read|write|manage",
            help="What it may do: look; also create and cancel; also manage the client's keys, secrets and settings.",
        ),
    ] = "write",
    name: Annotated[str | None, typer.Option(help="What it is for.", show_default=False)] = None,
    expires_at: Annotated[
        str | None,
        typer.Option(help="When it stops to be good, RFC 3339. Without it: when it is revoked.", show_default=False),
    ] = None,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Make a key. It is shown this once; older keys stay valid until they are revoked."""
    with connect(url, key) as api:
        made = api.client(client_id).keys.create(scope=scope, name=name, expires_at=expires_at)
    if as_json:
        print_json(made)
        return
    print_fields(
        [
            ("key id", made.key_id),
            ("key", f"{made.key} (shown this once)"),
            ("name", made.name),
            ("scope", made.scope),
            ("created", made.created_at),
            ("expires", made.expires_at),
        ]
    )


@app.command("list", epilog="Example: minutehand keys list shop")
def list_(client_id: ClientId, url: Url = DEFAULT_URL, key: KeyText = None, as_json: AsJson = False) -> None:
    """List a client's keys, revoked ones included. LAST USED is an hour or so behind."""
    with connect(url, key) as api:
        keys = api.client(client_id).keys.list()
    if as_json:
        print_json(keys)
    else:
        rows = [
            (one.key_id, one.name, one.scope, one.created_at, one.expires_at, one.last_used_at, one.revoked_at)
            for one in keys
        ]
        print_table(("KEY ID", "NAME", "SCOPE", "CREATED", "EXPIRES", "LAST USED", "REVOKED"), rows)


@app.command(epilog="Example: minutehand keys revoke shop 3f9c2a71d0b84e56")
def revoke(
    client_id: ClientId, key_id: KeyId, url: Url = DEFAULT_URL, key: KeyText = None, as_json: AsJson = False
) -> None:
    """Revoke a key; every API process refuses it within five seconds."""
    with connect(url, key) as api:
        api.client(client_id).keys.revoke(key_id)
    if as_json:
        print_json({"key_id": key_id, "revoked": True})
    else:
        say(f"The key {key_id} is revoked.")
