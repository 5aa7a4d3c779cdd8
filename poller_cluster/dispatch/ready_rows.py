"""The dispatcher's queues: claimed rows until they are due, then the ready rows of each client, with its counts."""

import heapq
from collections import deque
from collections.abc import Iterator, Sequence
from operator import attrgetter

from poller_cluster.dispatch.job import Job
from poller_cluster.dispatch.lateness import Stretches
from poller_cluster.dispatch.receivers import share_of_limit
from scheduler_service.domain.ids import ClientId, UnixMillis

CLAIM_ROWS = 250
"""A client at its limit claims again when there is room for this many rows, or for an eighth of its limit if that is
less, but not more than one receiver leaves to the others: a slow one would stop them."""

ENGINE_PART = 2
"""How many attempts a client may have under way for each that the engine could still start; see `dispatcher`."""
RESERVE = 1 / 8
SMALL_PART = 1 / 64


def engine_part(capacity: int, free: int) -> int:
    """How many attempts any one client may have under way while the engine may start `free` more."""
    return ENGINE_PART * free if free > capacity * RESERVE else max(int(capacity * SMALL_PART), 1)


def claim_rows(limit: int, *, receiver_share: float) -> int:
    """The least room for a claim of a client that may have `limit` rows in flight, of which one receiver may have
    `receiver_share`."""
    left = limit - share_of_limit(limit, receiver_share)
    return max(1, min(CLAIM_ROWS, limit // 8, left))


class ReadyRows:
    """The ready rows of one client in one of the two rounds, with the client's deficit in that round robin."""

    __slots__ = ("client", "client_id", "deficit", "queued", "ready", "turn")

    def __init__(self, client_id: ClientId, client: "ClientRows", turn: "deque[ReadyRows]") -> None:
        self.client_id = client_id
        self.client = client
        self.turn = turn
        self.ready: deque[Job] = deque()
        self.queued = False
        self.deficit = 0


class ClientRows:
    """The counts of one client's claimed rows. `tell_at`: rows were not claimed for lack of room, and may be once no
    more than this many are taken. `full`: when there was no room; `inactive`: when the client's calls were held;
    `overdue`: when overdue ones were held back by a rate."""

    __slots__ = (
        "client_id",
        "full",
        "inactive",
        "on_the_wire",
        "outstanding",
        "overdue",
        "queues",
        "reserved",
        "tell_at",
    )

    def __init__(self, client_id: ClientId, turns: "Sequence[deque[ReadyRows]]") -> None:
        self.client_id = client_id
        self.tell_at: int | None = None
        self.full, self.inactive, self.overdue = Stretches(), Stretches(), Stretches()
        self.on_the_wire = 0
        self.outstanding = 0
        self.reserved = 0
        self.queues = [ReadyRows(client_id, self, turn) for turn in turns]

    @property
    def taken(self) -> int:
        """Rows that are claimed, or whose claim is under way."""
        return self.outstanding + self.reserved

    def want_headroom(self, *, tell_at: int) -> None:
        """Rows were not claimed because more than `tell_at` are taken."""
        self.tell_at = tell_at

    def gained_headroom(self) -> bool:
        """Whether there is room now that was wanted; True once for each `want_headroom`."""
        if self.tell_at is None or self.taken > self.tell_at:
            return False
        self.tell_at = None
        return True


_due = attrgetter("due")


class RowsByDue:
    """Rows that are not due yet. Rows added together form a sorted run, and the heap holds the runs by their first
    row: a claim adds many rows at once, and a push for each would cost more."""

    def __init__(self) -> None:
        self._runs: list[tuple[int, int, deque[Job]]] = []
        self._sequence = 0

    def first(self) -> UnixMillis | None:
        """When the next row is due."""
        return self._runs[0][2][0].due if self._runs else None

    def add(self, jobs: Sequence[Job]) -> bool:
        """Add rows of one owner. True: one of them is the next due of all."""
        run = deque(sorted(jobs, key=_due))
        self._sequence += 1
        heapq.heappush(self._runs, (run[0].due, self._sequence, run))
        return self._runs[0][1] == self._sequence

    def take(self, now: int) -> Iterator[Job]:
        """The rows that are due by `now`."""
        while self._runs and self._runs[0][0] <= now:
            _, sequence, run = self._runs[0]
            heapq.heappop(self._runs)
            # Only up to the first row of the next run, so that rows come in the order of their due.
            until = min(now, self._runs[0][0]) if self._runs else now
            while run and run[0].due <= until:
                yield run.popleft()
            if run:
                heapq.heappush(self._runs, (run[0].due, sequence, run))

    def withdraw(self, owner: object) -> list[Job]:
        """Take back the rows of `owner`."""
        taken = [job for _, _, run in self._runs if run[0].owner is owner for job in run]
        if taken:
            self._runs = [item for item in self._runs if item[2][0].owner is not owner]
            heapq.heapify(self._runs)
        return taken
