"""Options that many commands share, and the connection they describe."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from minutehand.cli.output import fail

if TYPE_CHECKING:
    import ssl

    from minutehand.client import Minutehand

DEFAULT_URL = "http://127.0.0.1:8080"
CA_FILE_VARIABLE = "MINUTEHAND_CA_FILE"

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Url = Annotated[str, typer.Option("--url", envvar="MINUTEHAND_URL", help="Address of the API.", show_default=True)]
KeyText = Annotated[
    str | None,
    typer.Option(
        "--key",
        envvar="MINUTEHAND_KEY",
        help="The client's own key, or an administrator's. Prefer MINUTEHAND_KEY, which other users of the machine "
        "can't see.",
        show_default=False,
    ),
]
ClientId = Annotated[str, typer.Argument(metavar="CLIENT", help="The client's id.", show_default=False)]


def limit_of(what: str) -> Any:
    """The option --limit of a command that lists. Typer says the default and the lower bound."""
    return typer.Option(
        "--limit", min=1, metavar="COUNT", help=f"Show this many {what} at most; there is no upper bound."
    )


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="TOML file with settings; `minutehand config` prints one. Also: MINUTEHAND_CONFIG.",
        show_default=False,
    ),
]
IdempotencyKey = Annotated[
    str | None,
    typer.Option(
        "--idempotency-key",
        metavar="NAME",
        help="Idempotency key: a repeat within 24 hours has no further effect.",
        show_default=False,
    ),
]
AttemptTimeout = Annotated[
    float | None,
    typer.Option(
        "--timeout-seconds", help="Attempt time-out, in seconds, instead of the client's own.", show_default=False
    ),
]
Revision = Annotated[
    int | None,
    typer.Option("--revision", help="Only if it still has this revision.", show_default=False),
]
MaxAttempts = Annotated[
    int | None,
    typer.Option("--max-attempts", min=1, help="Attempts, instead of the client's own.", show_default=False),
]


def connect(url: str, key: str | None) -> "Minutehand":
    """A connection for one command."""
    from minutehand.client import Minutehand

    if not key:
        fail("No key is given: use `minutehand login`, set MINUTEHAND_KEY, or use --key.")
    trusted = _trusted()
    return Minutehand(url, key) if trusted is None else Minutehand(url, key, ssl_context=trusted)


def trust(ca_file: str) -> None:
    """Make this command, and the processes it starts, trust these authorities for the API's certificate."""
    os.environ[CA_FILE_VARIABLE] = ca_file


def _trusted() -> "ssl.SSLContext | None":
    ca_file = os.environ.get(CA_FILE_VARIABLE)
    if not ca_file:
        return None
    import ssl

    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        why = "holds no certificates in PEM" if isinstance(error, ssl.SSLError) else (error.strerror or "").lower()
        fail(
            f"The authorities' certificates can't be read from {ca_file} ({why}): see --ca-file and {CA_FILE_VARIABLE}."
        )


def environment() -> dict[str, str]:
    """This process's environment; the configuration is read from it."""
    return dict(os.environ)
