"""Tokens: what a caller sends with a create so that repeating it writes the very same rows. Pure.

    once = ASKED_AT "." POLLERS "." POLLER "." NONCE        1795442222123.4.2.9f0c2d6a1be84735

Nothing is kept under a token. It holds all that a create takes beside its body: the instant it was asked at, the
client's quota it was asked under, the poller to begin with, and something random. So every process, at any time,
derives the same ids, and a repeat inserts equal values into the same cells of the same rows.

    tail of an id   BLAKE2b, under the client's id, of token and body, plus the item's position by golden steps
    poller            of its ordering key under POLLERS; else POLLER, and the next one after every `ITEMS_PER_POLLER`
                    items of a batch that are due in one minute, whether or not they are found right
    due, created_at as of ASKED_AT

Why nobody can do harm with one: the partition begins with the client of the path, so only rows of that client are
reached. Pollers are below the client's present quota, whatever it was when the token was made; choosing among them is
what ordering keys can do as well. A token is good for `MAX_AGE_MS`, which is far less than the shortest retention: a
repeat can't bring back what was deleted.

What holds of ids by chance only: the tail is a hash of the content, so another body, or another token, has another id
but once in 2^58. The hash has no secret, and positions are steps, so a client that searches finds two batches of its
own, in seconds of one core, of which many items share their ids. It harms its own rows alone: of two creates one row
is left, with the content of either, which may be called once or not again and shows the outcome of the one as the
other's, in lists and books too.

Dues, horizon and `created_at` are judged as of ASKED_AT, which is the client's to say, up to `MAX_AGE_MS` ago and
`MAX_AHEAD_MS` ahead. So a due of 15 minutes ago can be created, where 60 seconds are the most without a token; such a
create takes the late rule, as any does whose answer was that long in coming.

What a token does not do, as nothing is kept: a body that differs is not told from a first one (an Idempotency-Key does
that), and an item is judged once more, by the settings of now.
"""

import hashlib
import re
from typing import Final, NamedTuple

from scheduler_service.domain.ids import ClientId, PollerId, ScheduleId, UnixMillis, compose_schedule_id, minute_of
from scheduler_service.domain.quotas import pinned_poller

MAX_AGE_MS: Final = 15 * 60_000
"""Longer than callers repeat what got no answer."""
MAX_AHEAD_MS: Final = 60_000
"""For clocks that differ, and estimates of them."""
ONCE_PATTERN: Final = r"^[1-9][0-9]{0,14}\.[1-9][0-9]{0,3}\.(0|[1-9][0-9]{0,3})\.[0-9A-Za-z_-]{16,64}$"

ITEMS_PER_POLLER: Final = 50
"""Part of what a token stands for: with another number, a repeat in an API process of another version would create the
later items of a batch a second time, in other pollers."""

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
    """Raises ValueError with a sentence that says what it must be."""
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
    """The pollers and ids of one create. The same for the same client, token and body in every process. Positions
    are to be asked for in order, since pollers are filled in turn."""

    def __init__(self, client_id: ClientId, once: Once, body: bytes) -> None:
        self.asked_at = once.asked_at
        self._client_id = client_id
        self._once = once
        digest = hashlib.blake2b(once.text.encode(), digest_size=8, key=client_id.encode())
        digest.update(b"\n")
        digest.update(body)
        self._tail = int.from_bytes(digest.digest(), "big")
        self._counts: dict[int, int] = {}

    def at(self, position: int, *, due: int, ordering_key: str | None) -> tuple[PollerId, ScheduleId]:
        """Poller and id of the item at a position, from 0 on."""
        if ordering_key is not None:
            poller_id = pinned_poller(self._client_id, ordering_key, quota=self._once.pollers)
        else:
            turn = self.pass_over(due) // ITEMS_PER_POLLER
            poller_id = PollerId((self._once.poller + turn) % self._once.pollers)
        return poller_id, compose_schedule_id(due=due, poller_id=poller_id, tail=self._tail + position * _STEP)

    def pass_over(self, due: int) -> int:
        """Count an item without an ordering key; answers how many came before it in its minute. Those that are refused
        count as well: what settings say of them may be another thing by the time of a repeat."""
        minute = minute_of(due)
        before = self._counts.get(minute, 0)
        self._counts[minute] = before + 1
        return before
