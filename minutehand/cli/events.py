"""`minutehand events`: what became of a client's schedules, as it happens."""

from typing import TYPE_CHECKING, Annotated

import typer

from minutehand.cli.options import DEFAULT_URL, AsJson, ClientId, KeyText, Url, connect, limit_of
from minutehand.cli.output import at_most, print_json, print_json_line, print_table, say, show

if TYPE_CHECKING:
    from minutehand.client import Event

app = typer.Typer(help="Read a client's feed of events, which its setting event_feed turns on.")

_HEAD = ("AT", "TYPE", "SCHEDULE", "WHAT")

Since = Annotated[
    str | None,
    typer.Option("--since", help="What came from this instant on, RFC 3339: up to a day back.", show_default=False),
]


@app.command("list", epilog="Example: minutehand events list shop --since 2026-11-21T09:00:00Z --limit 50")
def list_(
    client_id: ClientId,
    since: Since = None,
    limit: Annotated[int, limit_of("events")] = 100,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """List events that are kept, oldest first: a day's at least."""
    with connect(url, key) as api:
        feed = api.client(client_id).events(after=None if since else "earliest", since=since, follow=False)
        events, more = at_most(limit, feed)
    if as_json:
        print_json({"events": events}, more=more)
    else:
        print_table(_HEAD, [_row(event) for event in events], yielding={"WHAT"}, more=more)


@app.command(epilog="Example: minutehand events tail shop")
def tail(
    client_id: ClientId,
    since: Since = None,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Print events as they come.

    Each is a line, with --json a document, until the command is interrupted. It goes on by itself when the API was
    away for a while. An event may come again, with the same id."""
    with connect(url, key) as api:
        for event in api.client(client_id).events(since=since):
            if as_json:
                print_json_line(event)
            else:
                say("  ".join(show(value) for value in _row(event)))


def _row(event: "Event") -> tuple[object, ...]:
    told = ", ".join(f"{name}={value}" for name, value in event.data.items())
    return (event.at, event.type, event.schedule_id, told)
