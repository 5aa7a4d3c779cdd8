"""The overdue rate: how many overdue calls a second are made, of one client or of all. Pure.

A call is overdue, as this rate means it, from `OVERDUE_AFTER_MS` after its row's due on. So all rows of a minute have
become due before the first of them is overdue: those that are held back never stand in the way of rows on time that
have still to be read. A row that was found after its minute had been read counts from then, as for a late policy.

Built-in clients have no overdue rate: wake-ups of crons make no call of their own, and a notice tells of calls that
have been made.
"""

from typing import Annotated, Final, TypeAlias

from msgspec import Meta

OVERDUE_AFTER_MS: Final = 60_000
OVERDUE_RATES_SINCE: Final = 36
"""The first migration whose programs keep to overdue rates."""
OVERDUE_RATE: Final = "overdue"
"""The name of the cluster's own among stored rates."""

OverdueRate: TypeAlias = Annotated[float, Meta(ge=0.1, le=100_000)]
"""Calls a second, over all nodes."""


def overdue_from(due: int, found_at: int) -> int:
    """From when on a row is overdue (Unix ms). `found_at`: when it was found, if its minute had been read by then; else
    0."""
    return max(due, found_at) + OVERDUE_AFTER_MS


def rate_in_force(client: float | None, cluster: float | None) -> float | None:
    """The lower of a client's own rate and the cluster's, which it shares with other clients; None: there is none."""
    rates = [rate for rate in (client, cluster) if rate is not None]
    return min(rates, default=None)
