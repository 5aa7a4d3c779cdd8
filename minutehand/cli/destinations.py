"""`minutehand destinations`: where calls go, said once under a name."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from minutehand.cli.callbacks import Header, read_headers
from minutehand.cli.options import (
    DEFAULT_URL,
    AsJson,
    AttemptTimeout,
    ClientId,
    KeyText,
    MaxAttempts,
    Revision,
    Url,
    connect,
)
from minutehand.cli.output import fail, print_fields, print_json, print_table, say

if TYPE_CHECKING:
    from minutehand.client import Destination, DestinationFigures

app = typer.Typer(
    help="Put destinations, look at them, pause, resume and delete them. Changes take an administrator's key, or one "
    "of the client's of scope manage."
)

Name = Annotated[
    str,
    typer.Argument(
        metavar="DESTINATION",
        help="The destination's name: lower-case letters, digits, '.', '_' and '-'.",
        show_default=False,
    ),
]
_STANDARD_INPUT = Path("-")


@app.command(epilog="Example: minutehand destinations put shop warehouse https://warehouse.example --max-per-second 20")
def put(
    client_id: ClientId,
    name: Name,
    destination_url: Annotated[
        str | None,
        typer.Argument(metavar="DESTINATION_URL", help="Where calls go: http or https.", show_default=False),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            metavar="FILE",
            help="The destination as a JSON object, as the API takes it; - for standard input. The other options win.",
            show_default=False,
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option("--kind", help="What calls go to: http, unless the operator offers others.", show_default=False),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="JSON",
            help="For other kinds than http, instead of DESTINATION_URL: where calls go, as a JSON object.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[str | None, typer.Option("--method", help="The calls' HTTP method.", show_default=False)] = None,
    header: Header = None,
    certificate: Annotated[
        Path | None,
        typer.Option(
            "--certificate",
            metavar="FILE",
            help="PEM file of the client certificate that calls present, its own first, with --certificate-key.",
            show_default=False,
        ),
    ] = None,
    certificate_key: Annotated[
        Path | None,
        typer.Option("--certificate-key", metavar="FILE", help="PEM file of its private key.", show_default=False),
    ] = None,
    max_per_second: Annotated[
        float | None,
        typer.Option("--max-per-second", help="Calls a second, over all nodes.", show_default=False),
    ] = None,
    max_in_flight: Annotated[
        int | None, typer.Option("--max-in-flight", help="Calls at a time, over all nodes.", show_default=False)
    ] = None,
    max_attempts: MaxAttempts = None,
    timeout_seconds: AttemptTimeout = None,
    revision: Revision = None,
    absent: Annotated[bool, typer.Option("--absent", help="Only if there is no such destination.")] = False,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Create a destination, or replace it as a whole.

    What is left out, secrets too, is not kept."""
    if (certificate is None) != (certificate_key is None):
        fail("Give --certificate and --certificate-key, or neither.")
    asked: dict[str, Any] = {} if file is None else _document(file)
    given: dict[str, Any] = {
        "url": destination_url,
        "kind": kind,
        "target": None if target is None else _object(target, "--target"),
        "method": method,
        "headers": read_headers(header or []) or None,
        "max_per_second": max_per_second,
        "max_in_flight": max_in_flight,
        "timeout_seconds": timeout_seconds,
    }
    asked |= {field: value for field, value in given.items() if value is not None}
    if max_attempts is not None:
        asked["retry"] = {**(asked.get("retry") or {}), "max_attempts": max_attempts}
    if certificate is not None and certificate_key is not None:
        asked["certificate"] = {"chain": _text(certificate), "key": _text(certificate_key)}
    if "url" not in asked and "target" not in asked:
        fail("Say where calls go: by DESTINATION_URL or --target, or as url or target in --file.")
    with connect(url, key) as api:
        destinations = api.client(client_id).destinations
        _show(destinations.put(name, asked, revision=revision, absent=absent), as_json)


@app.command(epilog="Example: minutehand destinations get shop warehouse")
def get(client_id: ClientId, name: Name, url: Url = DEFAULT_URL, key: KeyText = None, as_json: AsJson = False) -> None:
    """Show a destination, without its secrets.

    With what became of its calls in the last hour."""
    with connect(url, key) as api:
        _show(api.client(client_id).destinations.get(name), as_json)


