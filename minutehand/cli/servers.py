"""`minutehand api`, `minutehand node` and `minutehand migrate`: the processes of a cluster."""

import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from minutehand.cli.options import AsJson, ConfigFile, environment
from minutehand.cli.output import print_json, say

if TYPE_CHECKING:
    from minutehand.config import Settings

app = typer.Typer()


@app.command(epilog="Example: minutehand api --config minutehand.toml --port 8080")
def api(
    config: ConfigFile = None,
    host: Annotated[
        str | None, typer.Option("--host", help="Address to listen on, over the configuration's.", show_default=False)
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65_535, help="Port to listen on; 0 takes a free one.", show_default=False),
    ] = None,
    processes: Annotated[
        int,
        typer.Option(
            "--processes",
            min=1,
            max=256,
            help="Processes to run here behind one port. /metrics shows them all, by the label `process`.",
        ),
    ] = 1,
) -> None:
    """Run an API until it is told to stop (SIGTERM, Ctrl-C).

    Needs a migrated keyspace, an administrator's key (api.admin_key) and the cluster's token (cluster.token). Of
    several processes, one that ends by itself is started again.
    """
    from minutehand.config import FOR_API
    from minutehand.processes.several import run_apis
    from minutehand.running import run_process
    from minutehand.wiring_api import serve_api
    from scheduler_service.runtime.logging import configure_logging

    given = {"MINUTEHAND_API_HOST": host, "MINUTEHAND_API_PORT": port}
    settings = _load(config, FOR_API, given)
    if processes > 1:
        configure_logging(settings.logging, identity={"program": "apis"})
        _say_configured(config)
        run_apis(settings, processes=processes, config=config)
        return
    assert settings.api is not None
    shared = {"pid": str(os.getpid())} if settings.api.share_port else {}
    configure_logging(settings.logging, identity={"program": "api", **shared})
    _say_configured(config)
    run_process(lambda stop: serve_api(settings, stop))


@app.command(epilog="Example: minutehand node --config minutehand.toml --processes 2")
def node(
    config: ConfigFile = None,
    node_id: Annotated[
        str | None,
        typer.Option(
            "--node-id",
            help="This node's name: the same after a restart, and unlike any other's. [default: from the host name]",
            show_default=False,
        ),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes",
            min=1,
            max=256,
            help="Nodes to run here, a process each: NAME-0, NAME-1, ...; of 1, NAME itself. [default: one a core]",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Run nodes until they are told to stop (SIGTERM, Ctrl-C); they hand their pollers over first.

    Needs a migrated keyspace and the cluster's token (cluster.token). A process that ends by itself is started again,
    unless it is the only one: then the command ends with it.
    """
    from membership.identity import NodeId
    from minutehand.config import FOR_NODE
    from minutehand.processes.several import cores, run_nodes
    from minutehand.running import run_process
    from minutehand.wiring_node import serve_node
    from scheduler_service.runtime.logging import configure_logging

    settings = _load(config, FOR_NODE, {"MINUTEHAND_CLUSTER_NODE_ID": node_id})
    name = settings.cluster.node_id or _default_node_id()
    count = processes or cores()
    if count > 1:
        configure_logging(settings.logging, identity={"program": "nodes", "node_id": name})
        _say_configured(config)
        run_nodes(settings, node_id=name, processes=count, config=config)
        return
    configure_logging(settings.logging, identity={"program": "node", "node_id": name})
    _say_configured(config)
    run_process(lambda stop: serve_node(settings, node_id=NodeId(name), stop=stop))


@app.command(epilog="Example: minutehand migrate --config minutehand.toml")
def migrate(config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Create the keyspace, or bring it to this version's schema. Harmless to repeat, and to run twice at once."""
    import asyncio

    from cql.migrate import migrate as bring_up_to_date
    from minutehand.config import FOR_STORAGE
    from scheduler_service.runtime.clock import SystemClock
    from scheduler_service.runtime.logging import configure_logging
    from scheduler_service.runtime.randomness import SystemRandomness

    settings = _load(config, FOR_STORAGE, {})
    configure_logging(settings.logging, identity={"program": "migrate"})
    _say_configured(config)
    applied = asyncio.run(bring_up_to_date(settings.cassandra, clock=SystemClock(), randomness=SystemRandomness()))
    if as_json:
        print_json({"keyspace": settings.cassandra.keyspace, "applied": [one.version for one in applied]})
    elif applied:
        say(f"The keyspace {settings.cassandra.keyspace} was migrated: {', '.join(one.name for one in applied)}.")
    else:
        say(f"The keyspace {settings.cassandra.keyspace} is up to date.")


def _load(config: Path | None, required: tuple[str, ...], flags: dict[str, str | int | None]) -> "Settings":
    """Load the settings; flags override variables of the environment."""
    from minutehand.config import load_settings

    over = {name: str(value) for name, value in flags.items() if value is not None}
    return load_settings(environment={**environment(), **over}, file=config, required=required)


def _say_configured(config: Path | None) -> None:
    """Log where the settings come from, once there is a log. Names of variables, never their values."""
    from minutehand.config import FILE_VARIABLE
    from minutehand.config_values import PREFIX
    from minutehand.version import VERSION
    from scheduler_service.runtime.logging import get_logger

    given = environment()
    file = given.get(FILE_VARIABLE) if config is None else str(config)
    variables = sorted(name for name in given if name.startswith(PREFIX) and name != FILE_VARIABLE)
    log = get_logger("minutehand")
    log.info("config-loaded", version=VERSION, file=file, variables=variables)


def _default_node_id() -> str:
    return re.sub(r"[^a-z0-9.-]+", "-", socket.gethostname().lower()).strip("-.") or "node"
