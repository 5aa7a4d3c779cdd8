"""The network policy: rules on callbacks' URLs and on the addresses that their hosts resolve to.

The policy is applied twice. When a schedule is created, `check_url` refuses what the text alone shows to be forbidden.
When a socket is about to be opened, after DNS, `judge` decides on the address itself; only this one protects, because
names may resolve to anything at any time.

By default every address that is not public is refused: the ranges of the IANA special-purpose registries, multicast,
and the metadata services of clouds. IPv6 forms that carry an IPv4 address (mapped, compatible, translated, 6to4, NAT64,
Teredo, ISATAP) are judged by that IPv4 address.

Order: `deny`, then `allow`, then the default. What the operator denies stays denied.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Literal

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
RefusalCode = Literal["bad-url", "forbidden-address", "forbidden-port"]

MAX_URL_LENGTH = 4096
"""Characters. Longer URLs are refused at create."""
DEFAULT_PORTS = {"http": 80, "https": 443}

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([/?#].*)?\Z")
_NOT_IN_URL = re.compile(r"[^\x21-\x7e]|\\")
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\Z")
_NUMBER = re.compile(r"0[xX][0-9A-Fa-f]*\Z|[0-9]+\Z")


def _named(name: str, *ranges: str) -> list[tuple[Network, str]]:
    return [(ip_network(text), name) for text in ranges]


_REFUSED_V4 = [
    *_named("metadata", "169.254.169.254/32", "168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32"),
    *_named("unspecified", "0.0.0.0/8"),
    *_named("loopback", "127.0.0.0/8"),
    *_named("private", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),
    *_named("carrier-grade NAT", "100.64.0.0/10"),
    *_named("link-local", "169.254.0.0/16"),
    *_named("documentation", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"),
    *_named("benchmarking", "198.18.0.0/15"),
    *_named("multicast", "224.0.0.0/4"),
    *_named("reserved", "192.0.0.0/24", "192.88.99.0/24", "240.0.0.0/4"),
]
_REFUSED_V6_FIRST = [*_named("unspecified", "::/128"), *_named("loopback", "::1/128")]
_REFUSED_V6 = [
    *_named("metadata", "fd00:ec2::254/128", "fd20:ce::254/128"),
    *_named("private", "fc00::/7"),
    *_named("site-local", "fec0::/10"),
    *_named("link-local", "fe80::/10"),
    *_named("multicast", "ff00::/8"),
    *_named("NAT64 of a private network", "64:ff9b:1::/48"),
    *_named("documentation", "2001:db8::/32", "3fff::/20"),
    *_named("reserved", "2001::/23"),
]
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_TAIL_CARRIERS = [IPv6Network(text) for text in ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96")]
"""IPv4-compatible, -mapped, -translated (RFC 2765) and the well-known NAT64 prefix (RFC 6052): the last 32 bits."""
_SIX_TO_FOUR = IPv6Network("2002::/16")
_TEREDO = IPv6Network("2001::/32")
_ISATAP_IDS = (0x0000_5EFE, 0x0200_5EFE)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a receiver is refused: a stable code, and a sentence for the reader who must act."""

    code: RefusalCode
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPolicy:
    """What callbacks may reach, as the operator configures it.

    `allow` and `deny` are networks, compared also with the IPv4 address that an IPv6 form carries. `allow_ports` None
    means every port. `schemes` is a subset of http and https. `proxies` are the forward proxies that callbacks may go
    through, as host:port in lower case; `allow`, `deny` and `allow_ports` do not apply to them.
    """

    allow: tuple[Network, ...] = ()
    deny: tuple[Network, ...] = ()
    allow_ports: frozenset[int] | None = None
    schemes: frozenset[str] = frozenset(DEFAULT_PORTS)
    proxies: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not self.schemes or not self.schemes <= DEFAULT_PORTS.keys():
            raise ValueError("schemes of a network policy: http, https or both")
        for proxy in self.proxies:
            if not _is_host_and_port(proxy):
                raise ValueError(f"proxies: {proxy!r} is not host:port in lower case, such as proxy.internal:3128")

    @classmethod
    def parse(
        cls,
        *,
        allow: Iterable[str] = (),
        deny: Iterable[str] = (),
        allow_ports: Iterable[int] | None = None,
        schemes: Iterable[str] = ("http", "https"),
        proxies: Iterable[str] = (),
    ) -> "NetworkPolicy":
        """The policy from configured texts. Raises ValueError naming the network that can't be parsed."""
        return cls(
            allow=tuple(ip_network(text) for text in allow),
            deny=tuple(ip_network(text) for text in deny),
            allow_ports=None if allow_ports is None else frozenset(allow_ports),
            schemes=frozenset(schemes),
            proxies=frozenset(proxies),
        )

    def judge(self, address: str, port: int) -> Refusal | None:
        """None if a connection to this address may be opened. A zone (`fe80::1%eth0`) is ignored."""
        if (refusal := self._judge_port(port)) is not None:
            return refusal
        try:
            parsed = ip_address(address)
        except ValueError:
            return Refusal("forbidden-address", "the connection is not to an IP address")
        return self._judge_address(parsed)

    def check_url(self, url: str) -> Refusal | None:
        """None if nothing in the text of the URL forbids it; a name may still resolve to a forbidden address."""
        if len(url) > MAX_URL_LENGTH:
            return Refusal("bad-url", f"the URL is longer than {MAX_URL_LENGTH} characters")
        if _NOT_IN_URL.search(url):
            return Refusal(
                "bad-url",
                "the URL has a space, a backslash, a control or a non-ASCII character; percent-encode it "
                "(in host names use the xn-- form)",
            )
        parts = _URL.match(url)
        if parts is None:
            return Refusal("bad-url", "the URL must be absolute, such as https://host/path")
        scheme = parts[1].lower()
        if scheme not in self.schemes:
            return Refusal("bad-url", f"the URL's scheme must be {' or '.join(sorted(self.schemes))}")
        authority = parts[2]
        if "@" in authority:
            return Refusal("bad-url", "the URL carries credentials; send them in an Authorization header")
        return self._check_authority(authority, DEFAULT_PORTS[scheme])

    def check_proxy(self, url: str) -> Refusal | None:
        """None if callbacks may go through the forward proxy at this URL, http://host:port."""
        parts = _URL.match(url) if len(url) <= MAX_URL_LENGTH else None
        if parts is None or parts[1].lower() != "http" or parts[3] not in (None, "/"):
            return Refusal("bad-url", "a forward proxy is named as http://host:port")
        if "@" in parts[2]:
            return Refusal(
                "bad-url", "the URL of a forward proxy carries no credentials: they have fields of their own"
            )
        if parts[2].lower() in self.proxies:
            return None
        return Refusal("forbidden-address", "the operator does not allow this forward proxy")

    def _check_authority(self, authority: str, default_port: int) -> Refusal | None:
        host, bracket, rest = authority.partition("]")
        if bracket:
            host += bracket
        else:
            host, colon, port_text = authority.partition(":")
            rest = colon + port_text
        port = default_port
        if rest:
            if not re.fullmatch(r":[0-9]{1,5}", rest) or not 1 <= int(rest[1:]) <= 65535:
                return Refusal("bad-url", "the URL's port must be a number from 1 to 65535")
            port = int(rest[1:])
        if (refusal := self._judge_port(port)) is not None:
            return refusal
        address = literal_address(host)
        if isinstance(address, Refusal):
            return address
        return None if address is None else self._judge_address(address)

    def _judge_port(self, port: int) -> Refusal | None:
        if self.allow_ports is None or port in self.allow_ports:
            return None
        return Refusal("forbidden-port", f"port {port} is not among the allowed ports")

    def _judge_address(self, address: Address) -> Refusal | None:
        if any(address in network for network in self.deny):
            return _forbidden(address, "denied")
        if any(address in network for network in self.allow):
            return None
        if isinstance(address, IPv4Address):
            return _by_table(address, _REFUSED_V4)
        # `::` and `::1` are in the range of IPv4-compatible addresses, so they are looked up before carried addresses.
        if (refusal := _by_table(address, _REFUSED_V6_FIRST)) is not None:
            return refusal
        if carried := carried_addresses(address):
            # Recursive, so that `deny` and `allow` apply to the IPv4 addresses as well.
            return next(filter(None, map(self._judge_address, carried)), None)
        if (refusal := _by_table(address, _REFUSED_V6)) is not None:
            return refusal
        return None if address in _GLOBAL_UNICAST else _forbidden(address, "reserved")


