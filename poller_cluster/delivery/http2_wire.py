"""What an HTTP/2 request is as headers, and headers as bytes. Of requests that `wire` has judged."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from poller_cluster.delivery.request import CallbackRequest
from poller_cluster.delivery.target import Place
from poller_cluster.delivery.wire import sends_body

_OF_HTTP1: Final = frozenset({"http2-settings", "keep-alive", "proxy-connection"})
"""Headers of a connection over HTTP/1.1 that `wire` admits; HTTP/2 knows none of them (RFC 9113, 8.2.2)."""
_REMEMBERED: Final = 4_096
_NEVER_INDEXED: Final = b"\x10"
_LENGTH_BITS: Final = 7
_MOST_SHORT: Final = 127

Header = tuple[bytes, bytes]


def headers_of(request: CallbackRequest, place: Place) -> list[Header]:
    """All of them, pseudo-headers first, names in lower case."""
    headers = [
        (b":method", request.method.encode()),
        (b":scheme", place.target.scheme.encode()),
        (b":authority", place.authority.encode()),
        (b":path", place.resource.encode()),
    ]
    for name, value in request.headers:
        known = _name(name)
        if known:
            headers.append((known, value.strip(" \t").encode()))
    if sends_body(request):
        headers.append((b"content-length", b"%d" % len(request.body)))
    return headers


@lru_cache(_REMEMBERED)
def _name(name: str) -> bytes:
    lower = name.lower()
    return b"" if lower in _OF_HTTP1 else lower.encode()


class LiteralEncoder:
    """Writes each header as it is, to be put into no table, ours or an intermediary's (RFC 7541, 6.2.3).

    Nearly all that differs between two callbacks is a secret, a signature or an id, so a table would save little, take
    much time to search, and let lengths tell of secrets. In the place of an encoder of `hpack`.
    """

    header_table_size = 4_096
    """Set by the library to what the receiver admits, and of no consequence."""

    def encode(self, headers: Iterable[Header]) -> bytes:
        parts: list[bytes] = []
        for name, value in headers:
            size = len(value)
            parts += (_literal_name(name), bytes((size,)) if size < _MOST_SHORT else _long(size), value)
        return b"".join(parts)


@lru_cache(_REMEMBERED)
def _literal_name(name: bytes) -> bytes:
    size = len(name)
    return _NEVER_INDEXED + (bytes((size,)) if size < _MOST_SHORT else _long(size)) + name


def _long(size: int) -> bytes:
    """A length of 127 and above (RFC 7541, 5.1)."""
    size, encoded = size - _MOST_SHORT, bytearray((_MOST_SHORT,))
    while size >> _LENGTH_BITS:
        encoded.append(size & 0x7F | 0x80)
        size >>= _LENGTH_BITS
    encoded.append(size)
    return bytes(encoded)
