"""`minutehand overdue-rate`: how fast overdue calls of all clients are made."""

from typing import TYPE_CHECKING, Annotated

import typer

from minutehand.cli.options import DEFAULT_URL, AsJson, KeyText, Url, connect
from minutehand.cli.output import print_json

if TYPE_CHECKING:
    from minutehand.client import OverdueRate

app = typer.Typer(help="Say how fast overdue calls of all clients are made. Needs an administrator's key.")


@app.command("set", epilog="Example: minutehand overdue-rate set 50")
def set_(
    per_second: Annotated[
        float, typer.Argument(metavar="CALLS", min=0.1, help="Calls a second, over all nodes and clients.")
    ],
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Limit how many overdue calls a second are made.

    A call is overdue when it is more than a minute late, as after an outage. Calls on time are not limited.
    A client's own rate, `minutehand clients register --overdue-per-second`, holds beside it.
    """
    with connect(url, key) as api:
        _show(api.set_overdue_rate(per_second), as_json)


@app.command(epilog="Example: minutehand overdue-rate show")
def show(url: Url = DEFAULT_URL, key: KeyText = None, as_json: AsJson = False) -> None:
    """Show how many of them are made a second."""
    with connect(url, key) as api:
        _show(api.overdue_rate(), as_json)


@app.command(epilog="Example: minutehand overdue-rate remove")
def remove(url: Url = DEFAULT_URL, key: KeyText = None, as_json: AsJson = False) -> None:
    """Let them be made as fast as limits permit."""
    with connect(url, key) as api:
        api.remove_overdue_rate()
        _show(api.overdue_rate(), as_json)


def _show(rate: "OverdueRate", as_json: bool) -> None:
    if as_json:
        print_json(rate)
    elif rate.overdue_per_second is None:
        typer.echo("Overdue calls are made as fast as limits permit.")
    else:
        typer.echo(f"At most {rate.overdue_per_second:g} overdue calls a second are made of all clients together.")
