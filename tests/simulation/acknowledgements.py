"""Receivers of a simulated world that take calls by 202, and say later what became of them."""

import random
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from cql.storage import Storage
from membership.errors import MinutehandError, StoreUnavailable
from scheduler_service.domain.acknowledgements import Ack, Address
from scheduler_service.domain.clients import ClientSettings, RetrySettings, SigningSecret
from scheduler_service.domain.errors import Conflict
from scheduler_service.domain.ids import ClientId, ScheduleId, UnixMillis
from scheduler_service.domain.options import decode_options
from scheduler_service.domain.schedules import Row, State
from scheduler_service.runtime.clock import Clock
from scheduler_service.usecases.acknowledge import AcknowledgeWork, TooEarly, Word
from scheduler_service.usecases.schedule_writer import ScheduleWriter
from tests.simulation.creates import CreateRecord
from tests.simulation.faults import FaultyConnection
from tests.simulation.receivers import Call
from tests.simulation.sim_node import announced_low_watermark
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


class Said(NamedTuple):
    """A word that counts, or may: one that got no answer may count as well. `until_ms`: of `extend`, how long the
    receiver has then."""

    address: Address
    result: str
    taken: bool
    until_ms: int = 0


@dataclass
class Words:
    """Sends receivers' words through the API of the world, and remembers which were taken."""

    world: World
    said: list[Said] = field(default_factory=list)
    api: tuple[Storage, ScheduleWriter] | None = None
    """The process that takes them, if it is not the API of the world."""

    def by_another_api(self) -> "Words":
        """Words of the same receivers that another process takes."""
        world = self.world
        connection = FaultyConnection(world.memory, clock=world.api_clock, rng=random.Random(7))
        storage = Storage.over(connection, clock=world.api_clock, randomness=world.api_randomness)
        writer = ScheduleWriter(
            schedules=storage.schedules,
            keys=storage.schedule_keys,
            leases=storage.leases,
            clock=world.api_clock,
            randomness=world.api_randomness,
            hints=world,
            low_watermark_of=lambda incarnation: announced_low_watermark(world.memory, incarnation),
        )
        return Words(world, self.said, (storage, writer))

    @property
    def taken(self) -> list[Said]:
        return [one for one in self.said if one.taken]

    async def say(self, call: Call, result: str, clock: Clock | None = None, **more: Any) -> Row | MinutehandError:
        """One request; its error, if it was not taken. `clock`: of the process that takes it, if not the API's."""
        world = self.world
        storage, writer = self.api or (world.api_storage, world.writer)
        acknowledge = AcknowledgeWork(
            schedules=storage.schedules,
            attempts=storage.attempts,
            writer=writer,
            clock=clock or world.api_clock,
        )
        address = address_of(call)
        now, within = (clock or world.api_clock).wall_ms(), more.get("within_seconds") or 0
        until = now + round(1000 * within) if result == "extend" else 0
        try:
            row = await acknowledge(address, Word(result, **more))  # type: ignore[arg-type]
        except (StoreUnavailable, TooEarly, Conflict) as error:
            world.note("api", f"{result} of {address.schedule_id} attempt {call.attempt}: {error!r}")
            if isinstance(error, StoreUnavailable):
                self.said.append(Said(address, result, False))
            return error
        world.note("api", f"{result} of {address.schedule_id} attempt {call.attempt} is taken")
        self.said.append(Said(address, result, True, until))
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
        done = [one for one in self._of(asked) if one.result == "done"]
        if any(one.taken for one in done) and row.state != State.DELIVERED:
            raise self.world.violation(f"{asked.schedule_id}: done was taken, and it is {row.state}")
        if row.state == State.DELIVERED and not any(one.address.attempt == row.attempts for one in done):
            raise self.world.violation(
                f"{asked.schedule_id} is delivered, and nobody said so of attempt {row.attempts}"
            )
        letters = [one for one in self.world.memory.rows("dead_letters") if one["schedule_id"] == asked.schedule_id]
        if len(letters) > (row.state == State.FAILED):
            raise self.world.violation(f"{asked.schedule_id} is {row.state} and has {len(letters)} dead letters")
        self._check_time(asked, row)

    def _check_time(self, asked: CreateRecord, row: Row) -> None:
        """No attempt is taken for failed while its receiver has time, unless that said so."""
        ack = decode_options(row.options).ack
        assert ack is not None
        ends = [call.at_ms for call in asked.calls[1:]]
        ends += [row.finished_at] if row.state == State.FAILED and row.finished_at is not None else []
        for call, ended_ms in zip(asked.calls, ends, strict=False):
            of_it = [one for one in self._of(asked) if one.address == address_of(call)]
            until = max(call.at_ms + 1000 * ack.within_seconds, *(one.until_ms for one in of_it if one.taken), 0)
            redone = any(later.attempt == call.attempt for later in asked.calls if later is not call)
            if ended_ms < until and not redone and not any(one.result == "failed" for one in of_it):
                raise self.world.violation(f"{asked.schedule_id}: attempt {call.attempt} had time until {until}")

    def _of(self, asked: CreateRecord) -> list[Said]:
        return [one for one in self.said if one.address.schedule_id == asked.schedule_id]
