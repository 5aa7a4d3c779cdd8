"""Once tokens: a caller sends one with a create so that repeating it writes the same rows. Pure.

    once = ASKED_AT "." POLLERS "." POLLER "." NONCE        1795442222123.4.2.9f0c2d6a1be84735

Nothing is stored under a token. It holds all inputs of a create beside its body: the instant of the request, the
client's quota at that time, the poller to begin with, and a random part. So every process, at any time, derives the
same ids, and a repeat inserts equal values into the same cells of the same rows.

    tail of an id    BLAKE2b, keyed with the client's id, of token and body, plus the item's position times `_STEP`
    poller           by the ordering key under POLLERS; else POLLER, and the next one after every `ITEMS_PER_POLLER`
                     items of a batch that are due in one minute, valid or not
    due, created_at  as of ASKED_AT

Why a token can do no harm: the partition begins with the client of the path, so it reaches only rows of that client.
Pollers have to be below the client's present quota; choosing among them is possible by ordering keys as well. A token
is valid for `MAX_AGE_MS`, far less than the shortest retention, so a repeat can't recreate a deleted row.

Ids are unique by chance only: the tail is a hash of the content, so another body or token gives the same id once in
2^58. The hash has no secret, and positions are steps, so a client that searches finds, in seconds on one core, two
batches of its own that share many ids. It harms only its own rows: of two creates one row is left, with the content of
either, which may be called once or not again and shows the outcome of one as the other's, also in lists and books.

Dues, horizon and `created_at` are judged as of ASKED_AT, which the client chooses, up to `MAX_AGE_MS` ago and
`MAX_AHEAD_MS` ahead. So rows may be inserted that were due up to 15 minutes ago; the late policy applies to them as to
any create whose answer took that long.

Because nothing is stored, a different body is not recognised (an Idempotency-Key does that), and each repeat is judged
again, by the present settings.
"""

import hashlib
import re
from typing import Final, NamedTuple

from scheduler_service.domain.ids import ClientId, PollerId, ScheduleId, UnixMillis, compose_schedule_id, minute_of
from scheduler_service.domain.quotas import pinned_poller
from scheduler_service.domain.spread import POINT_BITS

MAX_AGE_MS: Final = 15 * 60_000
"""Longer than callers repeat a request that got no answer."""
MAX_AHEAD_MS: Final = 60_000
"""Allows for clocks that differ, and for estimates of them."""
ONCE_PATTERN: Final = r"^[1-9][0-9]{0,14}\.[1-9][0-9]{0,3}\.(0|[1-9][0-9]{0,3})\.[0-9A-Za-z_-]{16,64}$"

ITEMS_PER_POLLER: Final = 50
"""Frozen, as part of a token's meaning: with another number, a repeat in an API process of another version would create
the later items of a batch a second time, in other pollers."""

_parts = re.compile(ONCE_PATTERN.strip("^$")).fullmatch
_STEP: Final = 0x9E3779B97F4A7C15
"""Odd, so that no two positions of a batch share a tail."""


class Once(NamedTuple):
    """A token. `poller` is below `pollers`."""

    text: str
    asked_at: UnixMillis
    pollers: int
    poller: PollerId


def parse_once(text: str) -> Once:
    """Raises ValueError with a sentence that says what the token must be."""
    if _parts(text) is None:
        raise ValueError("must be ASKED_AT.POLLERS.POLLER.NONCE: Unix milliseconds, two numbers, 16 to 64 characters")
    asked_at, pollers, poller, _ = text.split(".")
    if int(poller) >= int(pollers):
        raise ValueError("names a poller that is not below the number of pollers")
    return Once(text, UnixMillis(int(asked_at)), int(pollers), PollerId(int(poller)))


def age_fault(once: Once, *, now: int) -> str | None:
    """Why a token can't be used at `now`; None: it can."""
    if now - once.asked_at > MAX_AGE_MS:
        return f"the token was made {(now - once.asked_at) // 60_000} minutes ago, {MAX_AGE_MS // 60_000} is the most"
    if once.asked_at - now > MAX_AHEAD_MS:
        return f"the token is {(once.asked_at - now) // 1000} seconds ahead of this API's clock"
    return None


class OnceIds:
    """The pollers and ids of one create, the same for the same client, token and body in every process. Positions have
    to be asked for in order, because pollers are filled in turn."""

    def __init__(self, client_id: ClientId, once: Once, body: bytes) -> None:
        self.asked_at = once.asked_at
        self._client_id = client_id
        self._once = once
        digest = hashlib.blake2b(once.text.encode(), digest_size=8, key=client_id.encode())
        digest.update(b"\n")
        digest.update(body)
        self._tail = int.from_bytes(digest.digest(), "big")
        self._counts: dict[int, int] = {}

    def at(self, position: int, *, due: int, pin: str | None) -> tuple[PollerId, ScheduleId]:
        """Poller and id of the item at a position, from 0 on. `pin`: the name that decides its poller."""
        if pin is not None:
            poller_id = pinned_poller(self._client_id, pin, quota=self._once.pollers)
        else:
            turn = self.pass_over(due) // ITEMS_PER_POLLER
            poller_id = PollerId((self._once.poller + turn) % self._once.pollers)
        return poller_id, compose_schedule_id(due=due, poller_id=poller_id, tail=self._tail + position * _STEP)

    def point(self, position: int) -> int:
        """Where in its window the item at a position is due (`domain.spread`)."""
        return (self._tail + position * _STEP) % (1 << POINT_BITS)

    def pass_over(self, due: int) -> int:
        """Count an item whose poller no name decides; returns how many came before it in its minute. Refused items
        count as well, because a repeat may be judged by other settings, and the rest must keep their pollers."""
        minute = minute_of(due)
        before = self._counts.get(minute, 0)
        self._counts[minute] = before + 1
        return before
