"""The row of a poller, for every table that lists pollers."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minutehand.client import Poller


POLLER_COLUMNS = ("POLLER", "OWNER", "EPOCH", "SETTLED UP TO", "LAGGING", "OPEN MINUTES", "BACKLOG")


def poller_row(poller: "Poller") -> tuple[Any, ...]:
    """One row. A plus after a count says that there may be more."""
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
