"""Whether a broker of Kafka serves clients: one exchange of its protocol, without a client library.

Each message is a length (4 bytes, big-endian) and a body. A request's header (version 1) is API key (2), API version
(2), correlation id (4) and the client's id as a nullable string (2 bytes of length). Metadata, version 4, asks for an
array of topics (empty: none) and whether to create them (1), and is answered: correlation id (4), throttle time (4),
array of the brokers that serve (4 bytes of count, ...).
"""

import socket
import struct

_SIZE = struct.Struct(">i")
_REQUEST = struct.Struct(">hhih")
_NO_TOPICS = struct.Struct(">i?").pack(0, False)
_ANSWER = struct.Struct(">iii")
_METADATA, _VERSION, _CORRELATION, _NO_CLIENT_ID = 3, 4, 17, -1


def answers_kafka(host: str, port: int, *, timeout_seconds: float = 2.0) -> bool:
    """Whether it names at least one broker that serves, within the time. Never raises.

    A broker accepts connections some time before it is one of its own cluster's brokers.
    """
    body = _REQUEST.pack(_METADATA, _VERSION, _CORRELATION, _NO_CLIENT_ID) + _NO_TOPICS
    try:
        with socket.create_connection((host, port), timeout=timeout_seconds) as connection:
            connection.sendall(_SIZE.pack(len(body)) + body)
            answer = _read(connection, _SIZE.size + _ANSWER.size)
    except OSError:
        return False
    if len(answer) < _SIZE.size + _ANSWER.size:
        return False
    correlation, _, brokers = _ANSWER.unpack(answer[_SIZE.size :])
    return bool(correlation == _CORRELATION and brokers > 0)


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (piece := connection.recv(size - len(data))):
        data += piece
    return data
