"""A fetcher of tokens whose fetches a test ends by hand."""

from collections.abc import Callable

from poller_cluster.delivery.token_request import Grant, TokenFailure
from poller_cluster.dispatch.tokens import TokenKey
from scheduler_service.domain.destinations import TokenSource
from scheduler_service.domain.ids import ClientId

DOWN = TokenFailure(code="no-answer", detail="no answer within 10 s")
LIFE_SECONDS = 1_000.0


class HeldFetches:
    """Records the fetches asked for; `grant` and `fail` end the oldest that is open."""

    def __init__(self, *, capacity: int = 64) -> None:
        self.capacity = capacity
        self.asked: list[TokenKey] = []
        self.open: list[Callable[[Grant | TokenFailure], None]] = []

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def fetch(self, client_id: ClientId, source: TokenSource, on_done: Callable[[Grant | TokenFailure], None]) -> None:
        self.asked.append(TokenKey(client_id, source))
        self.open.append(on_done)

    def grant(self, token: str = "first", *, life: float = LIFE_SECONDS) -> None:
        self.open.pop(0)(Grant(token=token, lifetime_seconds=life))

    def fail(self, failure: TokenFailure = DOWN) -> None:
        self.open.pop(0)(failure)
