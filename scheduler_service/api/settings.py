"""Settings of the API. The texts below the fields are shown to operators, in the chart and in the reference."""

from dataclasses import dataclass, field

from scheduler_service.domain.client_bounds import ClientBounds
from scheduler_service.domain.network import NetworkPolicy

MIN_ADMIN_KEY = 16
_ABOVE_ZERO = (
    "backlog",
    "max_connections",
    "head_timeout_seconds",
    "answer_timeout_seconds",
    "max_body_bytes",
    "max_header_bytes",
    "max_headers",
    "max_head_bytes",
    "request_timeout_seconds",
    "retry_after_seconds",
    "max_reconciled_days",
    "client_budget_per_second",
    "admin_budget_per_second",
    "held_body_bytes",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """Settings of one API process. Raises ValueError, with a sentence for the operator, where they can't work."""

    admin_key: str = field(repr=False)
    """The configured administrator's bearer key, at least 16 printable characters without spaces. It may do everything,
    and alone makes other administrators' keys."""

    host: str = "127.0.0.1"
    """Address to listen on. The default answers this machine only; `0.0.0.0` answers every network it is in."""

    port: int = 8080
    """Port to listen on; 0 takes a free one."""

    tls_cert_file: str | None = None
    """PEM file of the certificate to show, with what leads to its authority. May be replaced while the API runs: new
    connections get the new one. None: plain HTTP, for behind a proxy that ends TLS."""

    tls_key_file: str | None = None
    """PEM file of its key, without a password. May be the same file."""

    tls_client_ca_file: str | None = None
    """PEM file of the authorities of which everybody who connects must show a certificate, probes included. None:
    nobody is asked for one."""

    share_port: bool = False
    """Let several processes listen on the same port (SO_REUSEPORT), the kernel spreading connections over them."""

    backlog: int = 1024
    """Connections that may wait to be accepted."""

    max_connections: int = 2000
    """Connections at the same time, of this process. Beyond, the one that has been waiting longest for a request is
    closed for a new one; where none waits, one that does not take its answer. Where there is none either, the new one
    is answered 503 and closed. Fewer where the process may not open as many file descriptors. Each may take up to 0.5
    MiB before its key is known."""

    head_timeout_seconds: float = 10.0
    """From the opening of a connection, or the first byte of a later request, until its headers are there. Later ones
    are answered 408."""

    answer_timeout_seconds: float = 60.0
    """An answer that its caller has not taken after this long is broken off."""

    max_body_bytes: int = 4 * 1024 * 1024
    """Larger request bodies are refused with 413, before they are read where their length is announced."""

    held_body_bytes: int = 64 * 1024 * 1024
    """Bodies of requests under way that one client, or one administrator's key, may have in this process together; what
    does not fit is answered 429. One body of the longest always fits."""

    max_header_bytes: int = 16 * 1024
    """Longest request line and longest single header; longer ones are answered 400."""

    max_headers: int = 100
    """Headers of one request; more are answered 400."""

    max_head_bytes: int = 64 * 1024
    """Request line and headers together; more are answered 400, if they don't come all at once."""

    request_timeout_seconds: float = 5.0
    """A request without answer after this long gets 503 and Retry-After; what it wrote may take effect all the same."""

    retry_after_seconds: int = 1
    """What Retry-After says beside a 503."""

    keep_alive_seconds: float = 75.0
    """An idle connection is closed after this long. Keep it above the idle time-out of a proxy in front."""

    shutdown_seconds: float = 10.0
    """How long requests that are under way may take when the process stops."""

    shutdown_delay_seconds: float = 0.0
    """How long the process, told to stop, goes on taking connections while `/readyz` says that it is stopping. Give it
    what a load balancer needs to notice; every answer meanwhile is its connection's last."""

    client_budget_per_second: float = 250.0
    """What a client's requests beside its creates may cost in a second, of this process, in units of about 1 ms of CPU
    of one core; ten seconds' worth may be spent at once. Beyond, they are answered 429 until it has come in again.
    Looking at one schedule costs 1, a preview 3, three schedules of a bulk cancel 1, a list 10 and 1 for each 50
    schedules that it looks at, 64 KiB that it reads and 16 KiB that it answers. Lower: a client can take less of the
    API from others."""

    admin_budget_per_second: float = 1000.0
    """The same for each administrator's key, on whatever routes. Higher: a program that manages many clients is not
    held up."""

    metrics_max_age_seconds: float = 1.0
    """`/metrics` is rendered again after so long, however often it is asked for. 0: for every request, at about 20 ms
    of CPU each, for everybody who reaches its port."""

    metrics_port: int | None = None
    """Serve `/metrics` on this port of `host` instead of on `port`, over plain HTTP, so that who reaches the API need
    not reach its metrics. 0 takes a free one. Of several processes of one command the first takes this one, and each
    further one the next. None: on the API's port."""

    clients: ClientBounds = field(default_factory=ClientBounds)
    """What clients may be given. The nodes must have the same."""
    max_reconciled_days: int = 31
    """Days that the window of one reconciliation may span. Longer ones run longer; what is older than a client's
    retention is not there any more."""

    network: NetworkPolicy = field(default_factory=NetworkPolicy)
    """Where callbacks may go, as far as their URL tells. By default addresses that are not plainly public are refused.
    The nodes must have the same policy: theirs judges the address that a connection is opened to."""

    def __post_init__(self) -> None:
        key = self.admin_key
        if len(key) < MIN_ADMIN_KEY or not key.isascii() or not key.isprintable() or " " in key:
            raise ValueError(
                f"admin_key: use at least {MIN_ADMIN_KEY} printable ASCII characters without spaces, "
                "such as the output of: openssl rand -hex 24"
            )
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            raise ValueError("tls_cert_file and tls_key_file go together: give both or neither")
        if self.tls_client_ca_file is not None and self.tls_cert_file is None:
            raise ValueError("tls_client_ca_file: needs tls_cert_file and tls_key_file, for it is TLS that asks")
        for name in ("port", "metrics_port"):
            if (port := getattr(self, name)) is not None and not 0 <= port <= 65_535:
                raise ValueError(f"{name}: must be from 0 to 65535")
        if self.metrics_port is not None and self.metrics_port == self.port != 0:
            raise ValueError("metrics_port: must differ from port; leave it out to have the metrics there")
        for name in _ABOVE_ZERO:
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: must be above 0")
        for name in ("keep_alive_seconds", "shutdown_seconds", "shutdown_delay_seconds", "metrics_max_age_seconds"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name}: must not be negative")
