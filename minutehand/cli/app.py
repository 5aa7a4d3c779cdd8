"""The command tree."""

from collections.abc import Callable
from typing import Annotated

import typer

from minutehand.cli import (
    admin_keys,
    audit_log,
    audits,
    balance,
    cassandra,
    clients,
    cluster,
    config,
    crons,
    dead_letters,
    demo,
    keys,
    login,
    metrics,
    nodes,
    reconciliations,
    schedules,
    secrets,
    servers,
    signing_secrets,
    spark,
    usage,
)
from minutehand.cli.options import CA_FILE_VARIABLE, trust
from minutehand.version import VERSION

app = typer.Typer(
    name="minutehand",
    help="Minutehand calls your service at the second you asked for.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"minutehand {VERSION}")
        raise typer.Exit


@app.callback()
def main(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    ca_file: Annotated[
        str | None,
        typer.Option(
            "--ca-file",
            metavar="FILE",
            help="PEM file of the authorities that signed the API's certificate, where they are not public ones. "
            f"Also: {CA_FILE_VARIABLE}.",
            show_default=False,
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="NAME",
            help=f"Take address and key from what `minutehand login NAME` kept. Also: {login.PROFILE_VARIABLE}.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Minutehand calls your service at the second you asked for."""
    if ca_file is not None:
        trust(ca_file)
    login.use_profile(context.invoked_subcommand, profile)


def _add(command: Callable[..., None], what: str, example: str) -> None:
    app.command(short_help=what, epilog=f"Example: minutehand {example}")(command)


_add(demo.demo, "Run everything here and watch callbacks arrive.", "demo --once")
_add(login.login, "Keep an address and a key under a name.", "login shop --url https://minutehand.example")
_add(login.logout, "Forget an address and its key.", "logout shop")
_add(login.profiles, "List the addresses that are kept.", "profiles")
_add(servers.api, "Run an API process.", "api --config minutehand.toml --port 8080")
_add(servers.node, "Run a node.", "node --config minutehand.toml --processes 2")
_add(servers.migrate, "Create the keyspace, or bring it up to date.", "migrate --config minutehand.toml")
_add(cluster.cluster, "Watch the nodes and what they own.", "cluster --client shop")
_add(
    balance.balance,
    "Show what became of a client's schedules, minute by minute.",
    "balance shop --from 2026-11-21T09:00:00Z --to 2026-11-21T10:00:00Z",
)
_add(
    audit_log.audit_log,
    "Show what administrators and clients changed.",
    "audit-log --from 2026-11-21T00:00:00Z --limit 20",
)
_add(usage.usage, "Show what a client used, day by day.", "usage shop --from 2026-11-21 --hours")
_add(audits.audits, "Show what audits of a client's books found.", "audits shop --limit 5")
_add(config.config, "Print every setting with its default.", "config > minutehand.toml")
_add(metrics.metrics, "Print every metric and what it means.", "metrics --json")
app.add_typer(clients.app, name="clients", short_help="Register clients and look after them.", no_args_is_help=True)
app.add_typer(keys.app, name="keys", short_help="Make, list and revoke a client's keys.", no_args_is_help=True)
app.add_typer(
    admin_keys.app,
    name="admin-keys",
    short_help="Make, list and revoke administrators' keys.",
    no_args_is_help=True,
)
app.add_typer(
    signing_secrets.app,
    name="signing-secrets",
    short_help="Make, list and delete what a client's calls are signed with.",
    no_args_is_help=True,
)
app.add_typer(
    schedules.app, name="schedules", short_help="Create, look at, cancel and list schedules.", no_args_is_help=True
)
app.add_typer(
    crons.app, name="crons", short_help="Put crons and look after them; try a rule out.", no_args_is_help=True
)
app.add_typer(
    dead_letters.app,
    name="dead-letters",
    short_help="List and redeliver dead letters.",
    no_args_is_help=True,
)
app.add_typer(spark.app, name="spark", short_help="Run a job over the tables with Spark.", no_args_is_help=True)
app.add_typer(
    reconciliations.app,
    name="reconciliations",
    short_help="Count, call again or cancel everything in a window.",
    no_args_is_help=True,
)
app.add_typer(
    secrets.app,
    name="secrets",
    short_help="Manage the keys that signing secrets are stored under.",
    no_args_is_help=True,
)
app.add_typer(nodes.app, name="nodes", short_help="Manage single nodes.", no_args_is_help=True)
app.add_typer(
    cassandra.app, name="cassandra", short_help="Start and stop a Cassandra on this machine.", no_args_is_help=True
)
