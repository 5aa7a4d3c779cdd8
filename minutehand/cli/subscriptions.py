"""`minutehand subscriptions`: which events are sent where, as notices."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from minutehand.cli.options import DEFAULT_URL, AsJson, ClientId, KeyText, Revision, Url, connect
from minutehand.cli.output import print_fields, print_json, print_table, say

if TYPE_CHECKING:
    from minutehand.client import Subscription

app = typer.Typer(
    help="Say which events of a client are sent where. Changes take an administrator's key, or one of the client's of "
    "scope manage."
)

Name = Annotated[
    str,
    typer.Argument(
        metavar="SUBSCRIPTION",
        help="The subscription's name: lower-case letters, digits, '.', '_' and '-'.",
        show_default=False,
    ),
]


@app.command(epilog="Example: minutehand subscriptions put shop failures warehouse --event schedule.failed")
def put(
    client_id: ClientId,
    name: Name,
    destination: Annotated[
        str,
        typer.Argument(
            metavar="DESTINATION", help="The name of the destination that notices go to.", show_default=False
        ),
    ],
    event: Annotated[
        list[str] | None,
        typer.Option("--event", metavar="TYPE", help="Only events of this type; may be repeated.", show_default=False),
    ] = None,
    label: Annotated[str | None, typer.Option(help="Only of schedules with this label.", show_default=False)] = None,
    key_prefix: Annotated[
        str | None, typer.Option(help="Only of schedules whose own key begins so.", show_default=False)
    ] = None,
    cron: Annotated[str | None, typer.Option(help="Only of this cron and its runs.", show_default=False)] = None,
    only_destination: Annotated[
        str | None, typer.Option(help="Only of calls to this destination.", show_default=False)
    ] = None,
    disabled: Annotated[bool, typer.Option("--disabled", help="Keep it, and send nothing.")] = False,
    revision: Revision = None,
    absent: Annotated[bool, typer.Option("--absent", help="Only if there is no such subscription.")] = False,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Create a subscription, or replace it as a whole."""
    asked = {"label": label, "key_prefix": key_prefix, "cron_id": cron, "destination": only_destination}
    wanted: dict[str, Any] = {"destination": destination, "events": event or [], "enabled": not disabled}
    wanted["filter"] = {field: value for field, value in asked.items() if value is not None}
    with connect(url, key) as api:
        _show(api.client(client_id).subscriptions.put(name, wanted, revision=revision, absent=absent), as_json)


@app.command(epilog="Example: minutehand subscriptions show shop failures")
def show(client_id: ClientId, name: Name, url: Url = DEFAULT_URL, key: KeyText = None, as_json: AsJson = False) -> None:
    """Show a subscription."""
    with connect(url, key) as api:
        _show(api.client(client_id).subscriptions.get(name), as_json)


@app.command("list", epilog="Example: minutehand subscriptions list shop")
def list_(client_id: ClientId, url: Url = DEFAULT_URL, key: KeyText = None, as_json: AsJson = False) -> None:
    """List a client's subscriptions by name."""
    with connect(url, key) as api:
        found = api.client(client_id).subscriptions.list()
    if as_json:
        print_json(found)
        return
    rows = [(one.name, _state(one), one.destination, _events(one), one.changed_at) for one in found]
    print_table(("SUBSCRIPTION", "STATE", "DESTINATION", "EVENTS", "CHANGED"), rows, yielding={"EVENTS"})


@app.command(epilog="Example: minutehand subscriptions delete shop failures")
def delete(
    client_id: ClientId,
    name: Name,
    revision: Revision = None,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Delete a subscription: what was not sent yet is not sent any more."""
    with connect(url, key) as api:
        api.client(client_id).subscriptions.delete(name, revision=revision)
    if as_json:
        print_json({"name": name, "deleted": True})
    else:
        say(f"The subscription {name} is deleted.")


def _state(subscription: "Subscription") -> str:
    return "enabled" if subscription.enabled else "disabled"


def _events(subscription: "Subscription") -> str:
    return ", ".join(subscription.events) or "all"


def _show(subscription: "Subscription", as_json: bool) -> None:
    if as_json:
        print_json(subscription)
        return
    asked = subscription.filter
    print_fields(
        [
            ("subscription", subscription.name),
            ("state", _state(subscription)),
            ("sent to", subscription.destination),
            ("events", _events(subscription)),
            ("label", asked.label),
            ("key begins with", asked.key_prefix),
            ("cron", asked.cron_id),
            ("destination", asked.destination),
            ("revision", subscription.revision),
            ("changed", subscription.changed_at),
        ]
    )
