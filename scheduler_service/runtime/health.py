"""What a process says of its health: whether its event loop turns, and why it can't do its work now.

    GET /livez    200 {"status": "ok", "reasons": []}
    GET /readyz   503 {"status": "unavailable", "reasons": [{"reason": "storage-away", "detail": "..."}]}

The words are for programs and stay; the sentences are for people. Liveness never asks storage: a restart would not
bring that back. It is served by the loop it is about, so a loop that stands still answers nobody.

    loop-stalled      the loop answers, but its timers are not called           API, node     /livez
    process-down      a process of several is not running                       parent        /readyz
    process-silent    a process of several runs and does not answer             parent        /readyz, later /livez
    stopping          told to end; requests are still answered                  API           /readyz
    storage-away      Cassandra has not answered for a while                    API           /readyz
    shedding          creates have been refused for want of room for a while    API           /readyz
    clock-untrusted   the wall clock is in doubt: creates or calls are refused  API, node     /readyz
                      (an API's until it was compared with a node's)
    starting          not a member yet                                          node          /readyz
    draining          pollers are being handed over, or are                       node          /readyz
    trust-lost        heartbeats are not confirmed: nobody may be called        node          /readyz
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.logging import get_logger

BEAT_SECONDS = 1.0
STALLED_SECONDS = 10.0
"""A beat older than this: nothing that waits for its time gets on."""
HELD_UP_SECONDS = 2.0
"""A beat that much too late is worth a line in the log."""

LOOP_STALLED = "loop-stalled"
PROCESS_DOWN = "process-down"
PROCESS_SILENT = "process-silent"
STOPPING = "stopping"
STORAGE_AWAY = "storage-away"
SHEDDING = "shedding"
CLOCK_UNTRUSTED = "clock-untrusted"
STARTING = "starting"
DRAINING = "draining"
TRUST_LOST = "trust-lost"

_log = get_logger("minutehand")


class Reason(NamedTuple):
    """Why a process is not well: a stable word and a sentence."""

    reason: str
    detail: str


def status_code(reasons: Sequence[Reason]) -> int:
    """Of the HTTP answer."""
    return 503 if reasons else 200


def health_document(reasons: Sequence[Reason]) -> dict[str, Any]:
    """The answer's body, to be written as JSON."""
    return {"status": "unavailable" if reasons else "ok", "reasons": [reason._asdict() for reason in reasons]}


class LoopHeartbeat:
    """Beats once a second on the event loop, for as long as `run` runs. Before that, nothing is wrong with it."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._beat: float | None = None

    async def run(self) -> None:
        """Until cancelled. Says when the loop was held up."""
        self._beat = self._clock.monotonic()
        while True:
            await self._clock.sleep(BEAT_SECONDS)
            now = self._clock.monotonic()
            late = now - self._beat - BEAT_SECONDS
            if late > HELD_UP_SECONDS:
                _log.warning("loop-held-up", seconds=round(late, 1))
            self._beat = now

    def reasons(self) -> Sequence[Reason]:
        """Why the process is not live."""
        age = 0.0 if self._beat is None else self._clock.monotonic() - self._beat
        if age <= STALLED_SECONDS:
            return ()
        return (Reason(LOOP_STALLED, f"the event loop has not called its timers for {age:.0f} s"),)
