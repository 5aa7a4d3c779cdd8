"""`minutehand demo`: a whole cluster on this machine, to watch."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command(epilog="Example: minutehand demo --once")
def demo(
    once: Annotated[bool, typer.Option("--once", help="End by itself when the first callbacks were verified.")] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Delete what earlier demos stored in DIR, and begin with nothing.")
    ] = False,
    kafka: Annotated[
        bool,
        typer.Option("--kafka", help="Also start a Kafka, whose records become schedules, and to which calls may go."),
    ] = False,
    targets: Annotated[
        Path | None,
        typer.Option(
            "--targets",
            metavar="FILE",
            help="What calls may go to beside HTTP, as `targets.file` of the configuration.",
            show_default=False,
        ),
    ] = None,
    directory: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="Where data, logs and demo.json are kept.", show_default=True)
    ] = Path(".minutehand"),
    nodes: Annotated[int, typer.Option("--nodes", min=1, max=8, help="Nodes, one process each.")] = 2,
    heap_mb: Annotated[int, typer.Option("--heap-mb", min=512, help="Memory of Cassandra's Java heap, in MiB.")] = 768,
    api_port: Annotated[
        int | None, typer.Option("--api-port", min=1, max=65_535, help="Port of the API.", show_default=False)
    ] = None,
    receiver_port: Annotated[
        int | None, typer.Option("--receiver-port", min=1, max=65_535, help="Port of the receiver.", show_default=False)
    ] = None,
    cassandra_port: Annotated[
        int | None, typer.Option("--native-port", min=1, max=65_535, help="Cassandra's port.", show_default=False)
    ] = None,
    bigben: Annotated[bool, typer.Option("--bigben", help="Serve programs that were written for BigBen, too.")] = False,
    goscheduler: Annotated[
        bool, typer.Option("--goscheduler", help="Serve programs that were written for GoScheduler, too.")
    ] = False,
) -> None:
    """Start a Cassandra, an API, nodes and a receiver on this machine, and watch callbacks arrive.

    Ports that are not given are chosen. While it runs, DIR/demo.json holds addresses, keys and process ids for scripts.
    Ctrl-C stops everything; the data stays in DIR, and the next start goes on with it: calls that came due meanwhile
    are made then. With --fresh it is deleted first, unless a demo runs on it.
    """
    from minutehand.local.demo.cluster import ClusterOptions
    from minutehand.local.demo.run import run_demo
    from minutehand.local.progress import ProgressLines
    from minutehand.local.settings import FIRST_COMPILER

    options = ClusterOptions(
        directory=directory,
        nodes=nodes,
        heap_mb=heap_mb,
        cassandra_port=cassandra_port,
        api_port=api_port,
        receiver_port=receiver_port,
        kafka=kafka,
        targets=targets,
        java_options=(FIRST_COMPILER,),
        bigben=bigben,
        goscheduler=goscheduler,
    )
    run_demo(options, once=once, fresh=fresh, say=lambda line: typer.echo(line), progress=ProgressLines())
