"""Tokens for creates, so that one which got no answer can be sent again and makes nothing twice.

The API keeps nothing under a token: it derives the same ids from the same token and body. What a token is made of, the
API's clock and the client's quota, comes with every answer to a create (`Minutehand-Once: NOW.POLLERS`); until there
was one, and whenever the last one can't be relied on any more, creates go under an `Idempotency-Key`.

The API's clock is reckoned from this machine's monotonic clock at the instant at which the answered request was sent,
so that it is never behind by the way there, and no delay counts from before it was asked for. Of several answers the
one with the shortest way there and back is kept. It is ahead by no more than that way, which delays are late by, so
what took longer than a second says nothing of the clock. A machine that slept, or whose wall clock was set, starts
over, and so does a connection after a refusal of a token.
"""

import math
import re
from datetime import datetime
from typing import NamedTuple

from minutehand.client._models import NewSchedule
from minutehand.client._pace import Pace

HEADER = "minutehand-once"
REFUSED = "once-refused"
RUN_LENGTH = 200
"""Creates for one minute that go to one poller, one after the other: they are written, and claimed, together."""
_RELIED_ON_SECONDS = 600.0
_BETTERED_SECONDS = 60.0
"""So long the shortest way counts; then clocks may have drifted."""
_LONGEST_WAY_SECONDS = 1.0
_LEAP_SECONDS = 1.0
_RESTS_SECONDS = 60.0
"""So long no tokens are made after one met an API that knows none: beside such, each create would cost two requests."""
_REMEMBERED_MINUTES = 4096
_parts = re.compile(r"([1-9][0-9]{0,14})\.([1-9][0-9]{0,3})").fullmatch


class Creating(NamedTuple):
    """A create that a token can be made for. `schedule` None: a batch."""

    client_id: str
    schedule: NewSchedule | None = None


class _Told(NamedTuple):
    """What an answer told. `ahead`: the API's clock less the monotonic one, `leap`: the wall clock less that one; `at`:
    monotonic, `way`: from the request to its answer. All in seconds."""

    ahead: float
    way: float
    leap: float
    at: float
    pollers: int


class Tokens:
    """Those of one connection. May be shared by threads: what two of them do at once costs evenness at most."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._told: dict[str, _Told] = {}
        self._rests_until = -math.inf
        self._placed: dict[tuple[str, int], int] = {}

    def heard(self, client_id: str, header: str, *, sent_at: float) -> None:
        """An answer to a create. `sent_at`: monotonic, when that very request was sent. Headers of another form say
        nothing."""
        if (parts := _parts(header)) is None:
            return
        pollers, told = int(parts[2]), self._told.get(client_id)
        if told is not None and pollers != told.pollers:
            told = self._told[client_id] = told._replace(pollers=pollers)
        now, wall = self._pace.monotonic(), self._pace.wall()
        way = now - sent_at
        if way > _LONGEST_WAY_SECONDS:
            return
        if told is None or way <= told.way or sent_at - told.at > _BETTERED_SECONDS or self._leapt(told):
            self._told[client_id] = _Told(int(parts[1]) / 1000 - sent_at, way, wall - now, sent_at, pollers)

    def forget(self, client_id: str) -> None:
        """What was told is not so: a token was refused."""
        self._told.pop(client_id, None)

    def rest(self) -> None:
        """An API knows no tokens: make none for a while."""
        self._rests_until = self._pace.monotonic() + _RESTS_SECONDS

    def new(self, creating: Creating) -> str | None:
        """A token that nobody has used; None: nothing is known to make it of."""
        told, now = self._told.get(creating.client_id), self._pace.monotonic()
        if told is None or now < self._rests_until or now - told.at > _RELIED_ON_SECONDS or self._leapt(told):
            return None
        asked_at = int((told.ahead + now) * 1000) + 1
        return f"{asked_at}.{told.pollers}.{self._poller(creating, asked_at, told.pollers)}.{self._pace.nonce()}"

    def _leapt(self, told: _Told) -> bool:
        return abs(self._pace.wall() - self._pace.monotonic() - told.leap) > _LEAP_SECONDS

    def _poller(self, creating: Creating, asked_at: int, pollers: int) -> int:
        """By turns for each minute that is created for, from a random one on; a batch goes through them by itself."""
        if pollers == 1:
            return 0
        if creating.schedule is None:
            return int(self._pace.fraction() * pollers)
        key, placed = (creating.client_id, _minute(creating.schedule, asked_at)), self._placed
        turn = placed.get(key)
        if turn is None:
            if len(placed) >= _REMEMBERED_MINUTES:
                placed.clear()
            turn = int(self._pace.fraction() * pollers) * RUN_LENGTH
        placed[key] = turn + 1
        return turn // RUN_LENGTH % pollers


def _minute(schedule: NewSchedule, asked_at: int) -> int:
    """The minute that it is due in; 0 for one that the API will refuse."""
    due = schedule.due
    try:
        if isinstance(schedule.delay_seconds, (int, float)):
            return int(asked_at / 1000 + schedule.delay_seconds) // 60
        if isinstance(due, str):
            due = datetime.fromisoformat(due)
        return int(due.timestamp()) // 60 if isinstance(due, datetime) else 0
    except (ValueError, OverflowError):
        return 0
