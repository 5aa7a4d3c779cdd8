"""The certificates that the cluster's servers present, for programs that connect with another driver than ours.

Such a driver may check less than `cql.login` does: not whether a certificate names the server, or only by its address.
It can instead be told to trust exactly the certificates that were just checked here.
"""

import asyncio
import socket

from cql.login import Tls
from cql.session import Session
from cql.settings import StorageSettings
from membership.errors import StoreUnavailable
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.runtime.logging import get_logger

_log = get_logger("minutehand.storage")


async def node_certificates(settings: StorageSettings) -> list[bytes]:
    """The certificate, in DER, of every server of the home data centre that answers now, after the same checks as for
    our connections. `settings` must ask for TLS.

    Raises what `Session.open` does, and StoreUnavailable if no server answers any more.
    """
    session = await Session.open(settings, keyspace=None)
    try:
        nodes = session.nodes()
    finally:
        await session.close()
    tls = Tls(settings)

    async def shown(node: tuple[str, int]) -> bytes | None:
        return await asyncio.to_thread(_shown, tls, settings.connect_timeout_seconds, node)

    certificates = [one for one in await concurrently(shown, nodes) if one is not None]
    if not certificates:
        raise StoreUnavailable(f"No Cassandra server in {settings.local_dc} showed a certificate; try again.")
    return certificates


def _shown(tls: Tls, timeout_seconds: float, node: tuple[str, int]) -> bytes | None:
    """None if the server is unreachable, or fails the checks."""
    try:
        with (
            socket.create_connection(node, timeout=timeout_seconds) as connection,
            tls.wrap_socket(connection, server_hostname=node[0]) as secured,
        ):
            return secured.getpeercert(binary_form=True)
    except OSError as error:
        _log.warning("storage-certificate-unknown", address=node[0], reason=str(error))
        return None
