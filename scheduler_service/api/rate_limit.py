"""The rate of creates, checked once a request, and the headers that report it: `RateLimit` and `RateLimit-Policy`.

    create, reschedule, trigger, put of a cron      one each
    batch                                           one for each item
    redeliver, reads, cancels                       none: they make no new schedule

Every create that is asked for counts, whatever becomes of it: an item refused for its faults has been judged too. The
rate is taken before anything is judged. So a refusal costs the body and, for a batch, finding where its items begin:
1 ms for 1,000 invalid ones, where judging them takes 20 to 50.

The headers are those of draft-ietf-httpapi-ratelimit-headers (structured fields, RFC 9651): `q` and `w`, the bucket's
size and the seconds that fill it; `r` and `t`, what is left in it and the seconds until it is full.

It costs 2.0 µs a create, of which the bucket takes 1.4 (`timeit`, see `domain.rates`).
"""

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from scheduler_service.api.problems import Refusal
from scheduler_service.domain.clients import CREATES_PER_POLLER, Client
from scheduler_service.domain.rates import BURST_SECONDS, Rates
from scheduler_service.runtime.clock import Clock

RATE_HEADERS: Final[Mapping[str, str]] = {
    "RateLimit-Policy": f'`"creates";q=BURST;w={BURST_SECONDS}`: each API process allows this client BURST creates '
    f"in {BURST_SECONDS} seconds.",
    "RateLimit": '`"creates";r=LEFT;t=SECONDS`: LEFT creates are allowed now; the whole burst again after SECONDS.',
}
RATED: Final = ("too-many-creates",)
"""A problem of every route that counts creates."""
_LONGEST: Final = 999_999_999_999_999
"""The largest integer of a structured field."""


class RateLimit:
    """Limits how much each client may create through this process."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._rates = Rates()

    def take(self, client: Client, count: int = 1) -> dict[str, str]:
        """Take `count` creates and answer the headers. Raises Refusal (too-many-creates): nothing was taken."""
        rate = _rate_of(client)
        left, full_after, wait = self._rates.take(client.client_id, count, rate=rate, now=self._clock.monotonic())
        headers = {
            "RateLimit-Policy": _policy(rate),
            "RateLimit": f'"creates";r={left};t={min(math.ceil(full_after), _LONGEST)}',
        }
        if wait is None:
            return headers
        seconds = max(math.ceil(wait), 1)
        what = "one create" if count == 1 else f"{count} creates"
        raise Refusal(
            "too-many-creates",
            f"the rate limit of {rate:.12g} creates a second leaves no room for {what} now; retry in {seconds} s",
            headers={**headers, "Retry-After": str(seconds)},
        )

    def give_back(self, client: Client) -> None:
        """Give back one create that was taken a moment ago and not used."""
        self._rates.give_back(client.client_id, 1, rate=_rate_of(client))


def _rate_of(client: Client) -> float:
    return client.settings.create_rate_per_second or CREATES_PER_POLLER * client.poller_quota


@lru_cache(maxsize=4096)
def _policy(rate: float) -> str:
    return f'"creates";q={max(int(rate * BURST_SECONDS), 1)};w={BURST_SECONDS}'
