"""Changes crons of a whole deployment from the process of the test or bench, as an API does but without HTTP.

Wake-ups are hinted to the nodes as an API hints them.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from cql.storage import Storage, open_storage
from membership.settings import MembershipSettings
from scheduler_service.domain.clients import Client
from scheduler_service.domain.crons.row import CronCallback, CronOptions
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.schedules import Definition
from scheduler_service.hints import HintForwarder, HintSettings
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.randomness import SystemRandomness
from scheduler_service.usecases.authenticate import Catalog
from scheduler_service.usecases.cron_request import CronDraft
from scheduler_service.usecases.crons import ChangeCrons
from scheduler_service.usecases.members import WatchMembers
from scheduler_service.usecases.schedule_writer import ScheduleWriter
from scheduler_service.usecases.secret_encryption import NoEncryption
from tests.support.processes import Deployment

BODY = b"x" * 200


@dataclass(frozen=True, slots=True)
class CronChanges:
    """`dropped` has one element: the number of wake-ups of which no node was told."""

    change: ChangeCrons
    storage: Storage
    dropped: list[int]

    async def client(self, client_id: str) -> Client:
        """A registered client."""
        client = await self.storage.clients.read_client(ClientId(client_id))
        assert client is not None, client_id
        return client


@asynccontextmanager
async def cron_changes(cluster: Deployment) -> AsyncIterator[CronChanges]:
    """For a deployment whose nodes are already members."""
    clock, randomness = SystemClock(), SystemRandomness()
    dropped = [0]

    def drop(hints: int) -> None:
        dropped[0] += hints

    async with AsyncExitStack() as parts:
        storage = await open_storage(cluster.storage)
        parts.push_async_callback(storage.close)
        members = WatchMembers(
            store=storage.members, clock=clock, settings=MembershipSettings(), on_crash=lambda name, error: None
        )
        hints = HintForwarder(
            members=members, clock=clock, settings=HintSettings(), token=cluster.token, on_dropped=drop
        )
        for service in (members, hints):
            parts.push_async_callback(service.stop)
            await service.start()
        writer = ScheduleWriter(
            schedules=storage.schedules,
            keys=storage.schedule_keys,
            leases=storage.leases,
            clock=clock,
            randomness=randomness,
            hints=hints,
        )
        catalog = Catalog(store=storage.clients, clock=clock)
        yield CronChanges(
            ChangeCrons(crons=storage.crons, catalog=catalog, writer=writer, encryption=NoEncryption(), clock=clock),
            storage,
            dropped,
        )


def draft(expression: str, url: str, *, timezone: str = "UTC", options: CronOptions | None = None) -> CronDraft:
    """A rule that posts `BODY`."""
    callback = CronCallback(method="POST", url=url, headers="[]", body=BODY)
    return CronDraft(expression, timezone, callback, options or CronOptions())


async def tell_nobody(fire: Definition) -> None:
    """For an expansion whose clients have no feed."""
