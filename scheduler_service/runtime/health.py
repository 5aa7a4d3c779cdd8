"""A process's health: whether its event loop is live, and why the process is not ready.

    GET /livez    200 {"status": "ok", "reasons": []}
    GET /readyz   503 {"status": "unavailable", "reasons": [{"reason": "storage-away", "detail": "..."}]}

The reasons are stable words for programs; the details are for people. Liveness never depends on storage, which a
restart would not bring back. It is served by the loop that it reports on, so a blocked loop does not answer at all.

    loop-stalled      the loop answers, but its timers are not called           API, node     /livez
    process-down      one of several processes is not running                   parent        /readyz
    process-silent    one of several processes runs but does not answer         parent        /readyz, later /livez
    stopping          told to end; requests are still answered                  API           /readyz
    storage-away      Cassandra has not answered for a while                    API           /readyz
    shedding          creates have been refused for want of room for a while    API           /readyz
    clock-untrusted   the wall clock is in doubt: creates or calls are refused  API, node     /readyz
                      (an API's until it was compared with a node's)
    starting          it waits for Cassandra, or is no member yet               all           /readyz
    draining          pollers are being handed over, or have been               node          /readyz
    api-away          the API has decided nothing for a while               ingest        /readyz
    api-denies        the API refuses this client or its key                ingest        /readyz
    topic-missing     Kafka has no topic of that name                       ingest        /readyz
    trust-lost        heartbeats are not confirmed: no calls may be made        node          /readyz
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.logging import get_logger

BEAT_SECONDS = 1.0
STALLED_SECONDS = 10.0
"""A beat older than this means that timers are not called."""
HELD_UP_SECONDS = 2.0
"""A beat that is late by more than this is logged."""

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
API_AWAY = "api-away"
API_DENIES = "api-denies"
TOPIC_MISSING = "topic-missing"

_log = get_logger("minutehand")


class Reason(NamedTuple):
    """Why a process is not live or not ready: a stable word and a sentence."""

    reason: str
    detail: str


def status_code(reasons: Sequence[Reason]) -> int:
    """The status of the HTTP answer."""
    return 503 if reasons else 200


def health_document(reasons: Sequence[Reason]) -> dict[str, Any]:
    """The body of the HTTP answer, to be encoded as JSON."""
    return {"status": "unavailable" if reasons else "ok", "reasons": [reason._asdict() for reason in reasons]}


class LoopHeartbeat:
    """Beats once a second on the event loop while `run` runs. Before that the loop counts as live."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._beat: float | None = None

    async def run(self) -> None:
        """Run until cancelled. Logs when the loop was held up."""
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
