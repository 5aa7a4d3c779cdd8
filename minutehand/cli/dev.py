"""`minutehand dev`: a server for tests, in memory, whose time can be moved."""

from typing import TYPE_CHECKING, Annotated

import typer

from minutehand.cli.options import AsJson
from minutehand.cli.output import fail, print_json_line

if TYPE_CHECKING:
    from minutehand.dev.server import Access

app = typer.Typer()


@app.command(epilog="Example: minutehand dev --port 8090")
def dev(
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, help="Port to listen on; 0 takes a free one.")
    ] = 8090,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on. It is open to all who reach it.")
    ] = "127.0.0.1",
    follow: Annotated[
        bool, typer.Option("--follow", help="Let the clock follow real time at first, instead of standing.")
    ] = False,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="INSTANT", help="Where its clock begins. [default: now]", show_default=False),
    ] = None,
    admin_key: Annotated[
        str | None,
        typer.Option(
            "--admin-key", metavar="KEY", help="The administrator's key. [default: random]", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run API, node and console in one process, in memory, to test programs that use Minutehand. Nothing is kept.

    Its clock stands until it is moved:

    curl $URL/dev/clock:advance -d '{"seconds": 2592000}' makes all calls of the next 30 days in order, and lists them.
    With --json, one line of JSON has its address and keys as soon as it can be asked.
    """
    from minutehand.dev.run import dev_settings, run_dev
    from scheduler_service.domain.instants import parse_instant

    def ready(access: "Access") -> None:
        if as_json:
            print_json_line(
                {
                    "url": access.url,
                    "admin_key": access.admin_key,
                    "client_id": access.client_id,
                    "client_key": access.client_key,
                    "signing_secret": access.signing_secret,
                }
            )
            return
        typer.echo(
            f"{access.url} answers. Nothing is kept, and the clock {'follows real time' if follow else 'stands'}.\n"
            f"export API={access.url} CLIENT={access.client_id}\n"
            f"export KEY={access.client_key} ADMIN_KEY={access.admin_key}\n"
            f"export SIGNING_SECRET={access.signing_secret} RECEIVER={access.url}/dev/receiver/hook\n"
            f"export MINUTEHAND_URL={access.url} MINUTEHAND_KEY={access.admin_key}\n"
            f"Console: {access.url}/console\n"
            "curl $API/dev/clock:advance -d '{\"seconds\": 3600}'"
        )

    try:
        starts_ms = None if at is None else parse_instant(at)
    except ValueError as error:
        fail(f"--at: {error}")
    settings = dev_settings(host=host, port=port, admin_key=admin_key)
    run_dev(settings, follows=follow, starts_ms=starts_ms, ready=ready)
