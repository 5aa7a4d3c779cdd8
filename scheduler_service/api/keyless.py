"""Callers without a key: programs that were written for systems that know none. Pure."""

from typing import Final

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


def keyless_fault(host: str, *, instead: str) -> str | None:
    """Why an API that listens on `host` must not let such callers in; None: it may. `instead`: what else to set."""
    if host in LOOPBACK:
        return None
    return (
        f"lets callers without a key in, and the API listens on {host}: {instead}, let the API listen on 127.0.0.1 "
        "behind a proxy, or set open_to_network if everybody who reaches that address may do what they may"
    )
