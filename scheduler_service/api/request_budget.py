"""The budget of requests for each client and each administrator, in units of about 1 ms of CPU of one core.

    Route.cost                  taken before the handler runs; what does not fit is answered 429 with Retry-After
    a long body                 bytes beyond FREE_BYTES, taken before they are read: all at once, or as chunks arrive
    a long answer               its bytes, owed afterwards: the next request waits for them
    RequestContext.spend        repeated work of a handler, such as the schedules of a bulk cancel; owed afterwards
    RequestContext.has_read     rows and bytes that a listing read; owed once they are read, whatever is answered

A body that did not arrive with its head holds its connection until it is complete or the request has timed out, and
costs nothing meanwhile. So the bodies of one caller may hold a quarter of the connections (`BodyCapacity`); a request
beyond that is answered 429 and its connection is closed. Bodies that arrive with their heads are not counted.

A request under way may cost more than was taken. So HEAVY_READS_AT_ONCE requests of one caller that read much
(`Route.reads_much`) are handled at a time. The others wait for their turn, and are refused then if the budget is used
up.

Every change of a client makes APIs drop their caches and nodes read all clients again. So what a client's own key may
change by a route of scope `manage` has a budget beside this one: 20 changes at once and two a minute, at the default
`client_budget_per_second`, and more in proportion to it.

Receivers of a client, which send words without a key, have a budget beside that of its keys: neither uses up what the
other has. Other routes without a key have no budget, and answer from memory. Where one has to read storage first, all
callers together may do so ten times a second, and those of one address four times, so that one which guesses leaves the
others more than half; what shows to be no guess is given back. Callers behind a proxy have one address. Logins at the
console that fail are bounded for each address alone, two a second and twenty at once, so that nobody elsewhere can keep
others from logging in. Sessions are kept for hours, and who ends all of theirs has storage read all there are: so each
caller may begin ten a minute and a hundred at once, and ending all has a cost.

Creates have a rate instead (`api.rate_limit`): their routes cost 0, so only their long bodies count here. The default
cost of a route is 1, so that new routes are bounded too. An administrator's requests count for the administrator, never
for the client in the path.

Measured on a running API process (its CPU time, request after request, two busy cores; an idle machine takes half):

    GET of one thing, attempts                1-1.5 ms      cost 1-2
    GET schedules, a day without any          14            10
      100 of them, 1,000                      7, 19         10, and 4, 44 for the answer
    GET balance, an hour or a day of none     2.7, 20       2, and 1 an hour
      30 minutes of 4 pollers, 10,000 open    72            2, 1, 30 for partitions, 40 for rows
    GET dead letters, a day of none           17            15
    GET 100 crons                             6             2, 2 for rows, 4 for the answer
      500 runs of one                         5             5, 7 for the answer
    PUT a cron, new or the same               2.9, 1.6      5, and 20 for 1,000 crons counted
    DELETE a cron, pause, resume              4, 3, 3       4, 3, 3
    preview: usual, 72 years, zone not seen   0.5, 2, 8     3
    DELETE a schedule                         2.9           2
    PUT under a new key, the same key again   0.5, 0.6      1, beside the rate of creates
    cancel 100 of 100 partitions              31            5, and 33
      1,000 of 120 partitions                 90            5, and 333
    POST reconciliation, GET them             8, 1.1        10, 2

Each process has its own budgets. A full one holds ten seconds' worth, as the rate of creates does (`domain.rates`).
"""

import asyncio
import math
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv6Address, IPv6Network
from typing import Final

from scheduler_service.api.problems import Refusal
from scheduler_service.api.settings import ApiSettings
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.rates import Rates
from scheduler_service.runtime.clock import Clock
from scheduler_service.usecases.authenticate import Principal

