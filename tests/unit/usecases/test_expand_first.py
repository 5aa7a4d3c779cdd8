"""What the first expansion of a cron reads: a new one has no fires of older revisions, a changed one may."""

from typing import Any

import pytest

from cql.connection import Parameters
from cql.memory.connection import InMemoryConnection
from cql.storage import Storage
from membership.conditional import APPLIED
from scheduler_service.domain.clients import Client, ClientSettings, ClientState
from scheduler_service.domain.crons.row import CRON_CLIENT
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.randomness import SystemRandomness
from scheduler_service.usecases.cancel_schedules import CancelSchedules
from scheduler_service.usecases.expand_crons import ExpandCrons
from scheduler_service.usecases.resolve_schedule import ResolveSchedule
from scheduler_service.usecases.schedule_writer import ScheduleWriter
from tests.contract.cron_builders import BEGAN, cron
from tests.support.crons import tell_nobody
from tests.support.held_turns import HeldTurns

SHOP = ClientId("shop")


class CountingConnection(InMemoryConnection):
    def __init__(self) -> None:
        super().__init__()
        self.selected: list[str] = []

    async def select(self, name: str, parameters: Parameters, **options: Any) -> list[tuple[Any, ...]]:
        self.selected.append(name)
        return await super().select(name, parameters, **options)


def client(client_id: ClientId) -> Client:
    return Client(
        client_id=client_id,
        poller_quota=8,
        poller_ceiling=8,
        state=ClientState.ACTIVE,
        settings=ClientSettings(),
        revision=1,
        created_at=BEGAN,
    )


@pytest.mark.parametrize(("revision", "looked"), [(1, 0), (2, 1)])
async def test_only_a_cron_that_was_changed_may_have_older_fires(
    revision: int, looked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = CountingConnection()
    storage = Storage.over(connection)
    clock, randomness = SystemClock(), SystemRandomness()
    now = UnixMillis(clock.wall_ms())
    writer = ScheduleWriter(
        schedules=storage.schedules,
        keys=storage.schedule_keys,
        leases=storage.leases,
        clock=clock,
        randomness=randomness,
        hints=_Nobody(),
    )
    expand = ExpandCrons(
        crons=storage.crons,
        clients=storage.clients,
        known={SHOP: client(SHOP), CRON_CLIENT: client(CRON_CLIENT)}.get,
        writer=writer,
        resolve=ResolveSchedule(schedules=storage.schedules, writer=writer),
        cancel=CancelSchedules(
            schedules=storage.schedules, writer=writer, clock=clock, has_feed=lambda client_id: False
        ),
        clock=clock,
        on_fault=_fail,
        missed=tell_nobody,
    )
    one = cron(SHOP, revision=revision, swept=revision - 1, expanded_through=now, wake_at=now)
    assert await storage.crons.write(one, expected_revision=None) == APPLIED
    turns = HeldTurns()
    with monkeypatch.context() as patched:
        turns.require(patched)
        await expand(SHOP, [one.cron_id], turn=turns)
    assert turns.taken == 5 + looked, "each request is made within a turn of its own"
    after = (await storage.crons.read(SHOP, [one.cron_id]))[one.cron_id]
    assert after.swept == revision
    assert connection.selected.count("cron_runs.read") == looked
    await storage.close()


class _Nobody:
    def hint(self, partition: object, key: object) -> None:
        pass


def _fail(name: str, error: BaseException) -> None:
    raise AssertionError(name) from error
