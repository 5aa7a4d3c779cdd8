"""TLS and login to Cassandra: files are re-read when they change, over real sockets; and errors say why a login
failed.
"""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cassandra import AuthenticationFailed
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionShutdown
from structlog.testing import capture_logs

from cql.errors import why_not_let_in
from cql.login import login_of, tls_of
from cql.settings import StorageSettings
from scheduler_service.runtime.files import FilesUnusable
from tests.support.certificates import Authority

HERE = "127.0.0.1"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@contextmanager
def listening(context: ssl.SSLContext, *, connections: int) -> Iterator[int]:
    """Accepts so many TLS handshakes."""
    with socket.create_server((HERE, 0)) as listener:

        def serve() -> None:
            for _ in range(connections):
                accepted, _ = listener.accept()
                try:
                    with context.wrap_socket(accepted, server_side=True) as secured:
                        secured.recv(1)
                except OSError:
                    accepted.close()

        thread = threading.Thread(target=serve)
        thread.start()
        yield int(listener.getsockname()[1])
        thread.join()


def shake_hands(settings: StorageSettings, port: int, *, at: str = HERE) -> str | None:
    """Make a TLS handshake as the driver does; returns the version."""
    tls = tls_of(settings)
    assert tls is not None
    with socket.create_connection((HERE, port), timeout=5) as connection:
        arguments = {"server_hostname": at} if tls.check_hostname else {}
        with tls.wrap_socket(connection, **arguments) as secured:
            return secured.version()


def test_a_server_is_verified_by_its_authority_and_its_address(tmp_path: Path, authority: Authority) -> None:
    (tmp_path / "strangers").mkdir()
    stranger = Authority(tmp_path / "strangers")
    right = StorageSettings(tls_ca_file=str(authority.bundle))
    with listening(authority.server_context(HERE), connections=5) as port:
        assert shake_hands(right, port) == "TLSv1.3"
        with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
            shake_hands(right, port, at="127.0.0.2")
        unchecked = StorageSettings(tls_ca_file=str(authority.bundle), tls_check_hostname=False)
        assert shake_hands(unchecked, port, at="127.0.0.2") == "TLSv1.3"
        with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
            shake_hands(StorageSettings(tls_ca_file=str(stranger.bundle)), port)
        with pytest.raises(ssl.SSLCertVerificationError):
            shake_hands(StorageSettings(tls_ca_file=str(stranger.bundle), tls_check_hostname=False), port)


def test_a_name_may_stand_for_every_address(tmp_path: Path, authority: Authority) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue(tmp_path, name="cassandra.example"))
    settings = StorageSettings(tls_ca_file=str(authority.bundle), tls_server_name="cassandra.example")
    with listening(context, connections=1) as port:
        assert shake_hands(settings, port, at="10.0.0.7") == "TLSv1.3"


def test_new_connections_use_the_files_current_authorities(tmp_path: Path, authority: Authority) -> None:
    (tmp_path / "later").mkdir()
    later = Authority(tmp_path / "later")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(authority.bundle.read_bytes())
    tls = tls_of(StorageSettings(tls_ca_file=str(trusted)))
    assert tls is not None
    with listening(later.server_context(HERE), connections=2) as port:

        def shake() -> str | None:
            with (
                socket.create_connection((HERE, port), timeout=5) as connection,
                tls.wrap_socket(connection, server_hostname=HERE) as secured,
            ):
                return secured.version()

        with pytest.raises(ssl.SSLCertVerificationError):
            shake()
        trusted.write_bytes(authority.bundle.read_bytes() + later.bundle.read_bytes())
        assert shake() == "TLSv1.3"


