"""`minutehand signing-secrets`: the secrets that sign a client's calls, and by which its receivers verify them."""

from typing import Annotated, Literal

import typer

from minutehand.cli.options import DEFAULT_URL, AsJson, ClientId, KeyText, Url, connect
from minutehand.cli.output import print_fields, print_json, print_table, say

app = typer.Typer(
    help="Make, list and delete what a client's calls are signed with. Takes an administrator's key, or one of the "
    "client's of scope manage."
)

Scheme = Annotated[
    Literal["v1", "v1a"],
    typer.Option(
        help="v1: a secret that both sides know. v1a: a key pair (Ed25519), of which receivers get the public key."
    ),
]
SecretId = Annotated[str, typer.Argument(metavar="SECRET_ID", help="The secret's id, as listed.", show_default=False)]


@app.command(epilog="Example: minutehand signing-secrets create shop --scheme v1a")
def create(
    client_id: ClientId,
    scheme: Scheme = "v1",
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Make a signing secret. It is shown this once, for the receiver.

    Calls carry a signature of each of a client's secrets; without any they are not signed.
    """
    with connect(url, key) as api:
        made = api.client(client_id).signing_secrets.create(scheme=scheme)
    if as_json:
        print_json(made)
    else:
        if made.scheme == "v1":
            shown = ("secret", f"{made.secret} (shown this once, for the receivers)")
        else:
            shown = ("public key", made.secret)
        print_fields([("secret id", made.secret_id), shown, ("created", made.created_at)])


@app.command("list", epilog="Example: minutehand signing-secrets list shop")
def list_(client_id: ClientId, url: Url = DEFAULT_URL, key: KeyText = None, as_json: AsJson = False) -> None:
    """List a client's signing secrets, without the secrets."""
    with connect(url, key) as api:
        secrets = api.client(client_id).signing_secrets.list()
    if as_json:
        print_json(secrets)
        return
    rows = [(one.secret_id, one.scheme, one.created_at, one.expires_at, one.public_key) for one in secrets]
    print_table(("SECRET ID", "SCHEME", "CREATED", "EXPIRES", "PUBLIC KEY"), rows)


@app.command(epilog="Example: minutehand signing-secrets delete shop 3f9c2a71d0b84e56")
def delete(
    client_id: ClientId, secret_id: SecretId, url: Url = DEFAULT_URL, key: KeyText = None, as_json: AsJson = False
) -> None:
    """Stop signing with a secret. Receivers must have another one by then."""
    with connect(url, key) as api:
        api.client(client_id).signing_secrets.delete(secret_id)
    if as_json:
        print_json({"secret_id": secret_id, "deleted": True})
    else:
        say(f"The signing secret {secret_id} is deleted.")
