"""HTTP/2 frames as bytes, valid or not."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from hpack import Encoder

DATA: Final = 0x0
HEADERS: Final = 0x1
PRIORITY: Final = 0x2
RST_STREAM: Final = 0x3
SETTINGS: Final = 0x4
PUSH_PROMISE: Final = 0x5
PING: Final = 0x6
GOAWAY: Final = 0x7
WINDOW_UPDATE: Final = 0x8
CONTINUATION: Final = 0x9
UNKNOWN: Final = 0xEE
END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    payload: bytes


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def settings(**values: int) -> bytes:
    """A SETTINGS frame; names are those of RFC 9113 in lower case."""
    codes = {"header_table_size": 1, "max_concurrent_streams": 3, "initial_window_size": 4, "max_frame_size": 5}
    pairs = (codes[name].to_bytes(2, "big") + value.to_bytes(4, "big") for name, value in values.items())
    return frame(SETTINGS, payload=b"".join(pairs))


def block(*headers: tuple[str, str]) -> bytes:
    """A header block that leaves the compression table as it is."""
    return Encoder().encode([(name, value, True) for name, value in headers], huffman=False)


def head(stream: int, status: str = "200", *headers: tuple[str, str], ends: bool = False) -> bytes:
    flags = END_HEADERS | (END_STREAM if ends else 0)
    return frame(HEADERS, flags, stream, block((":status", status), *headers))


def data(stream: int, payload: bytes = b"", *, ends: bool = False) -> bytes:
    return frame(DATA, END_STREAM if ends else 0, stream, payload)


def goaway(last: int, code: int = 0) -> bytes:
    return frame(GOAWAY, payload=last.to_bytes(4, "big") + code.to_bytes(4, "big"))


def frames_of(sent: bytes) -> Iterator[Frame]:
    """The frames that a caller sent, without its preface."""
    sent = sent.removeprefix(PREFACE)
    while sent:
        length = int.from_bytes(sent[:3], "big")
        yield Frame(sent[3], sent[4], int.from_bytes(sent[5:9], "big"), sent[9 : 9 + length])
        sent = sent[9 + length :]
