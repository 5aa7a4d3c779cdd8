"""`minutehand secrets`: the keys that signing secrets, destinations and callbacks' headers are stored under."""

from typing import TYPE_CHECKING, Annotated

import typer

from minutehand.cli.options import AsJson, ConfigFile, environment
from minutehand.cli.output import print_json, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from minutehand.config import Settings
    from scheduler_service.usecases.secret_encryption import Rotation

app = typer.Typer(
    help="Look after the key ring that clients' signing secrets, destinations and callbacks' headers are encrypted "
    "with: the file that secrets.key_ring_file names, `ID KEY` a line. The first key encrypts, all decrypt. To replace "
    "a key: put a new one last in every process's file; when all have it put it first; rotate; remove the old one when "
    "the schedules created under it are past their retention."
)


@app.command("new-key", epilog="Example: minutehand secrets new-key >> keyring")
def new_key(
    key_id: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="Key id. [default: today's date]", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a key and print its line of the key ring. It is kept nowhere else."""
    from datetime import UTC, datetime

    from scheduler_service.runtime.clock import SystemClock
    from scheduler_service.runtime.randomness import SystemRandomness
    from scheduler_service.usecases.key_ring import new_key as make_key

    today = datetime.fromtimestamp(SystemClock().wall_ms() / 1000, UTC).date().isoformat()
    line = make_key(key_id or today, randomness=SystemRandomness())
    if as_json:
        name, _, key = line.partition(" ")
        print_json({"key_id": name, "key": key})
    else:
        typer.echo(line)


@app.command(epilog="Example: minutehand secrets rotate --config minutehand.toml --dry-run")
def rotate(
    config: ConfigFile = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    as_json: AsJson = False,
) -> None:
    """Encrypt every secret under the ring's first key.

    That is every signing secret, every destination and every cron's headers, also those in the clear. Headers of
    schedules stay under the key they were stored under: leave its line in the ring, behind the first, until the last
    schedule that was created under it is past its retention.

    Reads the same settings as an API: where Cassandra is, and the key ring. Harmless to repeat; the next run completes
    an interrupted one. Exit code 1 when some secrets are left under other keys.
    """
    import asyncio

    from minutehand.config import FOR_STORAGE, load_settings
    from minutehand.local import ProgressLines
    from scheduler_service.runtime.logging import configure_logging

    settings = load_settings(environment=environment(), file=config, required=FOR_STORAGE)
    configure_logging(settings.logging, identity={"program": "secrets"})
    lines = ProgressLines()
    done = asyncio.run(_rotate(settings, dry_run, lambda at, of: lines(at, of, "clients looked at")))
    _show(done, dry_run, as_json)
    if not done.complete:
        raise typer.Exit(1)


async def _rotate(settings: "Settings", dry_run: bool, progress: "Callable[[int, int], None]") -> "Rotation":
    from cql.storage import open_storage
    from scheduler_service.runtime.randomness import SystemRandomness
    from scheduler_service.usecases.secret_encryption import RotateSecrets, secret_encryption

    encryption = secret_encryption(settings.secrets, randomness=SystemRandomness())
    storage = await open_storage(settings.cassandra)
    try:
        rotation = RotateSecrets(
            store=storage.clients, crons=storage.crons, destinations=storage.destinations, encryption=encryption
        )
        return await rotation.run(dry=dry_run, on_progress=progress)
    finally:
        await storage.close()


def _show(done: "Rotation", dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "key_id": done.key_id,
                "dry_run": dry_run,
                "clients": done.clients,
                "encrypted": done.encrypted,
                "crons": done.crons,
                "destinations": done.destinations,
                "current": done.current,
                "unsettled": done.unsettled,
                "locked": done.locked,
            }
        )
        return
    would = "would be" if dry_run else "were"
    say(
        f"Of {done.clients} clients, {done.encrypted} signing secrets {would} encrypted under the key {done.key_id}; "
        f"{done.current} are already. So {would} {done.destinations} destinations and the headers of {done.crons} "
        "crons."
    )
    if done.unsettled:
        say(f"{done.unsettled} were being changed by somebody else or got no answer: run this again.")
    for sentence in done.locked:
        say(f"Left alone: {sentence}.")
