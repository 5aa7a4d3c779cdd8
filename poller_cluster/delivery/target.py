"""What a URL's host is: addresses that its text spells out, or a name to be looked up."""

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

from scheduler_service.domain.network import DEFAULT_PORTS, literal_address

_AUTHORITY = re.compile(r"([A-Za-z]+)://([^/?#]*)")
_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:@\[\]]+)(?::([0-9]{1,5}))?\Z")
_LOOPBACK = ("::1", "127.0.0.1")
_REMEMBERED = 2_048


class Target(NamedTuple):
    """`host` is lower-case as in the URL, a trailing dot included. `addresses` are None for a name. `plain`: the text
    is an address in its usual form, or one that every reader makes the same of."""

    scheme: str
    host: str
    port: int
    addresses: tuple[str, ...] | None
    plain: bool = False


@lru_cache(_REMEMBERED)
def target_of(url: str) -> Target | None:
    """None: the URL is not one that a request can be sent to; the sender says why."""
    parts = _AUTHORITY.match(url)
    if parts is None:
        return None
    scheme, authority = parts[1].lower(), parts[2].lower()
    match = _HOST_PORT.match(authority)
    if match is None or scheme not in DEFAULT_PORTS:
        return None
    host, port = match[1], int(match[2] or DEFAULT_PORTS[scheme])
    address = literal_address(host)
    if address is None:
        return Target(scheme, host, port, None)
    if not isinstance(address, IPv4Address | IPv6Address):
        return None
    if host.removesuffix(".").rpartition(".")[2] == "localhost":
        return Target(scheme, host, port, _LOOPBACK)
    return Target(scheme, host, port, (str(address),), plain=not host.endswith("."))
