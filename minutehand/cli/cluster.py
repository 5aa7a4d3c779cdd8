"""`minutehand cluster`: the nodes and what they own, once or continuously."""

from typing import Annotated

import typer

from minutehand.cli.options import DEFAULT_URL, AsJson, KeyText, Url, connect
from minutehand.cli.output import make_console, print_json

app = typer.Typer()


@app.command(epilog="Example: minutehand cluster --client shop")
def cluster(
    once: Annotated[bool, typer.Option("--once", help="Print it once and end.")] = False,
    every_seconds: Annotated[
        float, typer.Option("--every", min=0.5, metavar="SECONDS", help="How often to look again.")
    ] = 2.0,
    client_id: Annotated[
        str | None,
        typer.Option("--client", metavar="CLIENT", help="Show the pollers of this client too.", show_default=False),
    ] = None,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Watch the nodes: their state, clocks and pollers, and guarantees against capacity. Ctrl-C ends it.

    Needs an administrator's key. Without a terminal, and with --json, it prints once, and exits with 1 if no calls are
    made.
    """
    from minutehand.cli.cluster_view import document, draw, look, watch

    console = make_console()
    with connect(url, key) as api:
        picture = look(api, client_id)
        if console.is_terminal and not (once or as_json):
            watch(api, picture, every_seconds, console)
            return
    if as_json:
        print_json(document(picture))
    else:
        console.print(draw(picture))
    if picture.cluster.not_calling is not None:
        raise typer.Exit(1)
