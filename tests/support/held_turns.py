"""Storage turns that are granted at once, for tests of what is requested within them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import pytest

from cql.memory.connection import InMemoryConnection


class HeldTurns:
    """Counts the turns taken, and fails if a holder asks for another one."""

    def __init__(self) -> None:
        self.taken = 0
        self._held: ContextVar[bool] = ContextVar("held", default=False)

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[None]:
        assert not self._held.get()
        token = self._held.set(True)
        self.taken += 1
        yield
        self._held.reset(token)

    def require(self, patch: pytest.MonkeyPatch) -> None:
        """From now on, a request outside of a turn fails."""
        for name in ("select", "write", "write_batch", "conditional"):
            request = getattr(InMemoryConnection, name)

            async def within(connection: InMemoryConnection, *args: Any, request: Any = request, **named: Any) -> Any:
                assert self._held.get(), args
                return await request(connection, *args, **named)

            patch.setattr(InMemoryConnection, name, within)
