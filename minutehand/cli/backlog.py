"""`minutehand backlog`: what is overdue, of a client or of all."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from minutehand.cli.options import DEFAULT_URL, AsJson, KeyText, Url, connect
from minutehand.cli.output import print_json, print_table

if TYPE_CHECKING:
    from minutehand.client import Backlog, Overdue

app = typer.Typer()

_AGES = ("<1MIN", "<10MIN", "<1H", "<6H", "<1D", "OLDER")


@app.command(epilog="Example: minutehand backlog shop")
def backlog(
    client_id: Annotated[
        str | None,
        typer.Argument(metavar="CLIENT", help="The client's id. [default: all clients]", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100, help="How many clients to show, of all.")] = 20,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Show what is overdue by age, why it is held, and how long it takes at least to call it.

    Of all clients those are shown whose pollers are behind, the worst first, which needs an administrator's key.
    Figures after a `~` are estimated in part: only a bounded number of schedules is read.
    """
    with connect(url, key) as api:
        if client_id is not None:
            one = api.client(client_id).backlog()
            if as_json:
                print_json(one)
            else:
                _print([one])
            return
        found = api.backlog(page_size=limit)
    if as_json:
        print_json(found)
        return
    if not found.clients:
        typer.echo("No client is behind by more than two minutes.")
        return
    _print(found.items)
    typer.echo(
        f"{_rows(found.overdue)} overdue of {found.clients:,} clients; {_time(found.drain_seconds)} at the capacity "
        "of the live nodes."
    )
    if found.next_cursor is not None:
        typer.echo("There are more clients: see --limit.")


def _print(several: "Sequence[Backlog]") -> None:
    columns = ("CLIENT", "OVERDUE", *_AGES, "OLDEST", "POLLERS BEHIND", "TO SKIP", "CALLED IN", "HELD BY")
    print_table(columns, [_line(one) for one in several], yielding={"HELD BY"})


def _line(one: "Backlog") -> Sequence[object]:
    ages = one.overdue.ages
    by_age = (
        ages.under_1_minute,
        ages.under_10_minutes,
        ages.under_1_hour,
        ages.under_6_hours,
        ages.under_1_day,
        ages.older,
    )
    return (
        one.client_id,
        _rows(one.overdue),
        *(f"{rows:,}" for rows in by_age),
        one.overdue.oldest,
        f"{one.pollers_behind} of {one.pollers}",
        f"{one.to_skip:,}",
        _time(one.drain_seconds),
        ", ".join(_held_by(one)) or None,
    )


def _held_by(one: "Backlog") -> Iterator[str]:
    for reason in one.held_by:
        rate = one.overdue_per_second if reason == "overdue-rate" else None
        yield reason if rate is None else f"{reason} ({rate:g}/s)"


def _rows(overdue: "Overdue") -> str:
    return f"{overdue.rows:,}" if overdue.exact else f"~{overdue.rows:,}"


def _time(seconds: int | None) -> str:
    """Some words for a time; it is only an estimate."""
    if seconds is None:
        return "never"
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7_200 else f"{seconds / 3_600:.1f} h"
