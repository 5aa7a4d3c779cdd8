"""What the dispatcher holds of each client: the rows that are due, and how many are on their way."""

from collections import deque
from collections.abc import Sequence

from poller_cluster.job import Job
from scheduler_service.domain.ids import ClientId


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
