"""`minutehand forecast`: what minutes ahead are to call, as a chart."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from minutehand.cli.options import DEFAULT_URL, AsJson, KeyText, Url, connect
from minutehand.cli.output import make_console, print_json, print_table

if TYPE_CHECKING:
    from minutehand.client import Forecast, ForecastMinute

app = typer.Typer()

_LINES = 60
_WIDTHS = (1, 5, 15, 60, 360, 1440)
"""Minutes that share a line: the fewest with which there are at most _LINES lines."""
_BAR = 40
_LEAST_BAR = 10
_HEAD = ("FROM", "CALLS", "FULLEST", "A MINUTE", "")
_GAP = 2


@app.command(epilog="Example: minutehand forecast shop --to 2026-11-28T09:00:00Z")
def forecast(
    client_id: Annotated[
        str | None,
        typer.Argument(metavar="CLIENT", help="The client's id. [default: all clients]", show_default=False),
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", help="First instant, RFC 3339. [default: now]", show_default=False)
    ] = None,
    end: Annotated[
        str | None,
        typer.Option(
            "--to", help="Before this instant, 31 days later at most. [default: 24 hours later]", show_default=False
        ),
    ] = None,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Show what minutes ahead are to call: stored schedules, and fires of crons that are not stored yet.

    A line has the calls of some minutes and the fullest minute of them, drawn against the guarantee of one client, or
    the capacity of the nodes for all clients, which needs an administrator's key.
    """
    with connect(url, key) as api:
        if client_id is None:
            found = api.forecast(start=start, end=end)
        else:
            found = api.client(client_id).forecast(start=start, end=end)
    if as_json:
        print_json(found)
        return
    bound = found.capacity_per_minute if client_id is None else found.guaranteed_per_minute
    print_table(_HEAD, chart(found, bound, bar=_room(found, bound)))
    typer.echo(
        f"Guaranteed: {found.guaranteed_per_minute:,} a minute; {found.minutes_beyond_guarantee:,} minutes have more. "
        f"Nodes can send {found.capacity_per_minute:,} a minute; {found.minutes_beyond_capacity:,} minutes have more."
    )
    if found.crons_left_out:
        typer.echo(f"Without the fires of {found.crons_left_out:,} crons: too many rules, or too many fires of one.")


def _room(forecast: "Forecast", bound: int) -> int:
    """How long bars may be beside the other columns, with what ends them: the bound and a mark."""
    lines = [_HEAD[:-1], *(line[:-1] for line in chart(forecast, bound))]
    others = sum(max(map(len, column)) + _GAP for column in zip(*lines, strict=True))
    return min(_BAR, max(_LEAST_BAR, make_console().width - others - len("| !")))


def chart(forecast: "Forecast", bound: int, *, bar: int = _BAR) -> list[Sequence[str]]:
    """The lines that have calls: when they begin, their calls, their fullest minute and its calls, and a bar of at most
    `bar` columns on which `|` is the bound."""
    span = (forecast.end - forecast.start) // timedelta(minutes=1)
    width = next((width for width in _WIDTHS if span <= width * _LINES), _WIDTHS[-1])
    top = max(bound, 0 if forecast.peak is None else forecast.peak.calls, 1)
    lines: dict[int, list[ForecastMinute]] = {}
    for minute in forecast.minutes():
        lines.setdefault(int(minute.minute.timestamp()) // 60 // width, []).append(minute)
    return [_line(number * width, minutes, bound, top, bar) for number, minutes in lines.items()]


def _line(at: int, minutes: "Iterable[ForecastMinute]", bound: int, top: int, length: int) -> Sequence[str]:
    of = list(minutes)
    fullest = max(of, key=lambda minute: minute.calls)
    bar = list(("#" * max(round(fullest.calls * length / top), 1)).ljust(length + 1))
    bar[round(bound * length / top)] = "|"
    return (
        f"{datetime.fromtimestamp(at * 60, UTC):%Y-%m-%d %H:%M}",
        f"{sum(minute.calls for minute in of):,}",
        f"{fullest.minute.astimezone(UTC):%H:%M}",
        f"{fullest.calls:,}",
        "".join(bar).rstrip() + (" !" if fullest.calls > bound else ""),
    )
