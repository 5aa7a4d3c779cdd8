"""The options that say which schedules of a window are meant."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from minutehand.client import ContentFilter, ScheduleFilter

Start = Annotated[
    str | None, typer.Option("--from", help="First instant, RFC 3339. [default: now]", show_default=False)
]
End = Annotated[
    str | None, typer.Option("--to", help="Before this instant. [default: 24 hours later]", show_default=False)
]
States = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        help="Those that are scheduled, retrying, delivered, failed, cancelled or skipped only; repeatable.",
        show_default=False,
    ),
]
Labels = Annotated[
    list[str] | None,
    typer.Option("--label", help="Those with this label only; repeatable: then any of them.", show_default=False),
]
CronId = Annotated[
    str | None, typer.Option("--cron", metavar="CRON", help="Those of this cron only.", show_default=False)
]
DestinationName = Annotated[
    str | None,
    typer.Option("--destination", metavar="NAME", help="Those that call this destination only.", show_default=False),
]
Host = Annotated[
    str | None, typer.Option("--host", help="Those whose URL has this host only, without port.", show_default=False)
]
KeyPrefix = Annotated[
    str | None,
    typer.Option("--key-prefix", metavar="TEXT", help="Those whose own key begins with this only.", show_default=False),
]


def filter_of(
    *,
    state: list[str] | None,
    label: list[str] | None,
    cron_id: str | None,
    destination: str | None,
    host: str | None,
    key_prefix: str | None,
) -> "ScheduleFilter":
    content = content_filter_of(label=label, cron_id=cron_id, destination=destination, host=host, key_prefix=key_prefix)
    return {"state": state or None, **content}


def content_filter_of(
    *,
    label: list[str] | None,
    cron_id: str | None,
    destination: str | None,
    host: str | None,
    key_prefix: str | None,
) -> "ContentFilter":
    return {
        "label": label or None,
        "cron_id": cron_id,
        "destination": destination,
        "host": host,
        "key_prefix": key_prefix,
    }
