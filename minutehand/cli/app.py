"""The command tree. A command's module is imported when the command is run or its own help is asked for."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
import typer.core
import typer.main

from minutehand.cli import login
from minutehand.cli.options import CA_FILE_VARIABLE, trust
from minutehand.version import VERSION

_HELP_OPTIONS = ("-h", "--help")
_UNWRAPPED = "\b\n"
"""Before a paragraph of a help: it stays on its line, so that what is copied from it can be run."""
_STYLE: Mapping[str, Any] = {"pretty_exceptions_enable": False, "rich_markup_mode": None}


class _Entry(NamedTuple):
    """A command, or a group of them, in the `app` of a module, and what the help says of it."""

    module: str
    what: str

    def load(self, name: str) -> Any:
        module, tree = import_module(f"minutehand.cli.{self.module}"), typer.Typer(**_STYLE)
        tree.add_typer(module.app, name=name, no_args_is_help=True)
        group: Any = typer.main.get_group(tree).commands[name]
        for command in group.commands.values():
            command.epilog = f"{_UNWRAPPED}{command.epilog}"
        # A group shows the example of its first command.
        group.epilog = next(iter(group.commands.values())).epilog
        return group.commands.get(name, group)


class _Root(typer.core.TyperGroup):
    """Its commands hold no more than what its help and a completion say of them."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else TREE[name].load(name), rest


app = typer.Typer(
    name="minutehand",
    cls=_Root,
    help="Minutehand calls your service at the second you asked for.",
    epilog="Example: minutehand demo --once",
    no_args_is_help=True,
    context_settings={"help_option_names": list(_HELP_OPTIONS)},
    **_STYLE,
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


TREE = {
    "demo": _Entry("demo", "Run everything here and watch callbacks arrive."),
    "dev": _Entry("dev", "Run a server for tests: in memory, with time to move."),
    "login": _Entry("login", "Keep an address and a key under a name."),
    "logout": _Entry("login", "Forget an address and its key."),
    "profiles": _Entry("login", "List the addresses that are kept."),
    "api": _Entry("servers", "Run an API process."),
    "node": _Entry("servers", "Run a node."),
    "migrate": _Entry("servers", "Create the keyspace, or bring it up to date."),
    "cluster": _Entry("cluster", "Watch the nodes and what they own."),
    "balance": _Entry("balance", "Show what became of a client's schedules, minute by minute."),
    "backlog": _Entry("backlog", "Show what is overdue, and why."),
    "overdue-rate": _Entry("overdue_rate", "Say how fast overdue calls are made."),
    "forecast": _Entry("forecast", "Show what minutes ahead are to call."),
    "audit-log": _Entry("audit_log", "Show what administrators and clients changed."),
    "usage": _Entry("usage", "Show what a client used, day by day."),
    "audits": _Entry("audits", "Show what audits of a client's books found."),
    "config": _Entry("config", "Print every setting with its default."),
    "metrics": _Entry("metrics", "Print every metric and what it means."),
    "clients": _Entry("clients", "Register clients and look after them."),
    "keys": _Entry("keys", "Make, list and revoke a client's keys."),
    "admin-keys": _Entry("admin_keys", "Make, list and revoke administrators' keys."),
    "signing-secrets": _Entry("signing_secrets", "Make, list and delete what a client's calls are signed with."),
    "schedules": _Entry("schedules", "Create, look at, cancel and list schedules."),
    "crons": _Entry("crons", "Put crons and look after them; try a rule out."),
    "import": _Entry("imports", "Take over what another scheduler has."),
    "destinations": _Entry("destinations", "Say once where calls go, and look after it."),
    "events": _Entry("events", "Read what became of a client's schedules, as it happens."),
    "subscriptions": _Entry("subscriptions", "Say which events are sent where."),
    "dead-letters": _Entry("dead_letters", "List and redeliver dead letters."),
    "spark": _Entry("spark", "Run a job over the tables with Spark."),
    "ingest": _Entry("ingest", "Make schedules of records in Kafka."),
    "reconciliations": _Entry("reconciliations", "Count, call again or cancel everything in a window."),
    "secrets": _Entry("secrets", "Manage the keys that signing secrets are stored under."),
    "nodes": _Entry("nodes", "Manage single nodes."),
    "cassandra": _Entry("cassandra", "Start and stop a Cassandra on this machine."),
}


def _placeholder() -> None:
    """The command of a name, until `_Root` loads it."""


for _name, _entry in TREE.items():
    app.command(_name, short_help=_entry.what)(_placeholder)


def help_of(arguments: Sequence[str]) -> str | None:
    """The help of a command, where names of commands and --help are all that is given. No option is converted for it:
    typer imports pydantic for the first one."""
    *names, last = arguments or ("",)
    if last not in _HELP_OPTIONS:
        return None
    command: Any = typer.main.get_command(app)
    context = typer.Context(command, info_name="minutehand", **command.context_settings)
    for name in names:
        if name not in getattr(command, "commands", ()):
            return None
        _, command, _ = command.resolve_command(context, [name])
        context = typer.Context(command, info_name=name, parent=context)
    return None if command.get_help_option(context) is None else context.get_help()
