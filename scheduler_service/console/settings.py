"""Settings of the console."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """Settings of the pages at `/console`."""

    on: bool = True
    """Serve the console beside the API. Off: its paths do not exist."""

    https: bool | None = None
    """Whether browsers reach the API by HTTPS, so that they send the session's cookie by nothing else. None: yes if the
    API itself has a certificate. Set it to true behind a proxy that terminates TLS."""
