"""Encodes the header block of an HTTP/2 request. `request.head_of` has judged it before, so no header of an HTTP/1.1
connection is in it (RFC 9113, 8.2.2).

Each header is a never-indexed literal, which enters no table, ours or an intermediary's (RFC 7541, 6.2.3). Nearly all
that differs between two callbacks is a secret, a signature or an id, so a table would save little, take much time to
search, and leak secrets through lengths.
"""

from functools import lru_cache
from typing import Final

from hpack import Decoder

from poller_cluster.delivery.request import CallbackRequest, sends_body
from poller_cluster.delivery.target import Endpoint

_REMEMBERED: Final = 4_096
_NEVER_INDEXED: Final = b"\x10"
_MOST_SHORT: Final = 127
_SHORT: Final = tuple(bytes((length,)) for length in range(_MOST_SHORT))


def block_of(request: CallbackRequest, endpoint: Endpoint) -> bytes:
    """All headers, pseudo-headers first."""
    parts: list[bytes] = []
    headers = (
        (":method", request.method),
        (":scheme", endpoint.target.scheme),
        (":authority", endpoint.authority),
        (":path", endpoint.resource),
        *request.headers,
    )
    for name, text in headers:
        value = text.strip(" \t").encode()
        length = len(value)
        parts += (_name(name), _SHORT[length] if length < _MOST_SHORT else _long(length), value)
    if sends_body(request):
        value = b"%d" % len(request.body)
        parts += (_name("content-length"), _SHORT[len(value)], value)
    return b"".join(parts)


def headers_of(block: bytes) -> tuple[tuple[str, str], ...]:
    """Decode a block that `block_of` made."""
    return tuple((name.decode(), value.decode()) for name, value in Decoder(len(block) * 32).decode(block, raw=True))


@lru_cache(_REMEMBERED)
def _name(name: str) -> bytes:
    """The encoded name with its prefix."""
    lower = name.lower()
    length = len(lower)
    return _NEVER_INDEXED + (_SHORT[length] if length < _MOST_SHORT else _long(length)) + lower.encode()


def _long(length: int) -> bytes:
    """The encoding of a length of 127 and above (RFC 7541, 5.1)."""
    length, encoded = length - _MOST_SHORT, bytearray((_MOST_SHORT,))
    while length >> 7:
        encoded.append(length & 0x7F | 0x80)
        length >>= 7
    encoded.append(length)
    return bytes(encoded)
