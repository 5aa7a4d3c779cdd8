"""Loopback ports: choosing free ones, and telling which are taken."""

import errno
import ipaddress
import random
import socket
from collections.abc import Sequence

from minutehand.local.errors import LocalError, PortBusy, PortUnusable

_CHOICE = range(18_000, 30_000)
"""Below what systems hand out for outgoing connections, so that a port chosen now is still free a little later."""
_TRIES = 200


def free_ports(count: int, hosts: Sequence[str] = ("127.0.0.1",)) -> list[int]:
    """`count` different ports, each free on every one of `hosts` right now. Nothing reserves them."""
    found: list[int] = []
    for port in random.SystemRandom().sample(_CHOICE, _TRIES + count):
        if all(_refusal(host, port) is None for host in hosts):
            found.append(port)
            if len(found) == count:
                return found
    raise LocalError(f"No {count} free ports were found on {', '.join(hosts)}.", "Close programs that listen there.")


def check_loopback(host: str) -> None:
    """Raise `LocalError` unless `host` is a loopback address: an embedded server has no password."""
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise LocalError(
            f"An embedded Cassandra has no password and listens on loopback addresses only, not on {host}.",
            "Use 127.0.0.1 (or 127.0.0.2, ... for more nodes).",
        )


def check_port(host: str, port: int, *, setting: str) -> None:
    """Raise `PortBusy` or `PortUnusable` unless a server could listen on `host` and `port` now."""
    refusal = _refusal(host, port)
    if refusal is None:
        return
    if refusal.errno == errno.EADDRINUSE:
        raise PortBusy(host=host, port=port, setting=setting)
    raise PortUnusable(host=host, port=port, reason=refusal.strerror or "refused", setting=setting)


def _refusal(host: str, port: int) -> OSError | None:
    """What binding answers. Like servers do, it does not mind connections of a former server that still linger."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OverflowError:
            return OSError(errno.EINVAL, "no such port")
        except OSError as error:
            return error
    return None
