"""TLS contexts that present client certificates, a bounded number of them.

Each holds its own copy of the authorities' certificates, as OpenSSL shares none between contexts: 0.9 MB and 26 ms to
make with 144 authorities. A context that is dropped here lives on in the connections that were made with it.
"""

import os
import ssl
import tempfile
from collections import OrderedDict
from collections.abc import Callable
from typing import IO, Final

from poller_cluster.delivery.channel import Channel
from scheduler_service.domain.destination_access import ClientCertificate

CONTEXTS_KEPT: Final = 64
CONTEXTS_PER_CLIENT: Final = 16
"""So that one client that changes its certificates often costs only itself the contexts that it used before."""


class ClientContexts:
    """The contexts used last, by client and channel. `make` gives a context without a client certificate."""

    def __init__(self, make: Callable[[], ssl.SSLContext]) -> None:
        self._make = make
        self._kept: OrderedDict[tuple[str, Channel], ssl.SSLContext] = OrderedDict()

    def of(self, client_id: str, channel: Channel) -> ssl.SSLContext:
        """The context of a channel that has a certificate. Raises ssl.SSLError if OpenSSL does not take the
        certificate, OSError if there is no memory or descriptor."""
        name = (client_id, channel)
        context = self._kept.get(name)
        if context is not None:
            self._kept.move_to_end(name)
            return context
        assert channel.certificate is not None
        context = self._make()
        present(context, channel.certificate)
        self._forget_some(client_id)
        self._kept[name] = context
        return context

    def _forget_some(self, client_id: str) -> None:
        own = [name for name in self._kept if name[0] == client_id]
        if len(own) >= CONTEXTS_PER_CLIENT:
            del self._kept[own[0]]
        elif len(self._kept) >= CONTEXTS_KEPT:
            self._kept.popitem(last=False)


def present(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    """Make the context present this certificate. `ssl` reads it from a file only: one in memory where the system has
    such, else a temporary one that only this user can read. Raises ssl.SSLError and OSError."""
    text = f"{certificate.chain.strip()}\n{certificate.key.strip()}\n".encode()
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("certificate"), "wb") as file:
            _load(context, file, text, f"/proc/self/fd/{file.fileno()}")
    else:
        with tempfile.NamedTemporaryFile() as named:
            _load(context, named, text, named.name)


def _load(context: ssl.SSLContext, file: IO[bytes], text: bytes, path: str) -> None:
    file.write(text)
    file.flush()
    # Without the password OpenSSL would ask for one at the terminal if the key is encrypted.
    context.load_cert_chain(path, password="")
