"""How pollers are shown, wherever they are."""

from typing import Any

from minutehand.client import Poller

POLLER_COLUMNS = ("POLLER", "OWNER", "EPOCH", "SETTLED UP TO", "LAGGING", "OPEN MINUTES", "BACKLOG")


def poller_row(poller: Poller) -> tuple[Any, ...]:
    """One line of the table. What may be more than was counted ends in a plus."""
    more = "+" if poller.cut else ""
    return (
        poller.poller_id,
        None if poller.owner is None else poller.owner.node_id,
        poller.epoch,
        poller.watermark,
        poller.lagging,
        f"{poller.open_minutes:,}{more}",
        f"{poller.backlog:,}{more}",
    )
