"""Receivers of a simulated world that take calls by 202, and say later what became of them."""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from membership.errors import MinutehandError, StoreUnavailable
from scheduler_service.domain.acknowledgements import Ack, Address
from scheduler_service.domain.clients import ClientSettings, RetrySettings, SigningSecret
from scheduler_service.domain.errors import Conflict
from scheduler_service.domain.ids import ClientId, ScheduleId, UnixMillis
from scheduler_service.domain.schedules import Row, State
from scheduler_service.usecases.acknowledge import AcknowledgeWork, TooEarly, Word
from tests.simulation.creates import CreateRecord
from tests.simulation.receivers import Call
from tests.simulation.world import World

ACK = Ack(within_seconds=60)


async def shop(world: World, *, names: str = "a", quota: int = 1, **settings: Any) -> "Words":
    """A client whose receiver takes every call by 202."""
    settings = {"retry": RetrySettings(base_seconds=2, max_attempts=3)} | settings
    await world.add_client("shop", quota=quota, settings=ClientSettings(**settings))
    secret = SigningSecret(
        client_id=ClientId("shop"), secret_id="a", secret=bytes(32), encryption_key_id=None, created_at=UnixMillis(0)
    )
    await world.truth.clients.insert_secret(secret)
    world.receiver.script = lambda call: 202
    for name in names:
        world.add_node(name)
    await world.advance(8)
    return Words(world)


def address_of(call: Call) -> Address:
    """What its `Minutehand-Ack-Url` says."""
    return Address(
        ClientId(call.client_id), ScheduleId(UUID(call.schedule_id)), call.attempt, call.fence, UnixMillis(1 << 47)
    )


@dataclass
class Words:
    """Sends receivers' words through the API of the world, and remembers which were taken."""

    world: World
    taken: list[tuple[Address, str]] = field(default_factory=list)

    async def say(self, call: Call, result: str, **more: Any) -> Row | MinutehandError:
        """One request; its error, if it was not taken."""
        world = self.world
        acknowledge = AcknowledgeWork(
            schedules=world.api_storage.schedules,
            attempts=world.api_storage.attempts,
            writer=world.writer,
            clock=world.api_clock,
        )
        address = address_of(call)
        try:
            row = await acknowledge(address, Word(result, **more))  # type: ignore[arg-type]
        except (StoreUnavailable, TooEarly, Conflict) as error:
            world.note("api", f"{result} of {address.schedule_id} attempt {call.attempt}: {error!r}")
            return error
        world.note("api", f"{result} of {address.schedule_id} attempt {call.attempt} is taken")
        self.taken.append((address, result))
        return row

    async def insist(self, call: Call, result: str, **more: Any) -> Row | Conflict:
        """Repeat until there is an answer that repeating does not change."""
        while True:
            said = await self.say(call, result, **more)
            if isinstance(said, Row | Conflict):
                return said
            await self.world.api_clock.sleep(1.0)

    def check(self, asked: CreateRecord, row: Row) -> None:
        """What was taken counts, and what was not does not."""
        of_it = [(address, result) for address, result in self.taken if address.schedule_id == asked.schedule_id]
        if any(result == "done" for _, result in of_it) and row.state != State.DELIVERED:
            raise self.world.violation(f"{asked.schedule_id}: done was taken, and it is {row.state}")
