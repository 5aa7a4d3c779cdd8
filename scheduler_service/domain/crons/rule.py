"""The rule of a cron: a recurrence in a zone, from one instant until another, spread over some seconds."""

from collections.abc import Iterator
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from scheduler_service.domain.crons import occurrences as calendar
from scheduler_service.domain.crons.compound import Recurrence
from scheduler_service.domain.crons.dst import DEFAULT_DST, Dst
from scheduler_service.domain.crons.zones import load_zone
from scheduler_service.domain.errors import InvalidRule
from scheduler_service.domain.ids import ClientId, CronId, UnixMillis
from scheduler_service.domain.spread import MAX_SPREAD_SECONDS, offset_ms, point_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Raises InvalidRule, with the field's name, for a value that is not valid."""

    expression: Recurrence
    """Its intervals have anchors."""
    timezone: str
    """An IANA name of the pinned database."""
    dst: Dst = DEFAULT_DST
    starts_at: UnixMillis | None = None
    """The first instant that may fire."""
    ends_at: UnixMillis | None = None
    """Nothing fires from here on."""
    spread_seconds: int = 0
    """Children are due up to this much later than their nominal instants, by a constant amount for each cron."""

    def __post_init__(self) -> None:
        load_zone(self.timezone)
        if self.starts_at is not None and self.ends_at is not None and self.ends_at <= self.starts_at:
            raise InvalidRule("ends_at", "must be later than starts_at")
        if not 0 <= self.spread_seconds <= MAX_SPREAD_SECONDS:
            raise InvalidRule("spread_seconds", f"must be 0 to {MAX_SPREAD_SECONDS}")

    @property
    def zone(self) -> ZoneInfo:
        return load_zone(self.timezone)

    def fires(self, after: int, until: int, *, zone: ZoneInfo | None = None) -> Iterator[UnixMillis]:
        """Nominal instants in (after, until] between starts_at and ends_at, ascending, computed lazily. `zone`: that of
        `timezone` in another release of the database."""
        last = until if self.ends_at is None else min(until, self.ends_at - 1)
        return calendar.fires(
            self.expression, self.zone if zone is None else zone, self.dst, after=self._begin(after), until=last
        )

    def first_fire(self, after: int) -> UnixMillis | None:
        """The first one later than `after`; None if there is none within five years of that and of starts_at."""
        return calendar.first_fire(self.expression, self.zone, self.dst, after=self._begin(after), until=self._last())

    def next_fires(self, after: int, count: int) -> list[UnixMillis]:
        """The first `count` later than `after`: fewer if the rule ends, or has a gap of more than five years."""
        return calendar.next_fires(
            self.expression, self.zone, self.dst, after=self._begin(after), count=count, until=self._last()
        )

    def check(self, after: int) -> None:
        """Raises InvalidRule if the rule would never fire after `after`, or not within five years."""
        if self.first_fire(after) is not None:
            return
        since = "of starts_at" if self.starts_at is not None and self.starts_at > after else "from now"
        unbounded = calendar.first_fire(self.expression, self.zone, self.dst, after=self._begin(after))
        if unbounded is not None:
            raise InvalidRule("ends_at", "there is no fire before it: choose a later one")
        raise InvalidRule("expression", f"does not fire within five years {since}")

    def _begin(self, after: int) -> int:
        return after if self.starts_at is None else max(after, self.starts_at - 1)

    def _last(self) -> int | None:
        return None if self.ends_at is None else self.ends_at - 1


def spread_offset_ms(client_id: ClientId, cron_id: CronId, spread_seconds: int) -> int:
    """How long after their nominal instants a cron's children are due: 0 <= offset < spread, constant for a cron."""
    return offset_ms(point_of(f"{client_id}/{cron_id}"), spread_seconds)
