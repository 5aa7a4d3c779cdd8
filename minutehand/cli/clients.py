"""`minutehand clients`: clients and their quotas."""

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from minutehand.cli.callbacks import CallbackUrl, Content, Method, read_callback
from minutehand.cli.exchange import show_exchange
from minutehand.cli.option_groups import grouped
from minutehand.cli.options import DEFAULT_URL, AsJson, AttemptTimeout, ClientId, KeyText, Revision, Url, connect
from minutehand.cli.output import fail, print_fields, print_json, print_table, say
from minutehand.cli.pollers import POLLER_COLUMNS, poller_row

if TYPE_CHECKING:
    from minutehand.client import Client, Minutehand, OwnSettings

app = typer.Typer(
    help="Register clients, look at them, hold their calls. Takes an administrator's key; show, set, pause and unpause "
    "also take the client's own of scope manage; trial-call takes one of scope write, pollers any."
)

_TURNS = 5
"""How often a change is based on what somebody else has changed meanwhile."""
Quota = Annotated[
    int | None,
    typer.Option(
        "--poller-quota",
        min=1,
        max=1024,
        help="Pollers of the client; each guarantees 1,000 calls a minute. [default: unchanged; 1 for a new client]",
        show_default=False,
    ),
]
Settings = Annotated[
    str | None,
    typer.Option(
        "--settings",
        metavar="JSON",
        help="Settings as a JSON object; the options below win. What neither gives stays as it is; null gives a "
        "setting its default again.",
        show_default=False,
    ),
]
CreateRate = Annotated[
    float | None,
    typer.Option(
        help="Schedules it may create in a second, with a burst of ten seconds' worth, by each API process. "
        "[default: 100 for each poller]",
        show_default=False,
    ),
]
MaxInFlight = Annotated[
    int | None,
    typer.Option(help="Maximum concurrent attempts. [default: 100 for each poller]", show_default=False),
]
TimeoutSeconds = Annotated[
    float | None, typer.Option(help="Attempt time-out, in seconds. [default: 10]", show_default=False)
]
HorizonDays = Annotated[
    int | None, typer.Option(help="How far ahead a schedule may be due. [default: 730]", show_default=False)
]
AcceptPastSeconds = Annotated[
    float | None,
    typer.Option(help="A due this far in the past is called at once. [default: 60]", show_default=False),
]
RetentionDays = Annotated[
    int | None, typer.Option(help="How long ended schedules are kept. [default: 7]", show_default=False)
]
PayloadBytes = Annotated[
    int | None, typer.Option(help="Maximum body size, in bytes. [default: 65536]", show_default=False)
]
HeaderBytes = Annotated[
    int | None, typer.Option(help="Maximum size of all headers, in bytes. [default: 8192]", show_default=False)
]
MaxCrons = Annotated[int | None, typer.Option(help="Maximum number of crons. [default: 10000]", show_default=False)]
ReadConsistency = Annotated[
    str | None,
    typer.Option(
        metavar="LOCAL_QUORUM|LOCAL_ONE",
        help="For looking at schedules. LOCAL_ONE answers from one replica: faster, perhaps not the latest. "
        "[default: LOCAL_QUORUM]",
        show_default=False,
    ),
]
WriteConsistency = Annotated[
    str | None,
    typer.Option(
        metavar="LOCAL_QUORUM|EACH_QUORUM",
        help="For creates. EACH_QUORUM waits for every data centre: slower, and refused while one is away. "
        "[default: LOCAL_QUORUM]",
        show_default=False,
    ),
]
OverduePerSecond = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="Calls a second of those that are more than a minute late, as after an outage; 0: as many as limits "
        "permit. [default: unchanged]",
        show_default=False,
    ),
]


