"""What an operator may tune about delivery."""

from dataclasses import dataclass
from ipaddress import ip_address


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySettings:
    """Bounds of one engine, a node's; trial calls that an API process sends follow them too. Raises ValueError where
    they contradict one another."""

    max_in_flight: int = 2000
    """Attempts at the same time. Each may hold a socket; where the process may not open as many file descriptors, fewer
    are made at a time."""
    max_idle_connections: int = 1000
    """Connections kept open between requests, a tenth of them by HTTP/2; of one client's to one address of a receiver
    a fifth of the others at most. More saves handshakes; each costs a descriptor here and at a receiver."""
    idle_seconds: int = 30
    """How long a connection is kept unused. Longer than a receiver keeps it costs a failed write now and then."""
    connection_lifetime_seconds: int = 300
    """How long a connection is used at most, so that changes in DNS are followed."""
    dns_cache_seconds: int = 30
    """How long an address is remembered at most; less where its DNS record says so, but a second at least. 0: every
    attempt looks its name up. While name servers do not answer, addresses are used until they are
    `connection_lifetime_seconds` older than that."""
    nameservers: tuple[str, ...] = ()
    """Name servers to ask instead of those of /etc/resolv.conf, as addresses, with a port where it is not 53:
    10.0.0.10, 127.0.0.1:5353, [::1]:5353. Hosts files and search domains are as the system has them."""
    lookups_at_once: int = 1000
    """Look-ups of names that name servers have not answered yet, of all clients. No client has more of them than are
    still free, and the last eighth is for clients that have none. More: more questions at a time to name servers."""
    lookups_per_client: int = 100
    """Of them one client's; more wait for their turn. A client whose names nobody answers has so many open for about
    the connect time-out."""
    names_per_client: int = 1000
    """Names of a client whose addresses are remembered, those asked for last. More costs memory, less look-ups."""
    connect_timeout_seconds: float = 5.0
    """For resolving, connecting and TLS together; never more than the request's own time-out."""
    response_bytes: int = 65_536
    """How much of an answer is read. The connection is closed when there is more."""
    framing_bytes: int = 393_216
    """How much of an answer may come beside its body, about: headers, chunk sizes and extensions, trailers, TLS. The
    connection is closed when there is more."""
    answer_seconds: float = 5.0
    """How long an answer may take from its status to its end, about. The connection is closed after that; the status
    decides. Never more than what is left of the request's own time-out."""
    excerpt_bytes: int = 1024
    """How much of a failed attempt's answer is kept."""
    stop_grace_seconds: float = 15.0
    """How long `stop` waits for attempts under way. Those that last longer end as `stopped`, in doubt."""
    ca_file: str | None = None
    """PEM bundle of the authorities that receivers' certificates are checked against. None: the system's, as
    OpenSSL finds them (SSL_CERT_FILE, SSL_CERT_DIR)."""

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