@app.command("list", epilog="Example: minutehand destinations list shop")
def list_(client_id: ClientId, url: Url = DEFAULT_URL, key: KeyText = None, as_json: AsJson = False) -> None:
    """List a client's destinations by name."""
    with connect(url, key) as api:
        found = api.client(client_id).destinations.list()
    if as_json:
        print_json(found)
        return
    rows = [
        (
            one.name,
            "active" if one.paused_at is None else "paused",
            one.max_per_second,
            one.max_in_flight,
            one.changed_at,
            one.url,
        )
        for one in found
    ]
    columns = ("DESTINATION", "STATE", "A SECOND", "AT A TIME", "CHANGED", "URL")
    print_table(columns, rows, yielding={"URL"})


@app.command(epilog="Example: minutehand destinations pause shop warehouse")
def pause(
    client_id: ClientId,
    name: Name,
    revision: Revision = None,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Pause a destination: its calls wait until it is resumed."""
    with connect(url, key) as api:
        _show(api.client(client_id).destinations.pause(name, revision=revision), as_json)


@app.command(epilog="Example: minutehand destinations resume shop warehouse")
def resume(
    client_id: ClientId,
    name: Name,
    revision: Revision = None,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Resume a paused destination."""
    with connect(url, key) as api:
        _show(api.client(client_id).destinations.resume(name, revision=revision), as_json)


@app.command(epilog="Example: minutehand destinations delete shop warehouse")
def delete(
    client_id: ClientId,
    name: Name,
    revision: Revision = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also if crons or waiting schedules name it: their calls fail then.")
    ] = False,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Delete a destination that is not in use.

    It is in use while a cron, a subscription or a waiting schedule names it."""
    with connect(url, key) as api:
        api.client(client_id).destinations.delete(name, revision=revision, force=force)
    if as_json:
        print_json({"name": name, "deleted": True})
    else:
        say(f"The destination {name} is deleted.")


def _where(destination: "Destination") -> str:
    return destination.url if destination.kind != "http" else f"{destination.method} {destination.url}"


def _figures(figures: "DestinationFigures") -> list[tuple[str, object]]:
    return [
        ("calls, last hour", figures.calls),
        ("failed", figures.failures),
        ("half answered in s", figures.answer_p50_seconds),
        ("99 of 100 in s", figures.answer_p99_seconds),
        ("under way", figures.in_flight),
        ("waiting", figures.waiting),
        ("deferred", figures.deferred),
        ("no token, last hour", figures.token_failures or None),
        ("breaker", figures.breaker),
        ("silent nodes", figures.silent_nodes or None),
    ]


def _document(file: Path) -> dict[str, Any]:
    return _object(sys.stdin.read() if file == _STANDARD_INPUT else _text(file), "--file")


def _object(text: str, option: str) -> dict[str, Any]:
    import msgspec

    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        fail(f"{option} is not a JSON object: {error}.")


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        fail(f"{file} can't be read: {error.strerror}.")
    except UnicodeDecodeError:
        fail(f"{file} is not text in UTF-8.")


def _show(destination: "Destination", as_json: bool) -> None:
    if as_json:
        print_json(destination)
        return
    figures = destination.figures
    certificate, token, proxy, events = (
        destination.certificate,
        destination.token,
        destination.proxy,
        destination.cloudevents,
    )
    print_fields(
        [
            ("destination", destination.name),
            ("calls", _where(destination)),
            ("headers", sorted(destination.headers) or None),
            ("calls a second", destination.max_per_second),
            ("calls at a time", destination.max_in_flight),
            ("time-out seconds", destination.timeout_seconds),
            ("certificate of", None if certificate is None else certificate.subject),
            ("certificate expires", None if certificate is None else certificate.expires_at),
            ("tokens from", None if token is None else token.token_url or token.issuer),
            ("tokens for", None if token is None else token.client_id),
            ("proxy", None if proxy is None else proxy.url),
            ("CloudEvents", None if events is None else f"{events.type} from {events.source}"),
            ("paused since", destination.paused_at),
            ("revision", destination.revision),
            ("created", destination.created_at),
            ("changed", destination.changed_at),
            *([] if figures is None else _figures(figures)),
        ]
    )