@app.command(epilog="Example: minutehand clients register shop --poller-quota 2 --retention-days 14")
def register(
    client_id: ClientId,
    poller_quota: Quota = None,
    settings: Settings = None,
    create_rate: CreateRate = None,
    max_in_flight: MaxInFlight = None,
    timeout_seconds: TimeoutSeconds = None,
    horizon_days: HorizonDays = None,
    accept_past_seconds: AcceptPastSeconds = None,
    retention_days: RetentionDays = None,
    payload_bytes: PayloadBytes = None,
    header_bytes: HeaderBytes = None,
    max_crons: MaxCrons = None,
    read_consistency: ReadConsistency = None,
    write_consistency: WriteConsistency = None,
    overdue_per_second: OverduePerSecond = None,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Register a client, or change the quota and settings of one. What is not given stays as it is.

    A new client's signing secret is shown this once.
    """
    given = {
        "create_rate_per_second": create_rate,
        "max_in_flight": max_in_flight,
        "timeout_seconds": timeout_seconds,
        "horizon_days": horizon_days,
        "accept_past_seconds": accept_past_seconds,
        "retention_days": retention_days,
        "payload_bytes": payload_bytes,
        "header_bytes": header_bytes,
        "max_crons": max_crons,
        "read_consistency": read_consistency,
        "write_consistency": write_consistency,
    }
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if overdue_per_second is not None:
        options["overdue_per_second"] = overdue_per_second or None
    changes = {} if settings is None else _object(settings, "--settings")
    with connect(url, key) as api:
        _show(_register(api, client_id, poller_quota, {**changes, **options}), as_json)


@app.command("list", epilog="Example: minutehand clients list --all")
def list_(
    everything: Annotated[
        bool, typer.Option("--all", help="Include the built-in clients: $cron wakes crons, $events sends notices.")
    ] = False,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """List the clients that were registered."""
    with connect(url, key) as api:
        clients = [one for one in api.clients.list() if everything or not one.client_id.startswith("$")]
    if as_json:
        print_json(clients)
        return
    rows = [
        (client.client_id, client.state, client.poller_quota, client.guaranteed_calls_per_minute, client.created_at)
        for client in clients
    ]
    print_table(("CLIENT", "STATE", "QUOTA", "CALLS/MINUTE", "CREATED"), rows)


@app.command(epilog="Example: minutehand clients show shop")
def show(client_id: ClientId, url: Url = DEFAULT_URL, key: KeyText = None, as_json: AsJson = False) -> None:
    """Show a client with its effective settings."""
    with connect(url, key) as api:
        _show(api.clients.get(client_id), as_json)


@app.command(epilog="Example: minutehand clients suspend shop")
def suspend(
    client_id: ClientId, revision: Revision = None, url: Url = DEFAULT_URL, key: KeyText = None, as_json: AsJson = False
) -> None:
    """Hold a client's calls and refuse its creates. It lasts until it is resumed."""
    with connect(url, key) as api:
        _show(api.clients.suspend(client_id, revision=revision), as_json)


@app.command(epilog="Example: minutehand clients resume shop")
def resume(
    client_id: ClientId, revision: Revision = None, url: Url = DEFAULT_URL, key: KeyText = None, as_json: AsJson = False
) -> None:
    """Resume a suspended client. What fell due meanwhile fires or is skipped, by its late policy."""
    with connect(url, key) as api:
        _show(api.clients.resume(client_id, revision=revision), as_json)


@app.command(epilog="Example: minutehand clients pause shop")
def pause(
    client_id: ClientId, revision: Revision = None, url: Url = DEFAULT_URL, key: KeyText = None, as_json: AsJson = False
) -> None:
    """Hold a client's calls and crons; creates are accepted. It lasts until it is unpaused."""
    with connect(url, key) as api:
        _show(api.client(client_id).pause(revision=revision), as_json)


@app.command(epilog="Example: minutehand clients unpause shop")
def unpause(
    client_id: ClientId, revision: Revision = None, url: Url = DEFAULT_URL, key: KeyText = None, as_json: AsJson = False
) -> None:
    """Let a paused client go on. What fell due meanwhile fires or is skipped, by its late policy."""
    with connect(url, key) as api:
        _show(api.client(client_id).unpause(revision=revision), as_json)


@app.command("set", epilog="""Example: minutehand clients set shop '{"timeout_seconds": 5, "in_doubt": "drop"}'""")
def set_(
    client_id: ClientId,
    settings: Annotated[
        str,
        typer.Argument(
            metavar="JSON",
            help="Of retry, timeout_seconds, hosts, flows, late_policy, in_doubt, receiver_verbs, event_feed, "
            "read_consistency and write_consistency those that are to change; each is replaced as a whole.",
            show_default=False,
        ),
    ],
    revision: Revision = None,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Change settings that are a client's own."""
    wanted = cast("OwnSettings", _object(settings, "JSON"))
    with connect(url, key) as api:
        _show(api.client(client_id).change_settings(wanted, revision=revision), as_json)


@app.command(epilog="Example: minutehand clients delete shop")
def delete(
    client_id: ClientId, revision: Revision = None, url: Url = DEFAULT_URL, key: KeyText = None, as_json: AsJson = False
) -> None:
    """Delete a suspended client and revoke its keys. What it has scheduled is never called; its id stays taken."""
    with connect(url, key) as api:
        api.clients.delete(client_id, revision=revision)
    if as_json:
        print_json({"client_id": client_id, "deleted": True})
    else:
        say(f"The client {client_id} is deleted.")


@app.command(epilog="Example: minutehand clients pollers shop")
def pollers(client_id: ClientId, url: Url = DEFAULT_URL, key: KeyText = None, as_json: AsJson = False) -> None:
    """Show who owns a client's pollers, and what is open in each. Takes the client's own key too."""
    with connect(url, key) as api:
        found = api.client(client_id).pollers()
    if as_json:
        print_json(found)
    else:
        print_table(POLLER_COLUMNS, map(poller_row, found))


@app.command(
    "trial-call",
    epilog="Example: minutehand clients trial-call shop --destination warehouse --path /orders --body hello",
)
@grouped
def trial_call(
    client_id: ClientId,
    callback_url: CallbackUrl = None,
    *,
    method: Method = None,
    content: Content,
    timeout_seconds: AttemptTimeout = None,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Send one signed trial call now and show the whole exchange. Exits with 1 unless it was delivered. A pause
    does not hold it, nor do the limits of a flow key. Takes the client's own key too."""
    callback = read_callback(callback_url, method=method, **content.told())
    with connect(url, key) as api:
        exchange = api.client(client_id).trial_call(callback, timeout_seconds=timeout_seconds)
    if as_json:
        print_json(exchange)
    else:
        show_exchange(exchange)
    if not exchange.delivered:
        raise typer.Exit(1)


def _register(api: "Minutehand", client_id: str, poller_quota: int | None, changes: dict[str, Any]) -> "Client":
    """Create the client, or change the settings that are named. A change that somebody else makes meanwhile is kept."""
    from minutehand.client import NotFound, PreconditionFailed

    for turn in range(1, _TURNS + 1):
        try:
            found = api.clients.get(client_id)
        except NotFound:
            found = None
        wanted = {**({} if found is None else found.stored_settings), **changes}
        settings = {name: value for name, value in wanted.items() if changes.get(name, value) is not None}
        quota = (1 if found is None else found.poller_quota) if poller_quota is None else poller_quota
        try:
            return api.clients.register(
                client_id,
                poller_quota=quota,
                # A built-in client's settings can't be put, not even as they are.
                settings=(changes if client_id.startswith("$") else settings) or None,
                revision=None if found is None else found.revision,
                absent=found is None,
            )
        except PreconditionFailed:
            if turn == _TURNS:
                raise
    raise AssertionError("unreachable")


def _object(text: str, name: str) -> dict[str, Any]:
    import msgspec

    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        fail(f"{name} is not a JSON object: {error}.")


def _show(client: "Client", as_json: bool) -> None:
    if as_json:
        print_json(client)
        return
    import msgspec

    secret = client.signing_secret
    print_fields(
        [
            ("client", client.client_id),
            ("state", f"{client.state}, paused" if client.paused else client.state),
            ("poller quota", client.poller_quota),
            ("highest quota ever", client.poller_ceiling),
            ("guaranteed calls a minute", client.guaranteed_calls_per_minute),
            ("revision", client.revision),
            ("created", client.created_at),
            *([] if secret is None else [("signing secret", f"{secret.secret} (shown this once, for its receivers)")]),
            *((name, msgspec.json.encode(value).decode()) for name, value in client.settings.items()),
        ]
    )
