"""`minutehand dead-letters`: schedules that failed for good."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from minutehand.cli.option_groups import grouped
from minutehand.cli.options import DEFAULT_URL, AsJson, ClientId, KeyText, Url, connect, limit_of
from minutehand.cli.output import are, at_most, print_json, print_table, say

if TYPE_CHECKING:
    from minutehand.client import AcknowledgedItem, RedrivenItem

app = typer.Typer(help="List, acknowledge and redeliver dead letters. Takes the client's own key.")

Start = Annotated[
    str | None,
    typer.Option("--from", help="First instant, RFC 3339. [default: 24 hours before the last]", show_default=False),
]
End = Annotated[
    str | None,
    typer.Option("--to", help="Before this instant, 24 hours later at most. [default: now]", show_default=False),
]
Host = Annotated[str | None, typer.Option("--host", help="Only calls to this host, without port.", show_default=False)]
Destination = Annotated[
    str | None, typer.Option("--destination", help="Only calls to the destination of this name.", show_default=False)
]
Status = Annotated[
    str | None, typer.Option("--status", help="Only this last HTTP status, or a class: 503, 5xx.", show_default=False)
]
Reason = Annotated[
    str | None, typer.Option("--reason", help="Only this reason, such as exhausted.", show_default=False)
]
Error = Annotated[
    str | None, typer.Option("--error", help="Only this last error, such as timeout.", show_default=False)
]
Label = Annotated[str | None, typer.Option("--label", help="Only schedules with this label.", show_default=False)]
LetterIds = Annotated[
    list[str] | None,
    typer.Argument(metavar="LETTER_ID", help="Letters, as `list --json` shows their letter_id; none: by the options."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which dead letters of a window are meant."""

    start: Start = None
    end: End = None
    host: Host = None
    destination: Destination = None
    status: Status = None
    reason: Reason = None
    error: Error = None
    label: Label = None

    def told(self) -> dict[str, Any]:
        """Those that are given, as the SDK takes them."""
        return {one.name: value for one in fields(self) if (value := getattr(self, one.name)) is not None}


@app.command("list", epilog="Example: minutehand dead-letters list shop --host shop.example --status 5xx")
@grouped
def list_(
    client_id: ClientId,
    *,
    filters: Filters,
    acknowledged: Annotated[
        Literal["false", "true", "any"], typer.Option("--acknowledged", help="Whether to show acknowledged ones.")
    ] = "false",
    limit: Annotated[int, limit_of("schedules")] = 100,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """List schedules that failed for good. By the instant of failure, with their present states."""
    with connect(url, key) as api:
        shown = None if acknowledged == "false" else acknowledged
        found = api.client(client_id).dead_letters.list(
            acknowledged=shown, page_size=min(limit + 1, 200), **filters.told()
        )
        letters, more = at_most(limit, found)
    if as_json:
        print_json(letters, more=more)
        return
    rows = [
        (
            one.failed_at,
            one.schedule_id,
            one.destination or one.host,
            one.reason,
            one.attempts,
            one.last_status,
            one.last_error,
            one.state,
        )
        for one in letters
    ]
    print_table(
        ("FAILED", "SCHEDULE ID", "RECEIVER", "REASON", "ATTEMPTS", "STATUS", "ERROR", "STATE NOW"),
        rows,
        yielding={"ERROR", "RECEIVER"},
        more=more,
    )


@app.command(epilog="Example: minutehand dead-letters redeliver shop --from 2026-11-21T00:00:00Z --status 5xx")
@grouped
def redeliver(
    client_id: ClientId,
    *,
    letter_ids: LetterIds = None,
    filters: Filters,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Call again what failed for good, by ids or by a window. What was redelivered since is left alone."""
    selection = _selection(letter_ids, filters)
    redelivered = passed_over = 0
    items: list[RedrivenItem] = []
    with connect(url, key) as api:
        letters = api.client(client_id).dead_letters
        done = letters.redeliver(**selection)
        while True:
            redelivered, passed_over = redelivered + done.redelivered, passed_over + done.passed_over
            items += done.items
            if done.next_cursor is None:
                break
            done = letters.redeliver(limit=1000, cursor=done.next_cursor)
    if as_json:
        print_json({"redelivered": redelivered, "passed_over": passed_over, "items": items})
        return
    unknown = sum(item.status == 404 for item in items)
    gone = sum(item.reason == "events-gone" for item in items)
    since = passed_over - unknown - gone
    whys = [
        (unknown, "not found"),
        (since, "open or redelivered since"),
        (gone, "without events by now"),
    ]
    why = ", ".join(f"{count} {what}" for count, what in whys if count > 0)
    left = f"; {are(passed_over, past=True)} passed over ({why})" if passed_over else ""
    say(f"{are(redelivered)} called again{left}.")


@app.command(epilog="Example: minutehand dead-letters acknowledge shop --host shop.example --reason exhausted")
@grouped
def acknowledge(
    client_id: ClientId,
    *,
    letter_ids: LetterIds = None,
    filters: Filters,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Leave dead letters out of the list from now on. By ids or by a window; who did so and when is kept."""
    selection = _selection(letter_ids, filters)
    acknowledged = 0
    items: list[AcknowledgedItem] = []
    with connect(url, key) as api:
        letters = api.client(client_id).dead_letters
        done = letters.acknowledge(**selection)
        while True:
            acknowledged += done.acknowledged
            items += done.items
            if done.next_cursor is None:
                break
            done = letters.acknowledge(limit=1000, cursor=done.next_cursor)
    if as_json:
        print_json({"acknowledged": acknowledged, "items": items})
        return
    unknown = sum(item.status == 404 for item in items)
    say(f"{are(acknowledged)} acknowledged" + (f"; {are(unknown, past=True)} not found." if unknown else "."))


def _selection(letter_ids: list[str] | None, filters: Filters) -> dict[str, Any]:
    return {**filters.told(), **({"letter_ids": letter_ids} if letter_ids else {"limit": 1000})}
