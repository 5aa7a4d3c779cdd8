"""The rate of creates, asked for once a request, and how it is told: `RateLimit` and `RateLimit-Policy`.

    create, reschedule, trigger, put of a cron      one each           batch  its items
    redeliver, reads, cancels                       none: no new schedule comes of them

What was asked for counts, whatever comes of it: an item that is refused for its faults has been judged all the same.
It is taken before anything is judged. So what is refused here costs its body, and of a batch finding where its items
begin: 1 ms for 1,000 wrong ones, where judging them takes 20 to 50.
The headers are those of draft-ietf-httpapi-ratelimit-headers (structured fields, RFC 9651): `q` and `w`, the bucket's
size and the seconds that fill it; `r` and `t`, what is left in it and the seconds until it is full.

All of it costs 2.0 µs a create, of which the bucket takes 1.4 (`timeit`, see `domain.rates`).
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
    "RateLimit-Policy": f'`"creates";q=BURST;w={BURST_SECONDS}`: so many creates are given to this client in so many '
    "seconds, by each API process.",
    "RateLimit": '`"creates";r=LEFT;t=SECONDS`: so many more may be asked for now; the whole burst after so long.',
}
RATED: Final = ("too-many-creates",)
"""What every route that asks for creates can answer."""
_LONGEST: Final = 999_999_999_999_999
"""The largest integer of a structured field."""


class RateLimit:
    """One process's judge of how much its clients create."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._rates = Rates()

    def take(self, client: Client, count: int = 1) -> dict[str, str]:
        """Headers for the answer. Raises Refusal (too-many-creates): nothing was taken."""
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
            f"there is no room for {what} now; this client is given {rate:.12g} a second. Ask again in {seconds} s",
            headers={**headers, "Retry-After": str(seconds)},
        )

    def give_back(self, client: Client) -> None:
        """One that was taken a moment ago, by somebody who did nothing with it."""
        self._rates.give_back(client.client_id, 1, rate=_rate_of(client))


def _rate_of(client: Client) -> float:
    return client.settings.create_rate_per_second or CREATES_PER_POLLER * client.poller_quota


@lru_cache(maxsize=4096)
def _policy(rate: float) -> str:
    return f'"creates";q={max(int(rate * BURST_SECONDS), 1)};w={BURST_SECONDS}'
