"""`minutehand keys`: the keys that clients authenticate with."""

from typing import Annotated

import typer

from minutehand.cli.options import DEFAULT_URL, AsJson, ClientId, KeyText, Url, connect
from minutehand.cli.output import print_fields, print_json, print_table, say

app = typer.Typer(help="Make, list and revoke a client's keys. Needs an administrator's key.")

KeyId = Annotated[str, typer.Argument(metavar="KEY_ID", help="The key's id, as listed.", show_default=False)]


@app.command(epilog="Example: minutehand keys create shop")
def create(client_id: ClientId, url: Url = DEFAULT_URL, key: KeyText = None, as_json: AsJson = False) -> None:
    """Make a key. It is shown this once; older keys stay valid until they are revoked."""
    with connect(url, key) as api:
        made = api.client(client_id).keys.create()
    if as_json:
        print_json(made)
    else:
        print_fields([("key id", made.key_id), ("key", made.key), ("created", made.created_at)])


@app.command("list", epilog="Example: minutehand keys list shop")
def list_(client_id: ClientId, url: Url = DEFAULT_URL, key: KeyText = None, as_json: AsJson = False) -> None:
    """List a client's keys, revoked ones included."""
    with connect(url, key) as api:
        keys = api.client(client_id).keys.list()
    if as_json:
        print_json(keys)
    else:
        print_table(("KEY ID", "CREATED", "REVOKED"), [(one.key_id, one.created_at, one.revoked_at) for one in keys])


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
