"""Chooses the poller of a new schedule. Pure but for the randomness it is given.

With a flow key or an ordering key the key decides (the flow key, if there are both): rendezvous hashing over the
pollers of the quota, so that a growing quota moves only the keys that the new pollers win, and a shrinking one only
those of the pollers that went. When a key moves, rows created before stay in its old poller: both parts are in order
and within the limits of the key, but do not wait for one another.

Without one the choice is free. Rows of one partition are cheap to write together, and every poller is guaranteed the
same rate, so per client and minute the pollers are filled in turn, `RUN_LENGTH` rows at a time:

    0 0 0 0 … 1 1 1 1 … 2 2 2 2 … 0 0 0 0 …

beginning at a random poller. However many rows a minute gets and however many processes create them, no process fills
one poller more than one run above another, and over many minutes all pollers get equally many.
"""

import hashlib

from scheduler_service.domain.clients import GUARANTEED_CALLS_PER_MINUTE
from scheduler_service.domain.ids import ClientId, Minute, PollerId
from scheduler_service.runtime.randomness import Randomness

RUN_LENGTH = 200
"""Consecutive rows for one poller: what one write carries, and a divisor of a poller's guaranteed calls a minute. A
smaller value would spread a sparse minute over more pollers, each with its own index row and writes."""
REMEMBERED_MINUTES = 65_536
"""(client, minute) pairs whose turn is remembered. Dropping one only begins a new turn at a random poller."""

assert GUARANTEED_CALLS_PER_MINUTE % RUN_LENGTH == 0

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


class PollerChooser:
    """Spreads one process's creates over the pollers of each client."""

    def __init__(self, randomness: Randomness, *, remembered: int = REMEMBERED_MINUTES) -> None:
        self._randomness = randomness
        self._remembered = remembered
        self._placed: dict[tuple[ClientId, Minute], int] = {}

    def choose(self, client_id: ClientId, minute: Minute, *, quota: int) -> PollerId:
        """The poller in 0..quota-1 for one more schedule without an ordering key."""
        if quota == 1:
            return PollerId(0)
        placed = self._placed
        turn = placed.get((client_id, minute))
        if turn is None:
            if len(placed) >= self._remembered:
                del placed[next(iter(placed))]
            turn = int(self._randomness.fraction() * quota) * RUN_LENGTH
        placed[client_id, minute] = turn + 1
        return PollerId(turn // RUN_LENGTH % quota)


def derived_poller(client_id: ClientId, name: str, *, pollers: int) -> PollerId:
    """The poller in 0..pollers-1 for a name that needs no order but always the same poller (BLAKE2b of the name)."""
    digest = hashlib.blake2b(name.encode(), digest_size=8, key=client_id.encode()).digest()
    return PollerId(int.from_bytes(digest, "big") % pollers)


def pinned_poller(client_id: ClientId, key: str, *, quota: int) -> PollerId:
    """The poller in 0..quota-1 that a key belongs to, the same in every process.

    The highest score wins (Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998). A poller's
    score is the splitmix64 output (Steele, Lea and Flood, 2014) for the key's 64-bit BLAKE2b advanced by the poller's
    number."""
    digest = hashlib.blake2b(key.encode(), digest_size=8, key=client_id.encode()).digest()
    seed = int.from_bytes(digest, "big")
    best_poller, best_score = 0, -1
    for poller in range(quota):
        mixed = seed + (poller + 1) * _GOLDEN & _MASK
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _MASK
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
        mixed ^= mixed >> 31
        if mixed > best_score:
            best_poller, best_score = poller, mixed
    return PollerId(best_poller)
