"""The clocks of the store's servers, asked in turn for as long as the process runs.

Servers often run on other machines than the nodes, so they can contradict a single node, and nodes that share a host.
At which moment between request and answer a server read its clock is unknown. So servers are accurate to a second or
so, not to the milliseconds for which members compare their heartbeats (`clocks`).
"""

import asyncio
from statistics import median_high
from typing import NamedTuple

from membership.errors import StoreUnavailable
from membership.ports import MemberStore, WallClock
from membership.settings import MembershipSettings

_BEATS_BETWEEN = 2
_REPEATED = 2
"""Servers are asked in turn: after this many answers from servers that had answered before, all have answered. Judging
earlier, nodes that share a wrong time would outvote the few servers known so far."""
_READS_AT_FIRST = 10
"""Requests per beat until all servers have answered."""
_REMEMBERED_SECONDS = 60.0
"""The answer of a server that has been silent for longer is dropped: it is gone, or can't be reached."""


class _Told(NamedTuple):
    """`asked_at`: own monotonic seconds. `origin_ms`: the server's time at the origin of that clock."""

    asked_at: float
    origin_ms: float


class ServerClocks:
    """`run` asks the servers; the other methods answer from what is known so far."""

    def __init__(self, *, store: MemberStore, clock: WallClock, settings: MembershipSettings) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._told: dict[str, _Told] = {}
        self._answers = 0
        self._known = asyncio.Event()

    async def known(self) -> None:
        """Return when every server has answered once."""
        await self._known.wait()

    async def run(self) -> None:
        """Ask until cancelled."""
        beat = self._settings.beat_seconds
        while True:
            try:
                await self._ask()
            except StoreUnavailable:
                await self._clock.sleep(self._settings.retry_seconds)
                continue
            await self._clock.sleep(_BEATS_BETWEEN * beat if self._known.is_set() else beat / _READS_AT_FIRST)

    async def _ask(self) -> None:
        asked_at = self._clock.monotonic()
        server, server_ms = await self._store.read_server_clock()
        returned = self._clock.monotonic()
        if returned - asked_at > self._settings.trust_seconds:
            return  # this process was paused, before or after the server read its clock
        # The server is assumed to have read its clock halfway: (asked_at + returned) / 2, in milliseconds.
        self._told[server] = _Told(asked_at, server_ms - (asked_at + returned) * 500.0)
        self._answers += 1
        if self._answers >= len(self._told) + _REPEATED:
            self._known.set()

    def ahead_ms(self, asked_since: float = float("-inf")) -> list[int]:
        """How far the local wall clock is ahead of each server's, by answers to requests sent since `asked_since`."""
        now = self._clock.monotonic()
        origin_ms = self._clock.wall_ms() - now * 1000.0
        oldest = max(asked_since, now - _REMEMBERED_SECONDS)
        return [round(origin_ms - told.origin_ms) for told in self._told.values() if told.asked_at >= oldest]

    def ahead_of_most_ms(self) -> int:
        """The same for the servers' median; of an even number the earlier middle one. 0 while none is known."""
        return median_high(self.ahead_ms() or [0])
