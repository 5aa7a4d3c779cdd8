"""`minutehand cassandra`: an embedded Cassandra that outlives the command."""

from pathlib import Path
from typing import Annotated

import typer

from minutehand.cli.options import AsJson
from minutehand.cli.output import print_fields, print_json, say

app = typer.Typer(
    help="Start and stop a Cassandra on this machine, for trying things out. It listens on loopback only."
)

DEFAULT_PORT = 9042
DEFAULT_STORAGE_PORT = 7000
DataDir = Annotated[
    Path, typer.Option("--data-dir", metavar="DIR", help="Where it keeps data, logs and its state.", show_default=True)
]
DEFAULT_DIR = Path(".minutehand/cassandra-server")


@app.command(epilog="Example: minutehand cassandra start --data-dir ~/cassandra")
def start(
    data_dir: DataDir = DEFAULT_DIR,
    native_port: Annotated[int, typer.Option("--native-port", help="Port for CQL.")] = DEFAULT_PORT,
    storage_port: Annotated[int, typer.Option("--storage-port", help="Port for other nodes.")] = DEFAULT_STORAGE_PORT,
    heap_mb: Annotated[int, typer.Option("--heap-mb", min=512, help="Memory of the Java heap, in MiB.")] = 1024,
    as_json: AsJson = False,
) -> None:
    """Start it and return when it answers. The first start downloads it. It runs until `cassandra stop`."""
    from minutehand.local import ProgressLines, find_cassandra, start_cassandra

    running = find_cassandra(data_dir)
    if running is None or not running.answers():
        running = start_cassandra(
            data_dir,
            native_port=native_port,
            storage_port=storage_port,
            heap_mb=heap_mb,
            tied=False,
            progress=ProgressLines(),
        )
    _show("running", data_dir, running.port, running.pid, as_json)


@app.command(epilog="Example: minutehand cassandra stop --data-dir ~/cassandra")
def stop(data_dir: DataDir = DEFAULT_DIR, as_json: AsJson = False) -> None:
    """Stop it. The data stays."""
    from minutehand.local import find_cassandra

    running = find_cassandra(data_dir)
    if running is not None:
        running.stop()
    if as_json:
        print_json({"state": "stopped", "data_dir": str(data_dir)})
    else:
        say("No Cassandra ran there." if running is None else f"The Cassandra on {data_dir} is stopped.")


@app.command(epilog="Example: minutehand cassandra status --json")
def status(data_dir: DataDir = DEFAULT_DIR, as_json: AsJson = False) -> None:
    """Say whether it runs. Exit code 1 when it does not."""
    from minutehand.local import find_cassandra

    running = find_cassandra(data_dir)
    if running is None:
        if as_json:
            print_json({"state": "stopped", "data_dir": str(data_dir)})
        else:
            say(f"No Cassandra runs on {data_dir}.")
        raise typer.Exit(1)
    _show("running" if running.answers() else "starting", data_dir, running.port, running.pid, as_json)


def _show(state: str, data_dir: Path, port: int, pid: int, as_json: bool) -> None:
    if as_json:
        print_json({"state": state, "host": "127.0.0.1", "port": port, "pid": pid, "data_dir": str(data_dir)})
    else:
        print_fields([("state", state), ("address", f"127.0.0.1:{port}"), ("pid", pid), ("data", data_dir)])
