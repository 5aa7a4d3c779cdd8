"""TLS of a process's own ports and of its requests to other processes: TLS 1.2 and up, with files that may be replaced
while the process runs.

A new connection uses the files as they are when it is opened; open connections keep their certificate until they are
closed. Files that don't go together are refused with a line in the log, and the last good ones stay in use. The files
are checked when a connection is opened and every `CERTIFICATE_LOOK_SECONDS`, so that a bad certificate is reported
before anybody connects.

Where a server has `tls_client_ca_file`, every peer, probes and scrapers included, needs a certificate of those
authorities. That comes on top of keys and tokens and replaces none.
"""

import ssl
from collections.abc import Callable
from typing import Any, Protocol

from membership.ports import Timer
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.files import FilesUnusable, FromFiles

CERTIFICATE_LOOK_SECONDS = 5.0


class ServerTls(Protocol):
    """The settings of a port that may speak TLS."""

    @property
    def tls_cert_file(self) -> str | None: ...

    @property
    def tls_key_file(self) -> str | None: ...

    @property
    def tls_client_ca_file(self) -> str | None: ...


class CallerTls(Protocol):
    """The settings of requests over TLS. `tls_server_name` replaces the address that a certificate must name."""

    @property
    def tls_ca_file(self) -> str | None: ...

    @property
    def tls_cert_file(self) -> str | None: ...

    @property
    def tls_key_file(self) -> str | None: ...

    @property
    def tls_server_name(self) -> str | None: ...


class FollowedContext(ssl.SSLContext):
    """Delegates each connection to a context made from the present files. Made by `follow_server`, `follow_caller`."""

    files: FromFiles[ssl.SSLContext]
    server_name: str | None = None
    next_look: Timer | None = None

    def wrap_bio(self, *arguments: Any, **more: Any) -> ssl.SSLObject:
        """asyncio calls this for each new connection."""
        if self.server_name is not None:
            more["server_hostname"] = self.server_name
        return self.files.current().wrap_bio(*arguments, **more)

    def keep_looking(self, clock: Clock) -> None:
        """Check the files every `CERTIFICATE_LOOK_SECONDS`, until `stop_looking`."""
        self.files.current()
        self.next_look = clock.call_later(CERTIFICATE_LOOK_SECONDS, lambda: self.keep_looking(clock))

    def stop_looking(self) -> None:
        if self.next_look is not None:
            self.next_look.cancel()
            self.next_look = None


def follow_server(settings: ServerTls, *, table: str) -> FollowedContext | None:
    """None where no certificate is configured. `table`: of the settings, for messages. Raises FilesUnusable."""
    if settings.tls_cert_file is None:
        return None
    files = (settings.tls_cert_file, settings.tls_key_file, settings.tls_client_ca_file)
    return _followed(ssl.PROTOCOL_TLS_SERVER, files, lambda: _server_context(settings, table), table)


def follow_caller(settings: CallerTls, *, table: str) -> FollowedContext | None:
    """None where no file is configured: servers are then checked against the system's authorities. Raises
    FilesUnusable."""
    files = (settings.tls_ca_file, settings.tls_cert_file, settings.tls_key_file)
    if not any(files) and settings.tls_server_name is None:
        return None
    context = _followed(ssl.PROTOCOL_TLS_CLIENT, files, lambda: _caller_context(settings, table), table)
    context.server_name = settings.tls_server_name
    return context


def _followed(
    protocol: int, files: tuple[str | None, ...], load: Callable[[], ssl.SSLContext], table: str
) -> FollowedContext:
    context = FollowedContext(protocol)
    context.files = FromFiles([file for file in files if file is not None], load, what=f"certificates of [{table}]")
    return context


def _server_context(settings: ServerTls, table: str) -> ssl.SSLContext:
    """Raises FilesUnusable."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    _load_certificate(context, settings, table)
    if settings.tls_client_ca_file is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        _load_authorities(context, settings.tls_client_ca_file, f"{table}.tls_client_ca_file")
    return context


def _caller_context(settings: CallerTls, table: str) -> ssl.SSLContext:
    """Raises FilesUnusable."""
    context = ssl.create_default_context() if settings.tls_ca_file is None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if settings.tls_ca_file is not None:
        _load_authorities(context, settings.tls_ca_file, f"{table}.tls_ca_file")
    if settings.tls_cert_file is not None:
        _load_certificate(context, settings, table)
    return context


def _load_certificate(context: ssl.SSLContext, settings: ServerTls | CallerTls, table: str) -> None:
    assert settings.tls_cert_file is not None
    try:
        # With password=None, OpenSSL would prompt at the terminal for the password of an encrypted key.
        context.load_cert_chain(settings.tls_cert_file, settings.tls_key_file, password="")
    except (OSError, ValueError) as error:
        named = f"{table}.tls_cert_file and tls_key_file name {settings.tls_cert_file} and {settings.tls_key_file}"
        raise FilesUnusable(f"{named}, which {_why(error, 'are no certificate and its key, in PEM')}") from None


def _load_authorities(context: ssl.SSLContext, file: str, setting: str) -> None:
    try:
        context.load_verify_locations(file)
    except OSError as error:
        raise FilesUnusable(f"{setting} names {file}, which {_why(error, 'holds no certificates in PEM')}") from None


def _why(error: Exception, wrong: str) -> str:
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        return f"can't be read ({(error.strerror or '').lower()})"
    return wrong
