"""Parses a URL into what the engine needs: where to connect, the Host header and the request target; applies the
network policy to socket addresses.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

from scheduler_service.domain.network import DEFAULT_PORTS, NetworkPolicy, Refusal, literal_address

_URL = re.compile(r"([A-Za-z]+)://([^/?#]*)([^#]*)(?:#.*)?\Z")
_SENDABLE = re.compile(r"[\x21-\x7e]*\Z")
_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:@\[\]]+)(?::([0-9]{1,5}))?\Z")
_LOOPBACK = ("::1", "127.0.0.1")
_REMEMBERED = 2_048


REFUSED = "the network policy refuses the address of the URL's host"


class Target(NamedTuple):
    """`host` is the URL's, in lower case, a trailing dot included. `addresses` are None for a name. `plain`: the text
    is an address that every parser reads in the same way."""

    scheme: str
    host: str
    port: int
    addresses: tuple[str, ...] | None
    plain: bool = False

    @property
    def server_name(self) -> str:
        """The name that the certificate is checked against: without a trailing dot, or an address."""
        return self.addresses[0] if self.plain and self.addresses else self.host.removesuffix(".")


class Endpoint(NamedTuple):
    """`authority` is the value of the Host header, `resource` the request's target: path and query."""

    target: Target
    authority: str
    resource: str


@lru_cache(_REMEMBERED)
def endpoint_of(url: str) -> Endpoint | None:
    """Parse a URL. None: no request can be sent to it."""
    parts = _URL.match(url)
    if parts is None or not _SENDABLE.match(url):
        return None
    scheme, authority, resource = parts[1].lower(), parts[2], parts[3]
    match = _HOST_PORT.match(authority)
    if match is None or scheme not in DEFAULT_PORTS:
        return None
    target = _target(scheme, match[1].lower(), int(match[2] or DEFAULT_PORTS[scheme]))
    if target is None:
        return None
    host = match[1]
    if target.plain and target.addresses:
        host = f"[{target.addresses[0]}]" if ":" in target.addresses[0] else target.addresses[0]
    if target.port != DEFAULT_PORTS[scheme]:
        host = f"{host}:{target.port}"
    return Endpoint(target, host, resource if resource.startswith("/") else f"/{resource}")


@lru_cache(_REMEMBERED)
def _target(scheme: str, host: str, port: int) -> Target | None:
    address = literal_address(host)
    if not 1 <= port <= 65_535:
        return None
    if address is None:
        return Target(scheme, host, port, None)
    if not isinstance(address, IPv4Address | IPv6Address):
        return None
    if host.removesuffix(".").rpartition(".")[2] == "localhost":
        return Target(scheme, host, port, _LOOPBACK)
    return Target(scheme, host, port, (str(address),), plain=not host.endswith("."))


def judge_socket_address(policy: NetworkPolicy, address: object) -> Refusal | None:
    """Apply the network policy to the socket address, (host, port, …), that is about to be connected to. Anything else
    is not an internet address and refused.

    The refusal does not name the address: a client must not learn what names resolve to in the operator's network.
    """
    if isinstance(address, Sequence) and len(address) >= 2:
        host, port = address[0], address[1]
        if isinstance(host, str) and isinstance(port, int):
            refusal = policy.judge(host, port)
            hidden = refusal is not None and refusal.code == "forbidden-address"
            return Refusal("forbidden-address", REFUSED) if hidden else refusal
    return Refusal("forbidden-address", "the connection is not to an IP address")
