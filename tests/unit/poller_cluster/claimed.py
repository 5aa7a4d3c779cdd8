"""A claimed row and its client, with defaults for what a test does not care about."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from poller_cluster.clients import ServedClient
from poller_cluster.delivery.result import AttemptResult
from poller_cluster.destinations import ServedDestination, channel_of, served
from poller_cluster.dispatch.job import Claim
from poller_cluster.dispatch.request import Sender
from scheduler_service.domain.clients import Client, ClientSettings, ClientState
from scheduler_service.domain.destinations import Destination
from scheduler_service.domain.ids import ClientId, RowKey, UnixMillis, compose_schedule_id
from scheduler_service.domain.schedules import Outcome, Row
from tests.support.api import NOW

SENDER = Sender(incarnation="node-1@7", version="1.2.3")
EPOCH = 4
_EMPTY: dict[str, Any] = dict.fromkeys(Row.__struct_fields__)


def claim(
    *, due: int = NOW, tail: int = 1, redelivery: bool = False, first_attempt_at: int | None = None, **row: Any
) -> Claim:
    """A row due at `due`; with `at` in the row's fields a retry row's own instant."""
    values: dict[str, Any] = {
        "due": due,
        "schedule_id": compose_schedule_id(due=due, poller_id=0, tail=tail),
        "kind": "call",
        "method": "PUT",
        "url": "https://receiver.example/hook",
        "headers": '[["x-of-mine","1"]]',
        "body": b"payload",
        "options": "{}",
        "created_at": UnixMillis(NOW - 60_000),
        "attempt_base": 0,
    }
    first = None if first_attempt_at is None else UnixMillis(first_attempt_at)
    return Claim(Row(**{**_EMPTY, **values, **row}), redelivery, first)


class RowOwner:
    """The owner of claimed rows as a test needs it: which rows it still owns, and what it is told."""

    def __init__(
        self,
        client_id: str = "shop",
        *,
        on_end: Callable[[RowKey, Outcome], None] = lambda key, outcome: None,
        may_send: Callable[[], bool] = lambda: True,
        on_queued_again: Callable[[], None] = lambda: None,
    ) -> None:
        self.client_id, self.epoch, self.began_ms = ClientId(client_id), EPOCH, 0
        self._on_end = on_end
        self.may_send = may_send
        self.queued_again = on_queued_again

    def attempt_ended(self, key: RowKey, outcome: Outcome, *, now: int) -> None:
        self._on_end(key, outcome)


def client(
    client_id: str = "shop",
    *,
    quota: int = 1,
    state: ClientState = ClientState.ACTIVE,
    secrets: tuple[bytes, ...] = (),
    private_keys: tuple[bytes, ...] = (),
    destinations: Sequence[ServedDestination] = (),
    **settings: Any,
) -> ServedClient:
    client = Client(
        client_id=ClientId(client_id),
        poller_quota=quota,
        poller_ceiling=quota,
        state=state,
        settings=ClientSettings(**settings),
        revision=1,
        created_at=UnixMillis(1),
    )
    effective = client.settings.effective(poller_quota=quota)
    named = {one.name: one for one in destinations}
    return ServedClient(client, effective, secrets, private_keys=private_keys, destinations=named)


def destination(
    name: str = "crm", *, paused_at: int | None = None, locked: str | None = None, quota: int = 1, **document: Any
) -> ServedDestination:
    """A destination of a client with default settings."""
    settings = ClientSettings().effective(poller_quota=quota)
    called = Destination(**{"url": "https://crm.example/hooks", **document})
    paused = None if paused_at is None else UnixMillis(paused_at)
    made = served(name, called, settings, channel=channel_of(called), paused_at=paused)
    return replace(made, locked=locked)


def result(status: int | None = 200, **differing: Any) -> AttemptResult:
    made = AttemptResult(status=status, error=None, started_at_ms=NOW, duration_seconds=0.1)
    return msgspec.structs.replace(made, **differing)
