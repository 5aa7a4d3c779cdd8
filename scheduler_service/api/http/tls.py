"""TLS of the API: TLS 1.2 and up, with a certificate that may be replaced while the process runs.

A new connection uses the files as they are when it is opened; open connections keep their certificate until they are
closed. Files that don't go together are refused with a line in the log, and the last good ones stay in use. The files
are checked when a connection is opened and every `CERTIFICATE_LOOK_SECONDS`, so that a bad certificate is reported
before anybody connects.

With `tls_client_ca_file` every peer, probes and scrapers included, needs a certificate of those authorities. That comes
on top of bearer keys and replaces none.
"""

import ssl
from typing import Any

from membership.ports import Timer
from scheduler_service.api.settings import ApiSettings
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.files import FilesUnusable, FromFiles
from scheduler_service.runtime.logging import get_logger

CERTIFICATE_LOOK_SECONDS = 5.0
_log = get_logger("minutehand.api")


class FollowedContext(ssl.SSLContext):
    """Delegates each connection to a context made from the present files. Made by `follow_files`."""

    files: FromFiles[ssl.SSLContext]
    next_look: Timer | None = None

    def wrap_bio(self, *arguments: Any, **more: Any) -> ssl.SSLObject:
        """asyncio calls this for each new connection."""
        return self.files.current().wrap_bio(*arguments, **more)

    def keep_looking(self, clock: Clock) -> None:
        """Check the files every `CERTIFICATE_LOOK_SECONDS`, until `stop_looking`."""
        self.files.current()
        self.next_look = clock.call_later(CERTIFICATE_LOOK_SECONDS, lambda: self.keep_looking(clock))

    def stop_looking(self) -> None:
        if self.next_look is not None:
            self.next_look.cancel()
            self.next_look = None


def follow_files(settings: ApiSettings) -> FollowedContext | None:
    """None where no certificate is configured. Raises FilesUnusable."""
    if settings.tls_cert_file is None:
        return None
    named = (settings.tls_cert_file, settings.tls_key_file, settings.tls_client_ca_file)
    context = FollowedContext(ssl.PROTOCOL_TLS_SERVER)
    files = [file for file in named if file is not None]
    context.files = FromFiles(files, lambda: _context(settings), on_refused=_refused)
    return context


def _context(settings: ApiSettings) -> ssl.SSLContext:
    """Raises FilesUnusable."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    assert settings.tls_cert_file is not None
    try:
        # With password=None, OpenSSL would prompt at the terminal for the password of an encrypted key.
        context.load_cert_chain(settings.tls_cert_file, settings.tls_key_file, password="")
    except (OSError, ValueError) as error:
        named = f"api.tls_cert_file and tls_key_file name {settings.tls_cert_file} and {settings.tls_key_file}"
        raise FilesUnusable(f"{named}, which {_why(error, 'are no certificate and its key, in PEM')}") from None
    if settings.tls_client_ca_file is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(settings.tls_client_ca_file)
        except OSError as error:
            named = f"api.tls_client_ca_file names {settings.tls_client_ca_file}"
            raise FilesUnusable(f"{named}, which {_why(error, 'holds no certificates in PEM')}") from None
    return context


def _why(error: Exception, wrong: str) -> str:
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        return f"can't be read ({(error.strerror or '').lower()})"
    return wrong


def _refused(reason: str) -> None:
    _log.error("certificate-refused", reason=reason, kept="the certificate that was read before")
