"""Settings of the API. The texts below the fields are shown to operators, in the chart and in the reference."""

import re
from dataclasses import dataclass, field

from scheduler_service.api.bigben.settings import BigBenSettings
from scheduler_service.api.goscheduler.settings import GoSchedulerSettings
from scheduler_service.domain.acknowledgements import AckSettings
from scheduler_service.domain.client_bounds import ClientBounds
from scheduler_service.domain.network import NetworkPolicy

MIN_ADMIN_KEY = 16
_ORIGIN = re.compile(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?|https?://\[[0-9a-f:]+\](:[0-9]{1,5})?")
"""As browsers write it: in lower case, without a path."""
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
    """Settings of one API process. Raises ValueError, with a sentence for the operator, for values that can't work."""

    admin_key: str = field(repr=False)
    """Bearer key of the configured administrator: at least 16 printable ASCII characters. It may call every route; only
    this key makes other administrators' keys. It may be several, separated by white space, of which each is valid. A
    file of it is read again once it has changed; the sessions of a key that is removed end."""

    host: str = "127.0.0.1"
    """Address to listen on. The default accepts connections from this machine only, `0.0.0.0` from every network."""

    port: int = 8080
    """Port to listen on; 0 takes a free one."""

    tls_cert_file: str | None = None
    """PEM file of the certificate, with the intermediate certificates up to its authority. It may be replaced while the
    API runs: new connections get the new one. None: plain HTTP, for use behind a proxy that terminates TLS."""

    tls_key_file: str | None = None
    """PEM file of the certificate's key, without a password. It may be the same file."""

    tls_client_ca_file: str | None = None
    """PEM file of authorities. Every peer, probes included, must then present a certificate of one of them. None: no
    client certificate is required."""

    share_port: bool = False
    """Let several processes listen on the same port (SO_REUSEPORT); the kernel spreads connections over them."""

    allowed_origins: tuple[str, ...] = ()
    """Origins of web pages that may call the API from a browser, such as `https://console.example`: scheme, host and,
    unless it is the scheme's own, port. A page has the key in its hands, so allow only pages that their users may trust
    with one. None: browsers show answers to no page."""

    backlog: int = 1024
    """Connections that may wait to be accepted."""

    max_connections: int = 2000
    """Open connections of this process. Beyond that, a new connection replaces the one that has waited longest for a
    request, else one whose answer is not being read; if there is none either, the new one is answered 503 and closed.
    Lowered if the process may not open as many file descriptors. A connection may use up to 0.5 MiB before its key is
    known."""

    head_timeout_seconds: float = 10.0
    """Seconds from the opening of a connection, or the first byte of a later request, until its headers are complete.
    Slower requests are answered 408."""

    answer_timeout_seconds: float = 60.0
    """Seconds after which an answer that its caller has not read is aborted."""

    max_body_bytes: int = 4 * 1024 * 1024
    """Larger request bodies are refused with 413, before they are read if their length is announced."""

    held_body_bytes: int = 64 * 1024 * 1024
    """Bytes that the request bodies of one client, or of one administrator's key, may occupy together in this process;
    requests beyond that are answered 429. One body of `max_body_bytes` always fits."""

    max_header_bytes: int = 16 * 1024
    """Longest request line and longest single header, in bytes; longer ones are answered 400."""

    max_headers: int = 100
    """Headers of one request; more are answered 400."""

    max_head_bytes: int = 64 * 1024
    """Bytes of request line and headers together; more are answered 400, unless they arrive all at once."""

    request_timeout_seconds: float = 5.0
    """Seconds after which a request without an answer gets 503 and Retry-After; what it wrote may still take effect."""

    retry_after_seconds: int = 1
    """The value of Retry-After in a 503, in seconds."""

    keep_alive_seconds: float = 75.0
    """Seconds after which an idle connection is closed. Keep it above the idle time-out of a proxy in front."""

    shutdown_seconds: float = 10.0
    """Seconds that requests under way may take when the process stops."""

    shutdown_delay_seconds: float = 0.0
    """Seconds for which a process that was told to stop still accepts connections while `/readyz` says that it is
    stopping. Set it to the time that a load balancer needs to notice; every answer meanwhile is the last of its
    connection."""

    client_budget_per_second: float = 250.0
    """What a client's requests other than creates may cost this process a second, in units of about 1 ms of CPU of one
    core; ten seconds' worth may be spent at once. Beyond that they are answered 429 until the budget has refilled.
    Looking at one schedule costs 1, a preview 3, three schedules of a bulk cancel 1, a list 10 and 1 for each 50
    schedules that it looks at, 64 KiB that it reads and 16 KiB that it answers. Lower: a client can take less of the
    API from others."""

    admin_budget_per_second: float = 1000.0
    """The same budget for each administrator's key, on all routes. Higher: a program that manages many clients is
    delayed less."""

    metrics_max_age_seconds: float = 1.0
    """Seconds for which a rendered page of `/metrics` is reused. 0: each request renders it, at about 20 ms of CPU, for
    everybody who reaches its port."""

    metrics_port: int | None = None
    """Serve `/metrics` on this port of `host` instead of on `port`, over plain HTTP, so that callers of the API need
    not reach its metrics. 0 takes a free one. With several processes under one command, the first takes this port and
    each further one the next. None: on the API's port."""

    metrics_socket: str | None = None
    """Path of the Unix socket over which one of several processes shows its metrics to the others. The command sets
    it."""

    clients: ClientBounds = field(default_factory=ClientBounds)
    """Bounds of clients' settings. Nodes must have the same."""
    acknowledgements: AckSettings = field(default_factory=AckSettings)
    """Where and how long receivers may say what became of a call that they took by 202."""
    goscheduler: GoSchedulerSettings = field(default_factory=GoSchedulerSettings)
    """What is served to programs that were written for GoScheduler."""
    max_reconciled_days: int = 31
    """Days that the window of one reconciliation may span. A longer window takes longer; schedules older than a
    client's retention are deleted already."""

    bigben: BigBenSettings = field(default_factory=BigBenSettings)
    """BigBen's API, for programs that were written for it."""

    network: NetworkPolicy = field(default_factory=NetworkPolicy)
    """Where callbacks may go, judged by their URL. By default addresses that are not plainly public are refused. Nodes
    must have the same policy: theirs judges the address that a connection is opened to."""

    def __post_init__(self) -> None:
        key = self.admin_key
        if any(len(one) < MIN_ADMIN_KEY or not (one.isascii() and one.isprintable()) for one in key.split() or [""]):
            raise ValueError(
                f"admin_key: use at least {MIN_ADMIN_KEY} printable ASCII characters without spaces, "
                "such as the output of: openssl rand -hex 24"
            )
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            raise ValueError("tls_cert_file and tls_key_file go together: give both or neither")
        if self.tls_client_ca_file is not None and self.tls_cert_file is None:
            raise ValueError("tls_client_ca_file: needs tls_cert_file and tls_key_file")
        for name, wire in (("goscheduler", self.goscheduler), ("bigben", self.bigben)):
            if (wrong := wire.fault_on(self.host)) is not None:
                raise ValueError(f"{name}: {wrong}")
        for origin in self.allowed_origins:
            if _ORIGIN.fullmatch(origin) is None:
                raise ValueError(f"allowed_origins: {origin!r} is no origin such as https://console.example")
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
