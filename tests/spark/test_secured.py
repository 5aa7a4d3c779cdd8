"""How Java uses the key and trust stores: which servers it trusts by them, and which certificate it presents."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from cql.settings import StorageSettings
from scheduler_service.runtime.files import FilesUnusable
from spark import secured
from tests.support.certificates import Authority

HERE = "127.0.0.1"
SSL = "spark.cassandra.connection.ssl"


class Server:
    """Speaks TLS, and requires a certificate of the authority from callers. `callers`: those it accepted."""

    def __init__(self, authority: Authority, directory: Path) -> None:
        self.callers: list[Any] = []
        certificate, key = authority.issue(directory, address=HERE, stem="server")
        self.certificate = ssl.PEM_cert_to_DER_cert(certificate.read_text())
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._context.load_verify_locations(authority.bundle)
        self._context.verify_mode = ssl.CERT_REQUIRED
        self._listening = socket.create_server((HERE, 0))
        self.port: int = self._listening.getsockname()[1]
        self._ending = False
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def stop(self) -> None:
        self._ending = True
        with contextlib.suppress(OSError):
            socket.create_connection((HERE, self.port)).close()
        self._thread.join()
        self._listening.close()

    def _serve(self) -> None:
        while not self._ending:
            connection, _ = self._listening.accept()
            connection.settimeout(20)
            with contextlib.suppress(OSError), self._context.wrap_socket(connection, server_side=True) as caller:
                self.callers.append(caller.getpeercert())
                caller.sendall(b"!")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def server(authority: Authority, tmp_path: Path) -> Iterator[Server]:
    running = Server(authority, tmp_path)
    yield running
    running.stop()


def java_calls(spark: SparkSession, conf: dict[str, str], port: int) -> None:
    """Connect as the connector's driver does: no store type is given, names are not checked."""
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway

    def array(kind: Any, items: Sequence[str]) -> Any:
        made = gateway.new_array(kind, len(items))
        for position, item in enumerate(items):
            made[position] = item
        return made

    def store(kind: str) -> tuple[Any, Any]:
        word = conf.get(f"{SSL}.{kind}.password")
        password = None if word is None else array(jvm.char, word)
        made = jvm.java.security.KeyStore.getInstance("JKS")
        file = jvm.java.io.FileInputStream(conf[f"{SSL}.{kind}.path"])
        made.load(file, password)
        file.close()
        return made, password

    trust = jvm.javax.net.ssl.TrustManagerFactory.getInstance("PKIX")
    trust.init(store("trustStore")[0])
    keys = jvm.javax.net.ssl.KeyManagerFactory.getInstance("SunX509")
    keys.init(*store("keyStore"))
    context = jvm.javax.net.ssl.SSLContext.getInstance("SSL")
    context.init(keys.getKeyManagers(), trust.getTrustManagers(), None)
    call = context.getSocketFactory().createSocket(HERE, port)
    try:
        call.setSoTimeout(20_000)
        call.setEnabledCipherSuites(array(jvm.java.lang.String, conf[f"{SSL}.enabledAlgorithms"].split(",")))
        # The server's first byte follows its check of our certificate.
        assert call.getInputStream().read() == ord("!")
    finally:
        call.close()


def settings(authority: Authority, directory: Path, **other: Any) -> StorageSettings:
    own, key = authority.issue(directory, name="jobs", stem="own")
    files = {"tls_ca_file": authority.bundle, "tls_cert_file": own, "tls_key_file": key}
    return StorageSettings(**{**{name: str(file) for name, file in files.items()}, **other})


def showing(monkeypatch: pytest.MonkeyPatch, *certificates: bytes) -> None:
    async def shown(storage: StorageSettings) -> list[bytes]:
        return list(certificates)

    monkeypatch.setattr(secured, "node_certificates", shown)


def test_java_believes_the_servers_that_were_checked_and_no_other(
    spark: SparkSession, authority: Authority, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, _ = authority.issue(tmp_path, address=HERE, stem="other")
    another = ssl.PEM_cert_to_DER_cert(other.read_text())
    showing(monkeypatch, another, server.certificate)
    with secured.tls(settings(authority, tmp_path)) as conf:
        java_calls(spark, conf, server.port)
    ((((_, name),),),) = [caller["subject"] for caller in server.callers]
    assert name == "jobs", "our own certificate was shown"

    showing(monkeypatch, another)
    with secured.tls(settings(authority, tmp_path)) as conf, pytest.raises(Py4JJavaError, match="certificat"):
        java_calls(spark, conf, server.port)
    assert len(server.callers) == 1, "the same authority has signed it, and that is not enough"


def test_where_names_are_not_checked_java_believes_the_authorities(
    spark: SparkSession, authority: Authority, server: Server, tmp_path: Path
) -> None:
    with secured.tls(settings(authority, tmp_path, tls_check_hostname=False)) as conf:
        java_calls(spark, conf, server.port)
    (tmp_path / "stranger").mkdir()
    stranger = Authority(tmp_path / "stranger").bundle
    asked = settings(authority, tmp_path, tls_check_hostname=False, tls_ca_file=str(stranger))
    with secured.tls(asked) as conf, pytest.raises(Py4JJavaError, match="certificat"):
        java_calls(spark, conf, server.port)


def test_what_files_do_not_hold_is_one_sentence(authority: Authority, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("no certificate")
    for name, words in (
        ("tls_ca_file", "does not hold the authorities' certificates in PEM"),
        ("tls_cert_file", "does not hold a certificate in PEM"),
        ("tls_key_file", "does not hold a certificate's key in PEM"),
    ):
        asked = settings(authority, tmp_path, tls_check_hostname=False, **{name: str(wrong)})
        with pytest.raises(FilesUnusable, match=words), secured.tls(asked):
            pass
    with secured.tls(StorageSettings()) as conf:
        assert (conf, secured.login(StorageSettings())) == ({}, {})
