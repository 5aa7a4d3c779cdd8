"""What is overdue: due in the past, without an outcome. Pure.

    minutes that are not settled --counted, within bounds--> rows, exactly
                                 `--the others, by loads--> rows, as estimated

An estimate takes what the processes that placed rows have counted (`minute_loads`). It lacks what was never counted,
and may count rows that were called since but are not settled.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from scheduler_service.domain.clients import Client, ClientState, LatePolicy
from scheduler_service.domain.ids import ClientId, Minute, PollerId

AGES: Final = (1, 10, 60, 360, 1_440)
"""Ages in minutes below which rows share a figure; one more figure has all older ones."""
SETTLING_MINUTES: Final = 2
"""Minutes before the present one that are not settled yet where nothing is late."""


class HeldBy(StrEnum):
    """Why overdue rows are not called, or not called faster, as far as it can be known without reading them."""

    CLIENT_SUSPENDED = "client-suspended"
    CLIENT_PAUSED = "client-paused"
    NO_OWNER = "no-owner"
    """Some of the pollers have no living owner."""
    DESTINATION_PAUSED = "destination-paused"
    """Calls to some destinations wait; those are deferred, and then not overdue."""
    RECEIVER_OPEN = "receiver-open"
    """Some receivers only failed, so nodes hold their calls back; those are deferred, and then not overdue."""
    QUOTA = "quota"
    """An overdue minute has more rows than are guaranteed."""
    OVERDUE_RATE = "overdue-rate"
    """An operator limits how many are called a second."""
    RECOVERY = "recovery"
    """Living nodes are working through it."""


def age_of(minute: Minute, present: Minute) -> int:
    """The position in a list of figures by age. Ages are by whole minutes: a row that is due in the present minute is
    below one minute old."""
    return next((at for at, bound in enumerate(AGES) if present - minute < bound), len(AGES))


@dataclass(slots=True)
class Overdue:
    """Rows that are overdue, by age: those counted and those estimated. `minutes`: occupied minutes of pollers that are
    not settled. `cut`: some of the index was not read. `oldest`: the minute of the oldest ones."""

    counted: list[int] = field(default_factory=lambda: [0] * (len(AGES) + 1))
    estimated: list[int] = field(default_factory=lambda: [0] * (len(AGES) + 1))
    minutes: int = 0
    cut: bool = False
    oldest: Minute | None = None

    @property
    def rows(self) -> int:
        return sum(self.counted) + sum(self.estimated)

    @property
    def exact(self) -> bool:
        """Whether every row was counted."""
        return not self.cut and not any(self.estimated)

    @property
    def by_age(self) -> list[int]:
        return [counted + estimated for counted, estimated in zip(self.counted, self.estimated, strict=True)]

    def older_than(self, seconds: float) -> int:
        """Rows of the ages that are as a whole that old, but for a minute."""
        bounds = (0, *AGES)
        return sum(rows for rows, from_minutes in zip(self.by_age, bounds, strict=True) if from_minutes * 60 >= seconds)

    def count(self, minute: Minute, present: Minute, rows: int) -> None:
        self._add(self.counted, minute, present, rows)

    def estimate(self, minute: Minute, present: Minute, rows: int) -> None:
        self._add(self.estimated, minute, present, rows)

    def merge(self, other: "Overdue") -> None:
        for at in range(len(AGES) + 1):
            self.counted[at] += other.counted[at]
            self.estimated[at] += other.estimated[at]
        self.minutes += other.minutes
        self.cut = self.cut or other.cut
        self.oldest = _earlier(self.oldest, other.oldest)

    def _add(self, figures: list[int], minute: Minute, present: Minute, rows: int) -> None:
        if rows > 0:
            figures[age_of(minute, present)] += rows
            self.oldest = _earlier(self.oldest, minute)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientBacklog:
    """`behind`: how many of its pollers have unsettled minutes beyond those just called. `late_policy`, `at_most_once`:
    of its settings, which schedules and crons may override. `overdue_per_second`: the overdue rate in force, its own or
    that of all clients, whichever is lower. `drain_seconds`: until nothing is overdue, as estimated;
    None while nothing is called."""

    client_id: ClientId
    overdue: Overdue
    pollers: int
    behind: int
    held_by: Sequence[HeldBy]
    late_policy: LatePolicy
    at_most_once: bool
    overdue_per_second: float | None
    drain_seconds: int | None

    @property
    def with_open_receivers(self) -> "ClientBacklog":
        """The same, where a node holds calls to some receiver back."""
        found = {*self.held_by, HeldBy.RECEIVER_OPEN}
        return replace(self, held_by=tuple(reason for reason in HeldBy if reason in found))

    @property
    def to_skip(self) -> int:
        """Overdue rows that the late policy of the settings will skip."""
        return self.overdue.older_than(self.late_policy.after_seconds) if self.late_policy.kind == "skip" else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterBacklog:
    """Of all clients: the sum, and those of one page, worst first. `clients`: how many are behind."""

    overdue: Overdue
    clients: int
    drain_seconds: int | None
    items: Sequence[ClientBacklog]
    more: bool


def held_by(
    client: Client,
    *,
    unowned: bool,
    destinations_paused: bool,
    fullest: int,
    guaranteed: int,
    behind: int,
    overdue_per_second: float | None,
) -> tuple[HeldBy, ...]:
    """`unowned`: whether pollers that are behind have no living owner. `fullest`: rows of its fullest overdue
    minute."""
    recovers = behind > 0 and not client.calls_held and not unowned
    found = {
        HeldBy.CLIENT_SUSPENDED: client.state is ClientState.SUSPENDED,
        HeldBy.CLIENT_PAUSED: client.paused,
        HeldBy.NO_OWNER: unowned,
        HeldBy.DESTINATION_PAUSED: destinations_paused,
        HeldBy.QUOTA: fullest > guaranteed,
        HeldBy.OVERDUE_RATE: recovers and overdue_per_second is not None,
        HeldBy.RECOVERY: recovers,
    }
    return tuple(reason for reason, holds in found.items() if holds)


def estimated_rows(load: int | None, *, occupied: int, mean: float) -> int:
    """Rows of one poller in a minute that is occupied in so many: its part of the load; without one, the mean of those
    that were counted."""
    return round(mean) if load is None else round(load / occupied)


def seconds_to_drain(rows: int, per_minute: float, *, overdue_per_second: float | None) -> int | None:
    if rows == 0:
        return 0
    if overdue_per_second is not None:
        per_minute = min(per_minute, 60 * overdue_per_second)
    return round(rows * 60 / per_minute) if per_minute >= 1 else None


def seconds_to_drain_all(
    clients: Sequence[ClientBacklog], *, per_minute: float, overdue_per_second: float | None
) -> int | None:
    """Until none of these clients has anything overdue: no sooner than the one with a rate that takes longest."""
    rows = sum(one.overdue.rows for one in clients)
    together = seconds_to_drain(rows, per_minute, overdue_per_second=overdue_per_second)
    limited = [one.drain_seconds or 0 for one in clients if one.overdue_per_second is not None]
    return None if together is None else max(together, *limited, 0)


def oldest_of_each(
    minutes: Mapping[PollerId, Sequence[Minute]], *, before_them: Minute | None = None
) -> list[tuple[PollerId, Minute]]:
    """What is counted first: the oldest minute of every poller, then the next of each, and so on. Minutes from
    `before_them` on come before all of those."""
    ranked = [
        (-1 if before_them is not None and minute >= before_them else rank, poller_id, minute)
        for poller_id, own in minutes.items()
        for rank, minute in enumerate(own)
    ]
    return [(poller_id, minute) for _, poller_id, minute in sorted(ranked)]


def sum_of(several: Iterable[Overdue]) -> Overdue:
    total = Overdue()
    for one in several:
        total.merge(one)
    return total


def _earlier(one: Minute | None, other: Minute | None) -> Minute | None:
    return other if one is None else one if other is None else min(one, other)