FREE_BYTES: Final = 128 * 1024
"""Bytes of a body that cost nothing. A create with a payload of the default length has fewer."""
BODY_BYTES_PER_UNIT: Final = 100 * 1024
ANSWER_BYTES_PER_UNIT: Final = 16 * 1024
ROWS_READ_PER_UNIT: Final = 50
"""A row of 60 kB takes storage about 30 µs even if its content is not returned."""
BYTES_READ_PER_UNIT: Final = 64 * 1024
HEAVY_READS_AT_ONCE: Final = 4
CALLERS_TO_FILL: Final = 4
"""The least number of callers that can use up all connections by withholding bodies."""
BUDGET_PER_CHANGE: Final = 125.0
"""What of `client_budget_per_second` lets a client change itself once a minute."""
OPEN_READS_PER_SECOND: Final = 10
"""Reads of storage for callers without a key, with a burst of ten seconds' worth."""
OPEN_READS_PER_ADDRESS: Final = 4
"""Those of one address."""
FAILED_LOGINS_PER_ADDRESS: Final = 2
"""Failed logins at the console a second of one address, with a burst of ten seconds' worth."""
SESSIONS_PER_MINUTE: Final = 10
"""Sessions of the console that a caller may begin, with a burst of ten minutes' worth."""
END_SESSIONS_COST: Final = 100
TOO_MANY: Final = "too-many-requests"
RECEIVER: Final = "receiver"
"""The name of a client's receivers as callers; they have no key."""


class BodyCapacity:
    """What the bodies of each caller hold: memory, from their first byte to their answer, and connections, until they
    have arrived. A caller may hold `held_body_bytes`, or one body, and a share of the connections, so that bodies that
    never end hold no more than that."""

    def __init__(self, *, settings: ApiSettings) -> None:
        self._limit = max(settings.held_body_bytes, settings.max_body_bytes)
        self._held: dict[str, int] = {}
        self._awaited: dict[str, int] = {}
        self.share_connections(settings.max_connections)

    def share_connections(self, connections: int) -> None:
        """Set how many connections there may be; each caller gets 1 / CALLERS_TO_FILL of them."""
        self._most_awaited = max(connections // CALLERS_TO_FILL, 1)

    @contextmanager
    def awaiting(self, principal: Principal) -> Iterator[None]:
        """Wait for a body that did not arrive with its head. Raises Refusal (too-many-requests), which closes the
        connection."""
        whose = _whose(principal)
        awaited = self._awaited.get(whose, 0)
        if awaited >= self._most_awaited:
            detail = f"{awaited} requests of this caller wait for their bodies, which is the limit; retry later"
            raise Refusal(TOO_MANY, detail, headers={"Retry-After": "1", "Connection": "close"})
        self._awaited[whose] = awaited + 1
        try:
            yield
        finally:
            self._awaited[whose] -= 1
            if not self._awaited[whose]:
                del self._awaited[whose]

    def hold(self, principal: Principal, size: int) -> None:
        """Raises Refusal (too-many-requests): then nothing more is held."""
        whose = _whose(principal)
        held = self._held.get(whose, 0) + size
        if held > self._limit:
            detail = f"the bodies of this caller's requests exceed the limit of {self._limit} bytes; retry later"
            raise too_many(detail, 1)
        self._held[whose] = held

    def release(self, principal: Principal, size: int) -> None:
        whose = _whose(principal)
        held = self._held.pop(whose) - size
        if held:
            self._held[whose] = held


@dataclass(slots=True)
class _Turns:
    """The turns of one caller. `asked`: how many requests have a turn or wait for one."""

    asked: int = 0
    free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(HEAVY_READS_AT_ONCE))


