"""The options that say which schedules of a window are meant."""

from dataclasses import dataclass
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
RequiredStart = Annotated[str, typer.Option("--from", help="First due, RFC 3339.", show_default=False)]
RequiredEnd = Annotated[str, typer.Option("--to", help="Before this due, RFC 3339.", show_default=False)]
States = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        help="Those that are scheduled, retrying, awaiting, delivered, failed, cancelled or skipped only; repeatable.",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which schedules of a window are meant, beside their state."""

    label: Labels = None
    cron_id: CronId = None
    destination: DestinationName = None
    host: Host = None
    key_prefix: KeyPrefix = None

    def told(self) -> "ContentFilter":
        """As the SDK takes them."""
        return {
            "label": self.label or None,
            "cron_id": self.cron_id,
            "destination": self.destination,
            "host": self.host,
            "key_prefix": self.key_prefix,
        }

    def of(self, states: list[str] | None) -> "ScheduleFilter":
        """The same, in one of these states."""
        return {"state": states or None, **self.told()}
