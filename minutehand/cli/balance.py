"""`minutehand balance`: accepted schedules of each minute by their outcome."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from minutehand.cli.options import DEFAULT_URL, AsJson, ClientId, KeyText, Url, connect
from minutehand.cli.output import print_json, print_table

if TYPE_CHECKING:
    from minutehand.client import MinuteBalance

app = typer.Typer()

COUNTS = ("accepted", "delivered", "failed", "cancelled", "skipped", "open")
_PAGE = 1000


@app.command(epilog="Example: minutehand balance shop --from 2026-11-21T09:00:00Z --to 2026-11-21T10:00:00Z")
def balance(
    client_id: ClientId,
    start: Annotated[
        str | None, typer.Option("--from", help="First instant, RFC 3339. [default: an hour ago]", show_default=False)
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", help="Before this instant, 24 hours later at most. [default: now]", show_default=False),
    ] = None,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Show a client's books: accepted = delivered + failed + cancelled + skipped + open, for every minute.

    P50, P99 and MAX say how many seconds later than due the first attempts began.
    """
    with connect(url, key) as api:
        minutes = list(api.client(client_id).balance(start=start, end=end, page_size=_PAGE))
    total = {name: sum(getattr(minute, name) for minute in minutes) for name in COUNTS}
    if as_json:
        print_json({"minutes": minutes, "total": total})
        return
    rows = [_row(minute) for minute in minutes]
    if minutes:
        rows.append(("total", *_numbers(total.values()), "", "", ""))
    print_table(("MINUTE", *map(str.upper, COUNTS), "P50 (s)", "P99 (s)", "MAX (s)"), rows)


def _row(minute: "MinuteBalance") -> Sequence[Any]:
    late = minute.lateness
    lateness = (None,) * 3 if late is None else (late.p50_seconds, late.p99_seconds, late.max_seconds)
    return (minute.minute, *_numbers(getattr(minute, name) for name in COUNTS), *lateness)


def _numbers(values: Iterable[int]) -> list[str]:
    return [f"{value:,}" for value in values]