class RequestBudget:
    """Limits what each caller's requests may cost in this process."""

    def __init__(self, *, settings: ApiSettings, clock: Clock) -> None:
        self._clock = clock
        self._client_rate = settings.client_budget_per_second
        self._admin_rate = settings.admin_budget_per_second
        self._rates = Rates()
        self._changes = Rates()
        self._open_reads = Rates()
        self._addresses = Rates()
        self._logins = Rates()
        self._sessions = Rates()
        self._turns: dict[str, _Turns] = {}

    def take(self, principal: Principal, cost: float) -> None:
        """Raises Refusal (too-many-requests): then nothing was taken."""
        whose, rate = self._of(principal)
        wait = self._rates.take(whose, cost, rate=rate, now=self._clock.monotonic()).wait_seconds
        if wait is not None:
            seconds = max(math.ceil(wait), 1)
            detail = f"the requests of the last seconds have used up the budget; retry in {seconds} s"
            raise too_many(detail, seconds)

    def take_change(self, client_id: ClientId) -> None:
        """Take one of the changes that a client may make of itself. Raises Refusal (too-many-requests)."""
        # In minutes: a full bucket then holds ten of them.
        rate, now = self._client_rate / BUDGET_PER_CHANGE, self._clock.monotonic() / 60
        wait = self._changes.take(client_id, 1, rate=rate, now=now).wait_seconds
        if wait is not None:
            seconds = max(math.ceil(wait * 60), 1)
            detail = f"this client has changed its keys, secrets or settings too often; ask again in {seconds} s"
            raise too_many(detail, seconds)

    def take_open_read(self, address: str) -> None:
        """Take one read of storage for a caller without a key. Raises Refusal (too-many-requests)."""
        now = self._clock.monotonic()
        # Its own first, so that what one address is refused takes nothing from the others.
        wait = self._addresses.take(_subscriber(address), 1, rate=OPEN_READS_PER_ADDRESS, now=now).wait_seconds
        if wait is None:
            wait = self._open_reads.take("", 1, rate=OPEN_READS_PER_SECOND, now=now).wait_seconds
        if wait is not None:
            raise too_many("callers without a key have asked for too much of what is not in memory; retry later", 1)

    def give_back_open_read(self, address: str) -> None:
        """Undo a `take_open_read`."""
        now = self._clock.monotonic()
        self._addresses.owe(_subscriber(address), -1, rate=OPEN_READS_PER_ADDRESS, now=now)
        self._open_reads.owe("", -1, rate=OPEN_READS_PER_SECOND, now=now)

    def take_login(self, address: str) -> None:
        """Take one of the logins that may fail. Raises Refusal (too-many-requests)."""
        now = self._clock.monotonic()
        taken = self._logins.take(_subscriber(address), 1, rate=FAILED_LOGINS_PER_ADDRESS, now=now)
        if taken.wait_seconds is not None:
            raise too_many("too many logins from this address have failed; wait a little", 1)

    def give_back_login(self, address: str) -> None:
        """Undo a `take_login`, as it did not fail."""
        now = self._clock.monotonic()
        self._logins.owe(_subscriber(address), -1, rate=FAILED_LOGINS_PER_ADDRESS, now=now)

    def take_session(self, principal: Principal) -> None:
        """Take one of the sessions that a caller may begin. Raises Refusal (too-many-requests)."""
        now = self._clock.monotonic() / 60
        wait = self._sessions.take(_whose(principal), 1, rate=SESSIONS_PER_MINUTE, now=now).wait_seconds
        if wait is not None:
            seconds = max(math.ceil(wait * 60), 1)
            raise too_many(f"too many sessions were begun; log in again in {seconds} s", seconds)

    def owe(self, principal: Principal, cost: float) -> None:
        """Charge for work that is done already; the budget may go into debt."""
        whose, rate = self._of(principal)
        self._rates.owe(whose, cost, rate=rate, now=self._clock.monotonic())

    @asynccontextmanager
    async def turn(self, principal: Principal) -> AsyncIterator[None]:
        """Wait until fewer than HEAVY_READS_AT_ONCE are under way. Raises Refusal (too-many-requests) if they have used
        up the budget."""
        whose, _ = self._of(principal)
        turns = self._turns.setdefault(whose, _Turns())
        turns.asked += 1
        try:
            async with turns.free:
                # Earlier requests may have left a debt while this one waited.
                self.take(principal, 0)
                yield
        finally:
            turns.asked -= 1
            # The last to leave removes the entry, so memory is bounded by callers with requests under way.
            if not turns.asked:
                del self._turns[whose]

    def _of(self, principal: Principal) -> tuple[str, float]:
        """The key of the budget, and what a second adds to it."""
        return _whose(principal), self._admin_rate if principal.client_id is None else self._client_rate


def _whose(principal: Principal) -> str:
    """The key of a caller's budget. No client's id has a space, so the kinds can't collide."""
    if principal.client_id is None:
        return f"administrator {principal.name}"
    if principal.name == RECEIVER and principal.key_id is None:
        return f"receivers of {principal.client_id}"
    return principal.client_id


def _subscriber(address: str) -> str:
    """An address as it is counted: one of IPv6 by its first 64 bits, since a network has all that share them."""
    if ":" not in address:
        return address
    try:
        found = IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    return str(found.ipv4_mapped or IPv6Network((int(found) >> 64 << 64, 64)))


def too_many(detail: str, seconds: int) -> Refusal:
    return Refusal(TOO_MANY, detail, headers={"Retry-After": str(seconds)})


def cost_of_reading(rows: int, size: int) -> float:
    return rows / ROWS_READ_PER_UNIT + size / BYTES_READ_PER_UNIT


def cost_of_body(size: int) -> float:
    return max(size - FREE_BYTES, 0) / BODY_BYTES_PER_UNIT
