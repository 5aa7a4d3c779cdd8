"""TLS sessions over bytes."""

import contextlib
import ssl
from pathlib import Path
from typing import Any

import pytest

from poller_cluster.delivery.tls import Tls, client_context
from tests.support.certificates import Authority


class Peer:
    """The receiver's end."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    def shake_hands(self, data: bytes) -> bytes:
        self._incoming.write(data)
        with contextlib.suppress(ssl.SSLWantReadError):
            self._object.do_handshake()
        return self._outgoing.read()

    def open(self, data: bytes, size: int) -> bytes:
        self._incoming.write(data)
        opened = b""
        while len(opened) < size:
            opened += self._object.read(size)
        return opened


class Watched:
    """Records how many bytes there were to send at a time."""

    def __init__(self, tls: Tls) -> None:
        self._object: Any = tls._object
        self._outgoing = tls._outgoing
        self.most = 0

    def write(self, data: memoryview) -> int:
        written: int = self._object.write(data)
        self.most = max(self.most, self._outgoing.pending)
        return written


@pytest.fixture
def secured(tmp_path: Path) -> tuple[Tls, Peer]:
    authority = Authority(tmp_path)
    tls = Tls(client_context(str(authority.bundle)), "127.0.0.1")
    peer = Peer(authority.server_context("127.0.0.1"))
    said = b""
    while not tls.shake_hands(said):
        said = peer.shake_hands(tls.take())
    peer.shake_hands(tls.take())
    return tls, peer


@pytest.mark.parametrize("size", [1, 65_536, 65_537, 1_000_000])
def test_what_is_sealed_is_opened_and_no_room_is_kept_for_it(secured: tuple[Tls, Peer], size: int) -> None:
    """OpenSSL's buffers never shrink, and a kept connection has one."""
    tls, peer = secured
    watched = tls._object = Watched(tls)  # type: ignore[assignment]
    data = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    assert peer.open(tls.seal(data), size) == data
    assert watched.most < 70_000
