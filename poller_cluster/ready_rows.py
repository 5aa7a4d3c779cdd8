"""What the dispatcher holds of each client: the rows that are due, and how many are on their way."""

from collections import deque
from collections.abc import Sequence

from poller_cluster.job import Job
from scheduler_service.domain.ids import ClientId

CLAIM_ROWS = 250
"""A client that is at its limit claims again when there is room for so many, or for a quarter of its limit."""


def claim_rows(limit: int) -> int:
    """How many rows a claim should have room for, where a client may have `limit` in flight."""
    return max(1, min(CLAIM_ROWS, limit // 4))


class ReadyRows:
    """Ready rows of one client in one of the two rounds, and its account with that round robin."""

    __slots__ = ("client_id", "deficit", "lane", "queued", "ready", "turn")

    def __init__(self, client_id: ClientId, lane: "ClientRows", turn: "deque[ReadyRows]") -> None:
        self.client_id = client_id
        self.lane = lane
        self.turn = turn
        self.ready: deque[Job] = deque()
        self.queued = False
        self.deficit = 0


class ClientRows:
    """What one client has on its way."""

    __slots__ = ("on_the_wire", "outstanding", "queues", "reserved")

    def __init__(self, client_id: ClientId, turns: "Sequence[deque[ReadyRows]]") -> None:
        self.on_the_wire = 0
        self.outstanding = 0
        self.reserved = 0
        self.queues = [ReadyRows(client_id, self, turn) for turn in turns]
