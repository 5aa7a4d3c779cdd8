"""What an operator may tune about delivery."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySettings:
    """Bounds of one engine, a poller's; samples that an API process sends follow them too. Raises ValueError where they
    contradict one another."""

    max_in_flight: int = 2000
    """Attempts at the same time. Each may hold a socket; where the process may not open as many file descriptors, fewer
    are made at a time."""
    max_idle_connections: int = 1000
    """Connections kept open between requests. More saves handshakes; each costs a descriptor here and at a receiver."""
    idle_seconds: int = 30
    """How long a connection is kept unused. Longer than a receiver keeps it costs a failed write now and then."""
    connection_lifetime_seconds: int = 300
    """How long a connection is used at most, so that changes in DNS are followed."""
    dns_cache_seconds: int = 30
    """How long an address is remembered."""
    connect_timeout_seconds: float = 5.0
    """For resolving, connecting and TLS together; never more than the request's own time-out."""
    response_bytes: int = 65_536
    """How much of an answer is read. The connection is closed when there is more."""
    excerpt_bytes: int = 1024
    """How much of a failed attempt's answer is kept."""
    stop_grace_seconds: float = 15.0
    """How long `stop` waits for attempts under way. Those that last longer end as `stopped`, in doubt."""
    ca_file: str | None = None
    """PEM bundle of the authorities that receivers' certificates are checked against. None: the system's, or the
    bundle that comes with libcurl."""

    def __post_init__(self) -> None:
        if self.max_in_flight < 1:
            raise ValueError("max_in_flight must be at least 1")
        if self.max_idle_connections < 1:
            raise ValueError("max_idle_connections must be at least 1")
        if not 0 < self.connect_timeout_seconds <= 60:
            raise ValueError("connect_timeout_seconds must be above 0 and at most 60")
        if not 0 <= self.excerpt_bytes <= self.response_bytes:
            raise ValueError("excerpt_bytes must be at most response_bytes")
        if self.stop_grace_seconds < 0:
            raise ValueError("stop_grace_seconds can't be negative")