def test_a_file_that_went_bad_leaves_what_was_read(tmp_path: Path, authority: Authority) -> None:
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(authority.bundle.read_bytes())
    settings = StorageSettings(tls_ca_file=str(trusted))
    tls = tls_of(settings)
    assert tls is not None
    with capture_logs() as said, listening(authority.server_context(HERE), connections=2) as port:
        trusted.write_text("garbage")
        for _ in range(2):
            with (
                socket.create_connection((HERE, port), timeout=5) as connection,
                tls.wrap_socket(connection, server_hostname=HERE) as secured,
            ):
                assert secured.version() == "TLSv1.3"
    assert [line["event"] for line in said] == ["files-refused"]
    with pytest.raises(FilesUnusable, match=r"cassandra\.tls_ca_file: .* hold the authorities' certificates"):
        tls_of(settings)


def test_user_and_password_are_read_when_a_connection_logs_in(tmp_path: Path) -> None:
    user, word = tmp_path / "user", tmp_path / "word"
    user.write_text("one\n")
    word.write_text("first\n")
    login = login_of(StorageSettings(username_file=str(user), password_file=str(word)))
    assert login is not None

    def said() -> bytes:
        return bytes(login.new_authenticator(HERE).evaluate_challenge(b"PLAIN-START"))

    assert said() == b"\0one\0first"
    word.write_text("second\n")
    assert said() == b"\0one\0second"
    word.unlink()
    assert said() == b"\0one\0second", "what was read before"
    mixed = login_of(StorageSettings(username="given", password_file=str(user)))
    assert mixed is not None
    assert mixed.new_authenticator(HERE).evaluate_challenge(b"PLAIN-START") == b"\0given\0one"


def test_files_that_are_not_there_are_named(tmp_path: Path, authority: Authority) -> None:
    with pytest.raises(FilesUnusable, match=r"cassandra\.password_file names .*nowhere, which can't be read"):
        login_of(StorageSettings(username="u", password_file=str(tmp_path / "nowhere")))
    with pytest.raises(FilesUnusable, match=r"cassandra\.tls_ca_file: .*nowhere can't be read"):
        tls_of(StorageSettings(tls_ca_file=str(tmp_path / "nowhere")))
    certificate, _ = authority.issue(tmp_path, stem="a")
    _, key = authority.issue(tmp_path, stem="b")
    settings = StorageSettings(tls_ca_file=str(authority.bundle), tls_cert_file=str(certificate), tls_key_file=str(key))
    with pytest.raises(FilesUnusable, match="do not hold a certificate and its key"):
        tls_of(settings)


def test_without_settings_there_is_neither() -> None:
    assert (login_of(StorageSettings()), tls_of(StorageSettings())) == (None, None)


@pytest.mark.parametrize(
    ("cause", "login", "words"),
    [
        (AuthenticationFailed("no"), True, "refuses the user or the password"),
        (AuthenticationFailed("Remote end requires authentication"), False, "requires a login"),
        (
            OSError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get"),
            False,
            "no authority",
        ),
        (OSError(1, "certificate verify failed: Hostname mismatch, certificate is not"), False, "for another name"),
        (OSError(1, "certificate verify failed: IP address mismatch, certificate"), False, "without that address"),
        (OSError(1, "certificate verify failed: certificate has expired"), False, "have it renewed"),
        (OSError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number"), False, "does not speak TLS"),
        (OSError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] x"), False, "requires our certificate"),
        (ConnectionShutdown("Connection to 10.0.0.1:9042 was closed"), False, "closes plain connections"),
    ],
)
def test_the_reason_of_a_failed_login_is_a_sentence(cause: Exception, login: bool, words: str) -> None:
    given = {"username": "u", "password": "the-password"} if login else {}
    error = NoHostAvailable("none", {"10.0.0.1:9042": OSError(111, "refused"), "10.0.0.2:9042": cause})
    refusal = why_not_let_in(error, StorageSettings(**given))
    assert refusal is not None
    assert words in str(refusal)
    assert "the-password" not in str(refusal)


def test_no_server_is_not_a_refusal() -> None:
    error = NoHostAvailable("none", {"10.0.0.1:9042": OSError(111, "Connection refused")})
    assert why_not_let_in(error, StorageSettings()) is None
