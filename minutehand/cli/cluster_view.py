"""What `minutehand cluster` shows, once or redrawn."""

import threading
from dataclasses import dataclass
from typing import Any

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from minutehand.cli.output import printable
from minutehand.cli.pollers import POLLER_COLUMNS, poller_row
from minutehand.cli.tables import RowTable
from minutehand.client import Cluster, Minutehand, MinutehandClientError, Node, Poller

_COLUMNS = ("NODE", "STATE", "BEAT AGE", "POLLERS", "CLOCK", "CALLS/MINUTE", "VERSION", "ADDRESS")


@dataclass(frozen=True, slots=True)
class Picture:
    cluster: Cluster
    client_id: str | None
    pollers: tuple[Poller, ...]


def look(api: Minutehand, client_id: str | None) -> Picture:
    pollers = () if client_id is None else api.client(client_id).pollers()
    return Picture(api.cluster(), client_id, pollers)


def watch(api: Minutehand, picture: Picture, every_seconds: float, console: Console) -> None:
    """Redraw until Ctrl-C. While the API does not answer, the last picture stays."""
    pause = threading.Event()
    try:
        with Live(draw(picture), console=console, auto_refresh=False) as live:
            while not pause.wait(every_seconds):
                trouble = None
                try:
                    picture = look(api, picture.client_id)
                except MinutehandClientError as error:
                    trouble = f"As it was before: {error}."
                live.update(draw(picture, trouble), refresh=True)
    except KeyboardInterrupt:
        return


def draw(picture: Picture, trouble: str | None = None) -> Group:
    found = picture.cluster
    share = found.guaranteed_calls_per_minute / found.capacity_per_minute if found.capacity_per_minute else None
    lines = [
        f"{found.pollers.owned:,} of {found.pollers.total:,} pollers are owned.",
        f"The quotas guarantee {found.guaranteed_calls_per_minute:,} calls a minute; "
        f"the live nodes are sized for {found.capacity_per_minute:,}" + (f" ({share:.0%})." if share else "."),
    ]
    parts: list[Any] = [RowTable(_COLUMNS, map(_node_row, found.nodes)), Text(), Text("\n".join(lines))]
    if found.not_calling is not None:
        parts += [Text(), Text(f"No calls are made: {printable(found.not_calling)}.", style="bold red")]
    if picture.client_id is not None:
        parts += [Text(), Text(f"Pollers of {picture.client_id}", style="bold")]
        parts.append(RowTable(POLLER_COLUMNS, map(poller_row, picture.pollers)))
    if trouble is not None:
        parts += [Text(), Text(printable(trouble), style="red")]
    return Group(*parts)


def _node_row(node: Node) -> tuple[Any, ...]:
    return (
        node.node_id,
        node.state,
        None if node.beat_age_seconds is None else f"{node.beat_age_seconds:.1f} s",
        f"{node.pollers:,}",
        None if node.clock_offset_ms is None else f"{node.clock_offset_ms:+d} ms",
        f"{node.capacity_per_minute:,}",
        node.version,
        node.address,
    )


def document(picture: Picture) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(picture.cluster)
    if picture.client_id is not None:
        document["client"] = {"client_id": picture.client_id, "pollers": msgspec.to_builtins(picture.pollers)}
    return document
