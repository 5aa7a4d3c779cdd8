"""The overdue rate of all clients together: shown, set and taken away. A client's own is one of its settings."""

from collections.abc import Callable

from scheduler_service.domain.ports import ClientStore


class ClusterOverdueRate:
    """Nodes follow a change within a few seconds, as they do changes of clients."""

    def __init__(self, *, store: ClientStore, admit_rate: Callable[[], None]) -> None:
        """`admit_rate()` raises Conflict (older-nodes) while nodes run that keep to no overdue rate."""
        self._store = store
        self._admit_rate = admit_rate

    async def show(self) -> float | None:
        """Calls a second; None: there is no rate. Raises StoreUnavailable."""
        return await self._store.read_overdue_rate()

    async def set(self, per_second: float) -> None:
        """May be repeated. Raises Conflict (older-nodes), StoreUnavailable."""
        self._admit_rate()
        await self._store.set_overdue_rate(per_second)

    async def remove(self) -> None:
        """May be repeated. Raises StoreUnavailable."""
        await self._store.set_overdue_rate(None)
