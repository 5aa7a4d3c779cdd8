"""The start of a process: it waits for Cassandra instead of ending.

    a step --answered--> the next
       ^  `--StoreUnavailable--> /readyz says why, and so does a line in the log every SAY_SECONDS
       `------LOOK_SECONDS------------'

Only silence is waited for. A refused login, a schema of another version and a wrong setting need a person, so they end
the process at once, with their sentence.
"""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from cql.settings import StorageSettings
from membership.errors import StoreUnavailable
from minutehand.running import StopSignal, unless_stopped
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.health import STARTING, Reason
from scheduler_service.runtime.logging import get_logger

LOOK_SECONDS: Final = 1.0
SAY_SECONDS: Final = 10.0
_log = get_logger("minutehand")
T = TypeVar("T")


class Starting:
    """What a starting process waits for. `storage`: where that is configured."""

    def __init__(self, *, clock: Clock, storage: StorageSettings, stop: StopSignal) -> None:
        self._clock = clock
        self._where = f"{', '.join(storage.contact_points)}, port {storage.port}"
        self._stop = stop
        self._sentence: str | None = None

    async def answered(self, step: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        """The result of `step`, which is repeated while Cassandra does not answer it; None when the process is to end
        first. Other errors of `step` propagate."""
        return await unless_stopped(self._repeated(step), self._stop)

    def waiting(self) -> Sequence[Reason]:
        """Why nothing goes on now; empty while something does."""
        return () if self._sentence is None else (Reason(STARTING, self._sentence),)

    def unready(self) -> Sequence[Reason]:
        """Why the process is not ready, until it has started."""
        return self.waiting() or (Reason(STARTING, "it has just started"),)

    async def _repeated(self, step: Callable[[], Coroutine[Any, Any, T]]) -> T:
        began, said = self._clock.monotonic(), float("-inf")
        while True:
            try:
                result = await step()
            except StoreUnavailable as error:
                now = self._clock.monotonic()
                self._sentence = (
                    f"waits for Cassandra at {self._where} (cassandra.contact_points, cassandra.port): {error}"
                )
                if now - said >= SAY_SECONDS:
                    said = now
                    _log.warning("storage-awaited", reason=self._sentence, waited_seconds=round(now - began))
            else:
                if self._sentence is not None:
                    self._sentence = None
                    _log.info("storage-found", waited_seconds=round(self._clock.monotonic() - began))
                return result
            await self._clock.sleep(LOOK_SECONDS)
