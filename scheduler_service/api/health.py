"""Whether storage answers, as this process's requests find out, and as `/readyz` asks for itself."""

import structlog

from scheduler_service.api.metrics import ApiMetrics

_log = structlog.get_logger("minutehand.api")


class StorageHealth:
    """Turns failures and successes of single requests into two states; says so once per change of state."""

    __slots__ = ("_metrics", "available")

    def __init__(self, metrics: ApiMetrics) -> None:
        self._metrics = metrics
        self.available = True

    def failed(self, reason: str) -> None:
        if self.available:
            self.available = False
            self._metrics.storage_available.set(0)
            _log.warning("storage-lost", reason=reason)

    def worked(self) -> None:
        if not self.available:
            self.available = True
            self._metrics.storage_available.set(1)
            _log.info("storage-back")
