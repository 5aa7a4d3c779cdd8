"""`minutehand usage`: a client's usage, day by day."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from minutehand.cli.options import DEFAULT_URL, AsJson, ClientId, KeyText, Url, connect
from minutehand.cli.output import print_json, print_table

if TYPE_CHECKING:
    from minutehand.client import DayUsage, HourUsage

app = typer.Typer()

COUNTS = ("accepted", "delivered", "failed", "cancelled", "skipped", "open", "attempts", "bytes")
_HEAD = (*map(str.upper, COUNTS), "P50 (s)", "P95 (s)", "P99 (s)", "MAX (s)")


@app.command(epilog="Example: minutehand usage shop --from 2026-11-21 --hours")
def usage(
    client_id: ClientId,
    start: Annotated[
        str | None,
        typer.Option(
            "--from", help="First day, such as 2026-11-21. [default: a week before the last]", show_default=False
        ),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", help="Before this day, 31 days later at most. [default: tomorrow]", show_default=False),
    ] = None,
    hours: Annotated[bool, typer.Option("--hours", help="Show every hour instead of every day.")] = False,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Show what a client used, as `minutehand spark run usage` counted it last: by the day of the due, in UTC.

    An incomplete day has open schedules, or may still get some. P50, P95, P99 and MAX say how many seconds later
    than due the first attempts began.
    """
    with connect(url, key) as api:
        days = api.client(client_id).usage(start=start, end=end)
    if as_json:
        print_json({"days": days})
    elif hours:
        print_table(("HOUR", *_HEAD), [(f"{one.hour:%Y-%m-%d %H:%M}", *_row(one)) for day in days for one in day.hours])
    else:
        rows = [(day.day, day.complete, *_row(day), _hosts(day)) for day in days]
        print_table(("DAY", "COMPLETE", *_HEAD, "FAILING HOSTS"), rows, yielding={"FAILING HOSTS"})


def _row(used: "DayUsage | HourUsage") -> Sequence[Any]:
    late = used.lateness
    lateness = (None,) * 4 if late is None else (late.p50_seconds, late.p95_seconds, late.p99_seconds, late.max_seconds)
    return (*(f"{getattr(used, name):,}" for name in COUNTS), *lateness)


def _hosts(day: "DayUsage") -> str | None:
    return " ".join(f"{one.host}:{one.failed}" for one in day.failing_hosts[:3]) or None
