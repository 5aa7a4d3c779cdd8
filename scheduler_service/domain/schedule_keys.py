"""Keys: a client's own names for its schedules. Pure.

A schedule that was put under a key carries a mark of it in its options. Each has a higher revision than the one before,
so of two schedules of one key the later one is known. Revisions also are no lower than the clock was, in milliseconds:
they go on where a key is put again that was forgotten. `usecases.schedule_keys` is the protocol."""

import re
from typing import Final, NamedTuple

import msgspec

from scheduler_service.domain.errors import FieldError
from scheduler_service.domain.ids import DAY_MS, ScheduleId, UnixMillis

MAX_SCHEDULE_KEY: Final = 256
KEY_PATTERN: Final = rf"^[\x21-\x7e]{{1,{MAX_SCHEDULE_KEY}}}$"
"""Visible ASCII characters: a key is sent in a header."""
SLACK_DAYS: Final = 8
"""Added to the retention of a key: retries may go on for 7 days after the due."""
LAST_EXPIRY_MS: Final = 2_147_400_000_000
"""2038-01-18T04:00Z: Cassandra refuses a time to live that ends after the 19th (CASSANDRA-14092)."""

_is_key = re.compile(KEY_PATTERN.strip("^$")).fullmatch


class KeyMark(msgspec.Struct, frozen=True, gc=False):
    """The key of a schedule, in its options. `put_at`: when it was put. `kept_days`: for how long after the due the key
    is kept. `latest`: schedules that replace this one are due then at the latest."""

    name: str
    revision: int
    put_at: UnixMillis
    kept_days: int
    latest: UnixMillis | None = None

    def following(self) -> "KeyMark":
        """The mark of the schedule that replaces this one."""
        return msgspec.structs.replace(self, revision=self.revision + 1)

    def kept_seconds(self, *, due: int, now: int) -> int:
        """How long from `now` on the key of a schedule due at `due` is kept, both in Unix milliseconds."""
        return (min(max(due, now) + self.kept_days * DAY_MS, LAST_EXPIRY_MS) - now) // 1000


class KeyHolder(NamedTuple):
    """A schedule that took a key, with its revision. Later ones may have replaced it."""

    schedule_id: ScheduleId
    revision: int


class KeyRow(NamedTuple):
    """What is stored of a key. `taken`: by this one; None: by none, or that is forgotten. `ahead`: one of those that
    replaced it, each after the other; None: it is not known, and all of them are found from `taken` on."""

    taken: KeyHolder | None = None
    ahead: ScheduleId | None = None

    @classmethod
    def stored(
        cls,
        schedule_id: ScheduleId | None,
        revision: int | None,
        ahead_id: ScheduleId | None,
        ahead_base: int | None,
    ) -> "KeyRow":
        """From the columns. What is ahead of another revision counts no more."""
        taken = None if schedule_id is None or revision is None else KeyHolder(schedule_id, revision)
        counts = taken is None or ahead_base == taken.revision
        return cls(taken, ahead_id if counts else None)

    @property
    def names(self) -> ScheduleId | None:
        """Where to look for the present schedule."""
        if self.ahead is not None or self.taken is None:
            return self.ahead
        return self.taken.schedule_id

    @property
    def base(self) -> int:
        """The revision of what took it; 0: that is forgotten."""
        return 0 if self.taken is None else self.taken.revision


def check_key(key: str) -> list[FieldError]:
    """The faults of a key."""
    if _is_key(key):
        return []
    return [FieldError("/key", f"must be 1 to {MAX_SCHEDULE_KEY} visible ASCII characters without spaces")]
