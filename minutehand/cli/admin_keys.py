"""`minutehand admin-keys`: administrators' own keys."""

from typing import Annotated

import typer

from minutehand.cli.options import DEFAULT_URL, AsJson, KeyText, Url, connect
from minutehand.cli.output import print_fields, print_json, print_table, say

app = typer.Typer(help="Make, list and revoke administrators' keys. Takes the configured administrator's key.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Who the key is for, as the audit log says.")]
KeyId = Annotated[str, typer.Argument(metavar="KEY_ID", help="The key's id, as listed.", show_default=False)]


@app.command(epilog="Example: minutehand admin-keys create ops")
def create(name: Name, url: Url = DEFAULT_URL, key: KeyText = None, as_json: AsJson = False) -> None:
    """Make an administrator's key. It is shown this once."""
    with connect(url, key) as api:
        made = api.admin_keys.create(name)
    if as_json:
        print_json(made)
    else:
        print_fields(
            [
                ("key id", made.key_id),
                ("key", f"{made.key} (shown this once)"),
                ("name", made.name),
                ("created", made.created_at),
            ]
        )


@app.command("list", epilog="Example: minutehand admin-keys list")
def list_(url: Url = DEFAULT_URL, key: KeyText = None, as_json: AsJson = False) -> None:
    """List administrators' keys, revoked ones included."""
    with connect(url, key) as api:
        keys = api.admin_keys.list()
    if as_json:
        print_json(keys)
    else:
        rows = [(one.key_id, one.name, one.created_at, one.revoked_at) for one in keys]
        print_table(("KEY ID", "NAME", "CREATED", "REVOKED"), rows)


@app.command(epilog="Example: minutehand admin-keys revoke 3f9c2a71d0b84e56")
def revoke(key_id: KeyId, url: Url = DEFAULT_URL, key: KeyText = None, as_json: AsJson = False) -> None:
    """Revoke an administrator's key, within five seconds everywhere."""
    with connect(url, key) as api:
        api.admin_keys.revoke(key_id)
    if as_json:
        print_json({"key_id": key_id, "revoked": True})
    else:
        say(f"The administrator's key {key_id} is revoked.")
