"""`minutehand nodes`: operations on single nodes."""

from typing import Annotated

import typer

from minutehand.cli.options import DEFAULT_URL, AsJson, KeyText, Url, connect
from minutehand.cli.output import print_json, say

app = typer.Typer(help="Look after single nodes; `minutehand cluster` shows them. Needs an administrator's key.")

NodeId = Annotated[
    str, typer.Argument(metavar="NODE", help="The node's id, as `cluster` shows it.", show_default=False)
]


@app.command(epilog="Example: minutehand nodes drain node-1")
def drain(
    node_id: NodeId,
    force: Annotated[
        bool, typer.Option("--force", help="Also when no other node takes pollers: then nobody is called.")
    ] = False,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Have a node hand over its pollers to the others. It stays a member, draining, until it is stopped.

    The last node that takes pollers refuses, unless it is forced. Restarted, or told to `undrain`, it takes its share
    again.
    """
    with connect(url, key) as api:
        draining = api.nodes.drain(node_id, force=force)
    if as_json:
        print_json(draining)
    else:
        say(f"The node {node_id} hands over its pollers; `minutehand cluster` shows how many are left.")


@app.command(epilog="Example: minutehand nodes undrain node-1")
def undrain(node_id: NodeId, url: Url = DEFAULT_URL, key: KeyText = None, as_json: AsJson = False) -> None:
    """Have a draining node take its share of pollers again."""
    with connect(url, key) as api:
        taking = api.nodes.undrain(node_id)
    if as_json:
        print_json(taking)
    else:
        say(f"The node {node_id} takes pollers again; `minutehand cluster` shows how many it has.")
