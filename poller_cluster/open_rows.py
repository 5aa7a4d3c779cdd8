"""The rows of one poller minute that have no recorded outcome yet, as its machine holds them. Pure bookkeeping."""

import heapq
from collections.abc import Iterable, Iterator

from poller_cluster.steps import Claim
from scheduler_service.domain.ids import RowKey, ScheduleId, UnixMillis
from scheduler_service.domain.schedules import Outcome, Row


class OpenRow:
    """One row: waiting, then claimed, then ended (its outcome known but not recorded). Copies wait for a check too."""

    __slots__ = ("checked", "claimed", "ended_at", "first_attempt_at", "outcome", "redelivery", "row")

    def __init__(self, row: Row, *, redelivery: bool) -> None:
        self.row = row
        self.redelivery = redelivery
        self.checked = not row.is_copy
        self.claimed = False
        self.outcome: Outcome | None = None
        self.ended_at = 0
        self.first_attempt_at: UnixMillis | None = None

    def claim(self) -> Claim:
        return Claim(self.row, self.redelivery, self.first_attempt_at)


class OpenRows:
    """Rows by key, the waiting ones also in a heap by due; `ended` keeps the order in which they ended."""

    def __init__(self) -> None:
        self._by_key: dict[RowKey, OpenRow] = {}
        self._waiting: list[tuple[RowKey, OpenRow]] = []
        self.ended: dict[RowKey, OpenRow] = {}
        self.unchecked: dict[RowKey, OpenRow] = {}
        self.claimed_count = 0

    def __len__(self) -> int:
        return len(self._by_key)

    def __contains__(self, key: RowKey) -> bool:
        return key in self._by_key

    def __iter__(self) -> Iterator[tuple[RowKey, OpenRow]]:
        return iter(self._by_key.items())

    def get(self, key: RowKey) -> OpenRow | None:
        return self._by_key.get(key)

    def add(self, row: Row, *, redelivery: bool) -> None:
        key, entry = row.key, OpenRow(row, redelivery=redelivery)
        self._by_key[key] = entry
        if not entry.checked:
            self.unchecked[key] = entry
        heapq.heappush(self._waiting, (key, entry))

    def forget(self, key: RowKey) -> OpenRow | None:
        entry = self._by_key.pop(key, None)
        self.ended.pop(key, None)
        self.unchecked.pop(key, None)
        if entry is not None and entry.claimed:
            self.claimed_count -= 1
        return entry

    def discard_unclaimed(self) -> None:
        """Forget what was only read: rows neither claimed nor ended."""
        for key, entry in list(self._by_key.items()):
            if not entry.claimed:
                self.forget(key)
        self._waiting.clear()

    def next_due(self) -> UnixMillis | None:
        """Due of the earliest waiting row."""
        while self._waiting:
            key, entry = self._waiting[0]
            if self._by_key.get(key) is entry and not entry.claimed and entry.outcome is None:
                return key.due
            heapq.heappop(self._waiting)
        return None

    def pick(self, *, horizon: int, room: int) -> tuple[OpenRow, ...]:
        """Take up to `room` checked rows due by `horizon` off the waiting list, earliest first."""
        picked: list[OpenRow] = []
        unchecked: list[tuple[RowKey, OpenRow]] = []
        while len(picked) < room and (due := self.next_due()) is not None and due <= horizon:
            key, entry = heapq.heappop(self._waiting)
            if entry.checked:
                picked.append(entry)
            else:
                unchecked.append((key, entry))
        self.put_back(entry for _, entry in unchecked)
        return tuple(picked)

    def put_back(self, entries: Iterable[OpenRow]) -> None:
        for entry in entries:
            heapq.heappush(self._waiting, (entry.row.key, entry))

    def claimed(self, entries: Iterable[OpenRow]) -> None:
        for entry in entries:
            entry.claimed = True
            self.claimed_count += 1

    def unclaim(self, entry: OpenRow) -> None:
        entry.claimed = False
        self.claimed_count -= 1
        self.put_back([entry])

    def end(self, entry: OpenRow, outcome: Outcome, *, at: int) -> None:
        entry.outcome, entry.ended_at = outcome, at
        self.ended[entry.row.key] = entry

    def oldest_end(self) -> int | None:
        return next(iter(self.ended.values())).ended_at if self.ended else None

    def in_doubt(self) -> set[ScheduleId]:
        """Ids that an earlier owner may have sent."""
        return {key.schedule_id for key, entry in self._by_key.items() if entry.redelivery}

    def on_the_wire(self, *, without: set[RowKey]) -> set[ScheduleId]:
        """Ids that may be on the wire, or were found in doubt and are neither claimed anew nor recorded."""
        return {
            key.schedule_id
            for key, entry in self._by_key.items()
            if (entry.claimed or entry.redelivery) and key not in without
        }
