"""Settings of delivery. Field docstrings are shown to operators in the reference of settings."""

from dataclasses import dataclass
from ipaddress import ip_address


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySettings:
    """Bounds of the delivery engine of one node; trial calls that an API process sends follow them too. Raises
    ValueError for values that contradict one another."""

    max_in_flight: int = 2000
    """Concurrent attempts. Each may hold a socket; lowered if the process may not open as many file descriptors."""
    max_idle_connections: int = 1000
    """Connections kept open between requests: HTTP/2 may have a tenth of them, and one client's connections to one
    address of a receiver a fifth of those by HTTP/1.1. More: fewer handshakes; each costs a descriptor here and at a
    receiver."""
    idle_seconds: int = 30
    """Seconds for which an unused connection is kept. If receivers close theirs sooner, some requests must be sent
    again."""
    connection_lifetime_seconds: int = 300
    """Seconds after which a connection gets no further requests, so that changes in DNS are followed."""
    dns_cache_seconds: int = 30
    """Seconds for which an address is remembered at most; less if its DNS record says so, but at least one second. 0:
    every attempt looks its name up. While name servers do not answer, an address may be used for another
    `connection_lifetime_seconds`."""
    nameservers: tuple[str, ...] = ()
    """Addresses of the name servers to ask instead of those in /etc/resolv.conf, with a port unless it is 53:
    10.0.0.10, 127.0.0.1:5353, [::1]:5353. The system's hosts file and search domains still apply."""
    lookups_at_once: int = 1000
    """Unanswered DNS look-ups of all clients together. No client may have more than are still free, and the last eighth
    is kept for clients that have none. More: more concurrent questions to name servers."""
    lookups_per_client: int = 100
    """Unanswered DNS look-ups of one client; further ones wait. A client whose names are not answered keeps this many
    open for about the connect time-out."""
    names_per_client: int = 1000
    """Names of one client whose addresses are remembered, the most recently used. More: more memory. Fewer: more
    look-ups."""
    connect_timeout_seconds: float = 5.0
    """Seconds for resolving, connecting and TLS together; never more than the request's own time-out."""
    response_bytes: int = 65_536
    """Bytes of an answer's body that are read. If there are more, the connection is closed."""
    framing_bytes: int = 393_216
    """Approximate bytes of an answer besides its body: headers, chunk sizes and extensions, trailers, TLS. If there are
    more, the connection is closed."""
    answer_seconds: float = 5.0
    """Approximate seconds that an answer may take from its status line to its end. After that the connection is closed,
    and the status decides. Never more than what is left of the request's own time-out."""
    excerpt_bytes: int = 1024
    """Bytes of the body of a failed attempt's answer that are kept."""
    stop_grace_seconds: float = 15.0
    """Seconds for which a stopping process waits for attempts under way. Longer ones end as `stopped`, in doubt."""
    ca_file: str | None = None
    """PEM file of the authorities that receivers' certificates are verified against. None: the system's, as OpenSSL
    finds them (SSL_CERT_FILE, SSL_CERT_DIR)."""

    def __post_init__(self) -> None:
        if self.max_in_flight < 1:
            raise ValueError("max_in_flight must be at least 1")
        if self.max_idle_connections < 1:
            raise ValueError("max_idle_connections must be at least 1")
        if not 0 < self.connect_timeout_seconds <= 60:
            raise ValueError("connect_timeout_seconds must be above 0 and at most 60")
        if not 0 <= self.excerpt_bytes <= self.response_bytes:
            raise ValueError("excerpt_bytes must be at most response_bytes")
        if self.framing_bytes < 65_536:
            raise ValueError("framing_bytes must be at least 65536")
        if not self.answer_seconds > 0:
            raise ValueError("answer_seconds must be above 0")
        if self.dns_cache_seconds < 0:
            raise ValueError("dns_cache_seconds can't be negative")
        if not 1 <= self.lookups_per_client <= self.lookups_at_once:
            raise ValueError("lookups_per_client must be at least 1 and at most lookups_at_once")
        if self.names_per_client < 1:
            raise ValueError("names_per_client must be at least 1")
        for name in self.nameservers:
            if not _is_nameserver(name):
                raise ValueError(f"nameservers: {name!r} is not an address with or without a port, such as [::1]:5353")
        if self.stop_grace_seconds < 0:
            raise ValueError("stop_grace_seconds can't be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSettings:
    """Kinds of destinations beside http: which there are, and what they may reach."""

    file: str | None = None
    """TOML file with a table for each kind of target that is switched on, such as [kafka.clusters.main]; see the guides
    of the kinds. APIs and nodes must have the same. None: destinations are of kind http."""


def _is_nameserver(text: str) -> bool:
    address, port = text, "53"
    if text.startswith("["):
        address, _, rest = text[1:].partition("]")
        if rest:
            port = rest.removeprefix(":") if rest.startswith(":") else ""
    elif text.count(":") == 1:
        address, _, port = text.partition(":")
    try:
        ip_address(address)
    except ValueError:
        return False
    return port.isascii() and port.isdigit() and 1 <= int(port) <= 65535
