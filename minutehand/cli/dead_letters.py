"""`minutehand dead-letters`: schedules that failed for good."""

from typing import Annotated

import typer

from minutehand.cli.options import DEFAULT_URL, AsJson, ClientId, KeyText, Url, connect, limit_of
from minutehand.cli.output import at_most, print_json, print_table, say

app = typer.Typer(help="List and redeliver dead letters. Takes the client's own key.")

Start = Annotated[
    str | None,
    typer.Option("--from", help="First instant, RFC 3339. [default: 24 hours before the last]", show_default=False),
]
End = Annotated[
    str | None,
    typer.Option("--to", help="Before this instant, 24 hours later at most. [default: now]", show_default=False),
]


@app.command("list", epilog="Example: minutehand dead-letters list shop --from 2026-11-21T00:00:00Z")
def list_(
    client_id: ClientId,
    start: Start = None,
    end: End = None,
    limit: Annotated[int, limit_of("schedules")] = 100,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """List schedules that failed for good. By the instant of failure, with their present states."""
    with connect(url, key) as api:
        found = api.client(client_id).dead_letters.list(start=start, end=end, page_size=min(limit + 1, 200))
        letters, more = at_most(limit, found)
    if as_json:
        print_json(letters, more=more)
        return
    rows = [
        (one.failed_at, one.schedule_id, one.reason, one.attempts, one.last_status, one.last_error, one.state)
        for one in letters
    ]
    print_table(
        ("FAILED", "SCHEDULE ID", "REASON", "ATTEMPTS", "STATUS", "ERROR", "STATE NOW"),
        rows,
        yielding={"ERROR"},
        more=more,
    )


@app.command(epilog="Example: minutehand dead-letters redeliver shop --from 2026-11-21T00:00:00Z")
def redeliver(
    client_id: ClientId,
    start: Start = None,
    end: End = None,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Call again everything that failed for good within the window. What was redelivered since is left alone."""
    redelivered = passed_over = 0
    with connect(url, key) as api:
        letters = api.client(client_id).dead_letters
        done = letters.redeliver(start=start, end=end, limit=1000)
        while True:
            redelivered, passed_over = redelivered + done.redelivered, passed_over + done.passed_over
            if done.next_cursor is None:
                break
            done = letters.redeliver(limit=1000, cursor=done.next_cursor)
    if as_json:
        print_json({"redelivered": redelivered, "passed_over": passed_over})
        return
    say(f"{redelivered} are called again; {passed_over} were passed over.")