def _is_host_and_port(text: str) -> bool:
    host, _, port = text.rpartition(":")
    known = not isinstance(literal_address(host), Refusal) and text == text.lower()
    return known and re.fullmatch(r"[0-9]{1,5}", port) is not None and 1 <= int(port) <= 65_535


def _forbidden(address: Address, name: str) -> Refusal:
    return Refusal("forbidden-address", f"the network policy refuses {address} ({name})")


def _by_table(address: Address, table: list[tuple[Network, str]]) -> Refusal | None:
    return next((_forbidden(address, name) for network, name in table if address in network), None)


def carried_addresses(address: IPv6Address) -> tuple[IPv4Address, ...]:
    """The IPv4 addresses that packets to this IPv6 address may reach; empty for a plain IPv6 address.

    Teredo (RFC 4380) carries two: its server in bits 32-63, and the client inverted in the last 32.
    """
    value = int(address)
    tail = IPv4Address(value & 0xFFFF_FFFF)
    if any(address in network for network in _TAIL_CARRIERS):
        return (tail,)
    if address in _SIX_TO_FOUR:
        return (IPv4Address(value >> 80 & 0xFFFF_FFFF),)
    if address in _TEREDO:
        return (IPv4Address(value >> 64 & 0xFFFF_FFFF), IPv4Address(~value & 0xFFFF_FFFF))
    if value >> 32 & 0xFFFF_FFFF in _ISATAP_IDS and address in _GLOBAL_UNICAST:
        return (tail,)
    return ()


