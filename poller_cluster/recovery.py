"""What a new owner reads next: from the watermark to the present, oldest first, occupied minutes only. Pure.

Each recovering poller has a range [at, to) of minutes not yet looked at under its new epoch. Recovery takes the pollers
of one client together, an hour of the index at a time, so that a thousand pollers of a dead node cost one read for each
hour."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scheduler_service.domain.ids import MINUTES_PER_HOUR, Minute, PollerId


@dataclass(slots=True)
class RecoveryRange:
    """One poller's remaining range; `at` is its oldest minute."""

    poller_id: PollerId
    at: Minute
    to: Minute

    @property
    def done(self) -> bool:
        return self.at >= self.to


def next_chunk(recoveries: Iterable[RecoveryRange]) -> tuple[Minute, Minute] | None:
    """The minutes [first, last] whose index is read next: from the oldest unread one to the end of its hour."""
    todo = [recovery for recovery in recoveries if not recovery.done]
    if not todo:
        return None
    first = min(recovery.at for recovery in todo)
    end_of_hour = first - first % MINUTES_PER_HOUR + MINUTES_PER_HOUR - 1
    return first, Minute(min(end_of_hour, max(recovery.to for recovery in todo) - 1))


def found(
    recoveries: Sequence[RecoveryRange], occupied: Mapping[Minute, Sequence[PollerId]]
) -> list[tuple[Minute, RecoveryRange]]:
    """The occupied minutes within the ranges, oldest first; those of one minute in the order of the pollers."""
    by_poller = {recovery.poller_id: recovery for recovery in recoveries}
    return [
        (minute, recovery)
        for minute in sorted(occupied)
        for poller_id in sorted(occupied[minute])
        if (recovery := by_poller.get(poller_id)) is not None and recovery.at <= minute < recovery.to
    ]
