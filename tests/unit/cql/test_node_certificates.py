"""Certificates of Cassandra's servers: checked as in every connection, for those servers that answer."""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from cql import node_certificates as room
from cql.node_certificates import node_certificates
from cql.settings import StorageSettings
from membership.errors import StoreUnavailable
from minutehand.local.machine import free_ports
from tests.support.certificates import Authority

HERE = "127.0.0.1"


class Known:
    """A session that knows these servers."""

    def __init__(self, nodes: list[tuple[str, int]]) -> None:
        self._nodes = nodes

    def nodes(self) -> list[tuple[str, int]]:
        return self._nodes

    async def close(self) -> None: ...


@pytest.fixture
def knows(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[tuple[str, int]]], None]:
    def known(nodes: list[tuple[str, int]]) -> None:
        async def opened(settings: StorageSettings, *, keyspace: str | None) -> Known:
            return Known(nodes)

        monkeypatch.setattr(room.Session, "open", opened)

    return known


@contextlib.contextmanager
def serving(certificate: tuple[Path, Path]) -> Iterator[int]:
    """The port of a server that makes one TLS handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with socket.create_server((HERE, 0)) as listening:

        def answer() -> None:
            with contextlib.suppress(OSError):
                connection, _ = listening.accept()
                with context.wrap_socket(connection, server_side=True) as secured:
                    secured.recv(1)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            with contextlib.suppress(OSError):
                socket.create_connection(listening.getsockname()).close()
            thread.join()


def der(certificate: tuple[Path, Path]) -> bytes:
    return ssl.PEM_cert_to_DER_cert(certificate[0].read_text())


def test_certificates_of_servers_that_answer_and_match_are_read(
    tmp_path: Path, knows: Callable[[list[tuple[str, int]]], None]
) -> None:
    authority = Authority(tmp_path)
    ours = authority.issue(tmp_path, address=HERE, stem="ours")
    elsewhere = authority.issue(tmp_path, address="127.0.0.9", stem="elsewhere")
    settings = StorageSettings(tls_ca_file=str(authority.bundle))
    (closed,) = free_ports(1)
    with serving(ours) as port, serving(elsewhere) as misnamed:
        knows([(HERE, port), (HERE, misnamed), (HERE, closed)])
        with capture_logs() as said:
            assert asyncio.run(node_certificates(settings)) == [der(ours)]
    assert [(line["event"], line["address"]) for line in said] == [("storage-certificate-unknown", HERE)] * 2


def test_the_configured_server_name_is_checked(tmp_path: Path, knows: Callable[[list[tuple[str, int]]], None]) -> None:
    authority = Authority(tmp_path)
    named = authority.issue(tmp_path, name="cassandra.example", stem="named")
    for name, believed in (("cassandra.example", True), ("other.example", False)):
        settings = StorageSettings(tls_ca_file=str(authority.bundle), tls_server_name=name)
        with serving(named) as port:
            knows([(HERE, port)])
            if believed:
                assert asyncio.run(node_certificates(settings)) == [der(named)]
            else:
                with pytest.raises(StoreUnavailable, match="showed a certificate"):
                    asyncio.run(node_certificates(settings))
