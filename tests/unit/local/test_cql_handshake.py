"""Recognises servers that speak CQL."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from minutehand.local.cql_handshake import answers_cql
from minutehand.local.machine import free_ports

SUPPORTED = bytes([0x84, 0, 0, 0, 0x06, 0, 0, 0, 2, 0, 0])


@contextmanager
def server(answer: bytes | None, received: list[bytes]) -> Iterator[int]:
    """Answers one connection (None: never)."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                received.append(connection.recv(100))
                if answer is None:
                    connection.recv(100)
                else:
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def test_the_handshake_of_the_native_protocol() -> None:
    received: list[bytes] = []
    with server(SUPPORTED, received) as port:
        assert answers_cql("127.0.0.1", port)
    assert received == [bytes([0x04, 0, 0, 0, 0x05, 0, 0, 0, 0])]


@pytest.mark.parametrize(
    "answer",
    [b"", SUPPORTED[:8], b"HTTP/1.1 400 Bad Request\r\n", bytes([0x84, 0, 0, 0, 0x00, 0, 0, 0, 0])],
    ids=["nothing", "half a header", "http", "error"],
)
def test_other_answers_are_no_cql(answer: bytes) -> None:
    with server(answer, []) as port:
        assert not answers_cql("127.0.0.1", port)


def test_silence_is_no_cql() -> None:
    with server(None, []) as port:
        assert not answers_cql("127.0.0.1", port, timeout_seconds=0.05)


def test_a_closed_port_is_no_cql() -> None:
    assert not answers_cql("127.0.0.1", free_ports(1)[0])
