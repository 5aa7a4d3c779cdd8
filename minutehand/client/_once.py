"""Tokens for creates: a create without an answer can be sent again and creates nothing twice.

The API stores nothing for a token: it derives the same ids from the same token and body. A token is made of the API's
clock and the client's quota, which come with every answer to a create (`Minutehand-Once: NOW.POLLERS`). Before the
first such answer, and whenever the last one is too old, creates carry an `Idempotency-Key`.

The API's clock is estimated from this machine's monotonic clock at the instant the request was sent. So the estimate is
never behind the API's clock, and no delay counts from before it was asked for; it is ahead by at most the round trip,
by which delays are late. Of several answers the one with the shortest round trip is kept, and none of more than a
second is used. A suspended machine, a step of the wall clock and a refused token discard the estimate.
"""

import math
import re
from datetime import datetime
from typing import NamedTuple

from minutehand.client._models import NewSchedule
from minutehand.client._runtime import Runtime

HEADER = "minutehand-once"
REFUSED = "once-refused"
RUN_LENGTH = 200
"""Consecutive creates for one minute that go to one poller, so that they are written, and claimed, together."""
_RELIED_ON_SECONDS = 600.0
_BETTERED_SECONDS = 60.0
"""How long the shortest round trip is kept; after that clocks may have drifted."""
_LONGEST_WAY_SECONDS = 1.0
_LEAP_SECONDS = 1.0
_RESTS_SECONDS = 60.0
"""How long no tokens are made after an API did not know them: each create there would cost two requests."""
_REMEMBERED_MINUTES = 4096
_parts = re.compile(r"([1-9][0-9]{0,14})\.([1-9][0-9]{0,3})").fullmatch


class Creating(NamedTuple):
    """A create that may carry a token. `schedule` None: a batch."""

    client_id: str
    schedule: NewSchedule | None = None


class _Told(NamedTuple):
    """The clock and quota from one answer. `ahead`: the API's clock minus the monotonic one; `leap`: the wall clock
    minus the monotonic one; `at`: when the request was sent, monotonic; `way`: the round trip. All in seconds."""

    ahead: float
    way: float
    leap: float
    at: float
    pollers: int


class Tokens:
    """Makes the tokens of one connection. Threads may share it: a race costs an even spread over pollers, nothing
    else."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._told: dict[str, _Told] = {}
        self._rests_until = -math.inf
        self._placed: dict[tuple[str, int], int] = {}

    def heard(self, client_id: str, header: str, *, sent_at: float) -> None:
        """Learn from an answer to a create. `sent_at`: when that request was sent, monotonic. Malformed headers are
        ignored."""
        if (parts := _parts(header)) is None:
            return
        pollers, told = int(parts[2]), self._told.get(client_id)
        if told is not None and pollers != told.pollers:
            # A token above the client's quota is refused, so a changed quota counts even from a slow answer.
            told = self._told[client_id] = told._replace(pollers=pollers)
        now, wall = self._runtime.monotonic(), self._runtime.wall()
        way = now - sent_at
        if way > _LONGEST_WAY_SECONDS:
            return
        if told is None or way <= told.way or sent_at - told.at > _BETTERED_SECONDS or self._leapt(told):
            self._told[client_id] = _Told(int(parts[1]) / 1000 - sent_at, way, wall - now, sent_at, pollers)

    def forget(self, client_id: str) -> None:
        """Discard the estimate after a refused token."""
        self._told.pop(client_id, None)

    def rest(self) -> None:
        """Make no tokens for a while: an API does not know them."""
        self._rests_until = self._runtime.monotonic() + _RESTS_SECONDS

    def new(self, creating: Creating) -> str | None:
        """A new token; None when there is no usable estimate."""
        told, now = self._told.get(creating.client_id), self._runtime.monotonic()
        if told is None or now < self._rests_until or now - told.at > _RELIED_ON_SECONDS or self._leapt(told):
            return None
        # Rounded up: an estimate behind the API's clock would count delays from before they were asked for.
        asked_at = int((told.ahead + now) * 1000) + 1
        return f"{asked_at}.{told.pollers}.{self._poller(creating, asked_at, told.pollers)}.{self._runtime.nonce()}"

    def _leapt(self, told: _Told) -> bool:
        return abs(self._runtime.wall() - self._runtime.monotonic() - told.leap) > _LEAP_SECONDS

    def _poller(self, creating: Creating, asked_at: int, pollers: int) -> int:
        """Round robin for each due minute, from a random poller on; the API spreads the items of a batch itself."""
        if pollers == 1:
            return 0
        if creating.schedule is None:
            return int(self._runtime.fraction() * pollers)
        key, placed = (creating.client_id, _minute(creating.schedule, asked_at)), self._placed
        turn = placed.get(key)
        if turn is None:
            if len(placed) >= _REMEMBERED_MINUTES:
                # Losing the turns costs evenness for a moment; the bound keeps memory constant.
                placed.clear()
            turn = int(self._runtime.fraction() * pollers) * RUN_LENGTH
        placed[key] = turn + 1
        return turn // RUN_LENGTH % pollers


def _minute(schedule: NewSchedule, asked_at: int) -> int:
    """The minute of its due; 0 where the API will refuse it."""
    due = schedule.due
    try:
        if isinstance(schedule.delay_seconds, (int, float)):
            return int(asked_at / 1000 + schedule.delay_seconds) // 60
        if isinstance(due, str):
            due = datetime.fromisoformat(due)
        return int(due.timestamp()) // 60 if isinstance(due, datetime) else 0
    except (ValueError, OverflowError):
        return 0
