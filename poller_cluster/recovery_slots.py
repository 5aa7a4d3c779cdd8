"""How many minutes of the past run beside the present: a bounded number of the node, and of each client fewer.

Recovery of one client with a long backlog must not keep another's waiting, so no client has more than half of the
node's slots (at least one). A slot is taken in the order in which they were asked for.
"""

import asyncio
from dataclasses import dataclass


def per_client(slots: int) -> int:
    """How many of a node's slots one client may hold."""
    return max(slots // 2, 1)


@dataclass(frozen=True, slots=True)
class RecoverySlots:
    """One client's view of its node's slots."""

    node: asyncio.Semaphore
    client: asyncio.Semaphore

    async def acquire(self) -> None:
        """The client's own first: who waits for that keeps nobody else waiting."""
        await self.client.acquire()
        try:
            await self.node.acquire()
        except BaseException:
            self.client.release()
            raise

    def release(self) -> None:
        self.node.release()
        self.client.release()
