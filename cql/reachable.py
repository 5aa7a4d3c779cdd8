"""Whether anything listens where Cassandra is configured to be.

The driver can't be interrupted while it connects, and logs each server that does not answer. So it is asked only once
somebody listens: a program that waits for Cassandra can then be stopped at once.
"""

import asyncio

from cql.settings import StorageSettings
from scheduler_service.runtime.lifecycle import Tasks


async def somebody_listens(settings: StorageSettings) -> bool:
    """Whether one of the contact points accepts a connection within `connect_timeout_seconds`."""
    tasks = Tasks(lambda name, error: None)
    asked = [
        tasks.spawn(_listens(host, settings.port), name=f"contact-point.{host}") for host in settings.contact_points
    ]
    try:
        async with asyncio.timeout(settings.connect_timeout_seconds):
            for answer in asyncio.as_completed(asked):
                if await answer:
                    return True
    except TimeoutError:
        pass
    finally:
        await tasks.close()
    return False


async def _listens(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    return True
