"""`minutehand audit-log`: what administrators did, and clients about themselves."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from minutehand.cli.options import DEFAULT_URL, AsJson, KeyText, Url, connect, limit_of
from minutehand.cli.output import at_most, print_json, print_table, show

if TYPE_CHECKING:
    from minutehand.client import AuditEntry

app = typer.Typer()

_PAGE = 1000
_WINDOW = ("start", "end")


@app.command("audit-log", epilog="Example: minutehand audit-log --from 2026-11-21T00:00:00Z --limit 20")
def audit_log(
    start: Annotated[
        str | None,
        typer.Option("--from", help="First instant, RFC 3339. [default: 24 hours before the last]", show_default=False),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", help="Before this instant, 31 days later at most. [default: now]", show_default=False),
    ] = None,
    client_id: Annotated[
        str | None,
        typer.Option(
            "--client",
            metavar="CLIENT",
            help="Only what was done to this client. Takes the client's own key of scope manage, too.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[int, limit_of("actions")] = 1000,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Show what was changed, by whom and with what result, newest first.

    Listed is what administrators did, and what clients did to themselves: their keys, signing secrets, settings and
    pauses; and, as done by `$system`, pauses of crons whose runs fail. It takes an administrator's key; with --client,
    that client's own key of scope manage suffices. The result `unknown` means that storage gave no answer: the change
    may or may not have been made.
    """
    with connect(url, key) as api:
        log = api.audit_log if client_id is None else api.client(client_id).audit_log
        entries, more = at_most(limit, log(start=start, end=end, page_size=min(limit + 1, _PAGE)))
    if as_json:
        print_json(entries, more=more)
        return
    rows = [
        (one.at, one.actor, one.key_id, one.action, _named(one), one.result, one.problem, one.request_id)
        for one in entries
    ]
    print_table(
        ("AT", "WHO", "KEY ID", "ACTION", "ON", "RESULT", "PROBLEM", "REQUEST ID"),
        rows,
        yielding={"ON", "PROBLEM"},
        more=more,
    )


def _named(entry: "AuditEntry") -> str:
    """The objects of an action: the names in the path, and the ids of what was created."""
    return ", ".join(f"{name}={_value(name, value)}" for name, value in {**entry.target, **entry.details}.items())


def _value(name: str, value: str | int) -> str:
    """The ends of a window, which an entry has in milliseconds, as instants."""
    if name in _WINDOW and isinstance(value, int):
        return show(datetime.fromtimestamp(value / 1000, UTC))
    return str(value)
