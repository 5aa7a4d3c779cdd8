"""What a process shows to Prometheus: one registry of its own, so that two services in one test don't share numbers."""

from prometheus_client import CollectorRegistry, Gauge, PlatformCollector, ProcessCollector, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Holds the registry. `program` is `api` or `poller`; both it and the version are labels of one constant series."""

    def __init__(self, *, program: str, version: str) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        build = Gauge(
            "minutehand_build_info", "1, with what runs as labels.", ("program", "version"), registry=self.registry
        )
        build.labels(program, version).set(1)

    def exposition(self) -> bytes:
        """Everything in the text format that `CONTENT_TYPE` names."""
        return generate_latest(self.registry)
