"""TLS and login for connections to Cassandra, from files that may change while the process runs.

The driver asks for both at every new connection, on its own threads. Open connections stay: Cassandra asks for no
second login. If a changed file is unusable, this is logged once, and the previous contents stay in use.
"""

import socket
import ssl
from typing import Any

from cassandra.auth import AuthProvider, PlainTextAuthenticator

from cql.settings import StorageSettings
from scheduler_service.runtime.files import FilesUnusable, FromFiles, read_text

_TABLE = "cassandra"


class Login(AuthProvider):  # type: ignore[misc]
    """User and password. Raises FilesUnusable where their files can't be read at the start."""

    def __init__(self, settings: StorageSettings) -> None:
        self._settings = settings
        files = [file for file in (settings.username_file, settings.password_file) if file is not None]
        self._words = FromFiles(files, self._read, what="login of [cassandra]")

    def new_authenticator(self, host: str) -> PlainTextAuthenticator:
        return PlainTextAuthenticator(*self.words())

    def words(self) -> tuple[str, str]:
        return self._words.current()

    def _read(self) -> tuple[str, str]:
        settings = self._settings
        return (
            _given(settings.username, settings.username_file, setting=f"{_TABLE}.username_file"),
            _given(settings.password, settings.password_file, setting=f"{_TABLE}.password_file"),
        )


class Tls:
    """The part of `ssl.SSLContext` that the driver uses; it follows its files. Raises FilesUnusable."""

    check_hostname = True
    """Makes the driver pass the server's name; the context decides whether it is checked."""

    def __init__(self, settings: StorageSettings) -> None:
        self._settings = settings
        named = (settings.tls_ca_file, settings.tls_cert_file, settings.tls_key_file)
        files = [file for file in named if file is not None]
        self._context = FromFiles(files, lambda: _context(settings), what="certificates of [cassandra]")

    def wrap_socket(self, connection: socket.socket, **arguments: Any) -> ssl.SSLSocket:
        if self._settings.tls_server_name is not None:
            arguments["server_hostname"] = self._settings.tls_server_name
        return self._context.current().wrap_socket(connection, **arguments)


def login_of(settings: StorageSettings) -> Login | None:
    """None if the cluster asks for no password. Raises FilesUnusable."""
    return Login(settings) if settings.logs_in else None


def words_of(settings: StorageSettings) -> tuple[str, str] | None:
    """The current user and password, for programs that log in themselves. None if the cluster asks for no password.
    Raises FilesUnusable."""
    return Login(settings).words() if settings.logs_in else None


def tls_of(settings: StorageSettings) -> Tls | None:
    """None if the cluster speaks no TLS. Raises FilesUnusable."""
    return Tls(settings) if settings.tls_ca_file is not None else None


def _given(word: str | None, file: str | None, *, setting: str) -> str:
    if file is not None:
        return read_text(file, setting=setting)
    assert word is not None
    return word


def _context(settings: StorageSettings) -> ssl.SSLContext:
    """Raises FilesUnusable."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = settings.tls_check_hostname
    try:
        context.load_verify_locations(settings.tls_ca_file)
    except OSError as error:
        raise _unusable("tls_ca_file", settings.tls_ca_file, "the authorities' certificates in PEM", error) from None
    if settings.tls_cert_file is not None:
        try:
            context.load_cert_chain(settings.tls_cert_file, settings.tls_key_file, password="")
        except (OSError, ValueError) as error:
            files = f"{settings.tls_cert_file} and {settings.tls_key_file}"
            raise _unusable(
                "tls_cert_file and tls_key_file", files, "a certificate and its key in PEM", error
            ) from None
    return context


def _unusable(setting: str, named: str | None, wanted: str, error: Exception) -> FilesUnusable:
    plain = isinstance(error, OSError) and not isinstance(error, ssl.SSLError)
    why = f"can't be read ({(error.strerror or '').lower()})" if plain and isinstance(error, OSError) else None
    return FilesUnusable(f"{_TABLE}.{setting}: {named} {why or f'do not hold {wanted}'}")