def literal_address(host: str) -> Address | Refusal | None:
    """The address that a URL's host spells out, None for a name, a Refusal for neither.

    IPv4 is parsed as resolvers and browsers do: one to four parts, each decimal, octal (0…) or hexadecimal (0x…), the
    last filling the remaining bytes (so `2130706433`, `0x7f.1` and `127.1` are all 127.0.0.1). `localhost` and names
    below it mean loopback (RFC 6761).
    """
    if host.startswith("["):
        try:
            return IPv6Address(host[1:-1] if host.endswith("]") and "%" not in host else "")
        except ValueError:
            return Refusal("bad-url", "the URL's host is not an IPv6 address within its brackets")
    name = host.removesuffix(".")
    labels = name.split(".")
    if not name or len(name) > 253 or not all(map(_LABEL.match, labels)):
        return Refusal("bad-url", "the URL's host is neither a name nor an address")
    if _NUMBER.match(labels[-1]):
        address = _numeric_address(labels)
        return address if address is not None else Refusal("bad-url", "the URL's host is not a valid IPv4 address")
    return IPv4Address("127.0.0.1") if labels[-1].lower() == "localhost" else None


def is_loopback(url: str) -> bool:
    """Whether the text of a URL that was judged names this machine itself."""
    parts = _URL.match(url)
    address = None if parts is None else literal_address(re.sub(r":[0-9]+\Z", "", parts[2]))
    return not isinstance(address, Refusal | None) and address.is_loopback


def _numeric_address(parts: list[str]) -> IPv4Address | None:
    """Parse a host that ends in a number as `inet_aton` does (WHATWG URL, "IPv4 parser")."""
    if len(parts) > 4 or not all(map(_NUMBER.match, parts)):
        return None
    try:
        numbers = [_number(part) for part in parts]
    except ValueError:
        return None
    *leading, last = numbers
    if any(number > 255 for number in leading) or last >= 256 ** (5 - len(numbers)):
        return None
    return IPv4Address(last + sum(number << 8 * (3 - place) for place, number in enumerate(leading)))


def _number(text: str) -> int:
    if text[:2] in ("0x", "0X"):
        return int(text[2:] or "0", 16)
    return int(text, 8) if len(text) > 1 and text[0] == "0" else int(text)
