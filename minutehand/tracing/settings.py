"""Settings of traces: a table of the configuration."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from scheduler_service.domain.traces import Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSettings:
    """Whether traces are taken from creates, begun and exported. APIs and nodes must have the same `sample_ratio` and
    `follow_parent`. Raises ValueError for values that can't work."""

    endpoint: str | None = None
    """URL to which spans are sent as OTLP over HTTP, such as `http://127.0.0.1:4318/v1/traces`. It needs the extra
    `trace`. None: no traces."""
    authorization: str | None = field(default=None, repr=False)
    """Value of the header `Authorization` of these requests, such as `Bearer …`. None: there is no such header."""
    ca_file: str | None = None
    """PEM file of the authorities that signed the endpoint's certificate. None: the public ones."""
    sample_ratio: float = 0.0
    """Share, from 0 to 1, of the schedules without a sampled trace of their own for which a trace is begun. More: more
    spans to make, send and keep, three for each call."""
    follow_parent: bool = True
    """Whether a `traceparent` that is sampled is followed whatever the ratio. Every client can then have all its calls
    traced, at about 50 bytes a row. If not, the ratio alone decides, by the trace id in it."""
    queue_spans: int = 8192
    """Spans that may wait for the endpoint; beyond that they are dropped and counted. More: a longer outage of the
    endpoint loses nothing, at about 1 KiB of memory each."""

    def __post_init__(self) -> None:
        if self.endpoint is not None:
            parts = urlsplit(self.endpoint)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError("endpoint: must be an http or https URL, such as http://127.0.0.1:4318/v1/traces")
        if not 0 <= self.sample_ratio <= 1:
            raise ValueError("sample_ratio must be from 0 to 1")
        if self.queue_spans < 1:
            raise ValueError("queue_spans must be at least 1")

    @property
    def sampling(self) -> Sampling:
        return Sampling(ratio=self.sample_ratio, follow=self.follow_parent)
