"""How connections to a receiver are made, beyond its URL: with a client certificate, through a forward proxy.

A connection made over one channel is used by requests of an equal channel alone: the channel is part of the key under
which connections are kept (`pool.PoolKey`). Channels are equal if certificate, key, proxy and the proxy's credentials
are, whatever destination they belong to.

A proxy gets `CONNECT` for https, so that TLS is between us and the receiver, and the whole URL for http. It resolves
the receiver's name itself: the network policy judges the text of the URL, and the proxy judges addresses.
"""

import hashlib
import re
from base64 import b64encode
from typing import Final

from poller_cluster.delivery.target import Endpoint, Target, endpoint_of
from scheduler_service.domain.destination_access import ClientCertificate, ForwardProxy
from scheduler_service.domain.network import NetworkPolicy, Refusal

ANSWER_HEAD_BYTES: Final = 8_192
"""Bound on a proxy's answer to CONNECT."""
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([0-9]{3})[ \r]")


class Channel:
    """See the module. Made once for a destination's document and used for all its calls."""

    __slots__ = ("_content", "certificate", "peer", "proxy")

    def __init__(self, *, certificate: ClientCertificate | None = None, proxy: ForwardProxy | None = None) -> None:
        self.certificate = certificate
        self.proxy = proxy
        self.peer = None if proxy is None else endpoint_of(proxy.url)
        """What its connections lead to instead of to the receiver; None without a proxy, or with one of no use."""
        parts = [certificate.chain, certificate.key] if certificate is not None else ["", ""]
        parts += [proxy.url, _authorization(proxy)] if proxy is not None else ["", ""]
        hashed = hashlib.sha256()
        for part in parts:
            data = part.encode()
            hashed.update(len(data).to_bytes(8, "big") + data)
        self._content = hashed.digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Channel) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    def __repr__(self) -> str:
        return f"Channel({self._content.hex()[:8]})"

    def refusal(self, policy: NetworkPolicy, url: str) -> Refusal | None:
        """Why this URL may not be called over this channel: its text, or a proxy that the operator does not list."""
        if self.proxy is None:
            return None
        return policy.check_proxy(self.proxy.url) or policy.check_url(url)

    def head_for_proxy(self, head: bytes, endpoint: Endpoint) -> bytes:
        """The head of a request over http as the proxy gets it: with the whole URL, and the proxy's credentials."""
        assert self.proxy is not None
        method, _, rest = head.partition(b" ")
        whole = f"http://{endpoint.authority}".encode()
        return method + b" " + whole + rest.removesuffix(b"\r\n") + _credentials(self.proxy) + b"\r\n"

    def connect_head(self, target: Target) -> bytes:
        """The request for a tunnel to the receiver."""
        assert self.proxy is not None
        name = target.server_name if target.plain else target.host
        authority = f"[{name}]:{target.port}" if ":" in name else f"{name}:{target.port}"
        lines = f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n".encode()
        return lines + _credentials(self.proxy) + b"\r\n"


def tunnel_failure(head: bytes) -> str | None:
    """What a proxy's answer to CONNECT says, as a sentence; "" where it has opened the tunnel, None if the answer is
    not complete."""
    end = head.find(b"\r\n\r\n")
    if end < 0:
        return "the forward proxy's answer is too long" if len(head) > ANSWER_HEAD_BYTES else None
    status = _STATUS_LINE.match(head)
    if status is None or (end + len(b"\r\n\r\n") != len(head) and status[1].startswith(b"2")):
        return "the forward proxy's answer is not valid HTTP"
    return "" if status[1].startswith(b"2") else f"the forward proxy answered {status[1].decode()}"


def _authorization(proxy: ForwardProxy) -> str:
    """The value of Proxy-Authorization (RFC 7617); empty without credentials."""
    if proxy.username is None:
        return ""
    return "Basic " + b64encode(f"{proxy.username}:{proxy.password or ''}".encode()).decode()


def _credentials(proxy: ForwardProxy) -> bytes:
    value = _authorization(proxy)
    return f"Proxy-Authorization: {value}\r\n".encode() if value else b""
