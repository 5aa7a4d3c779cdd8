"""Schedules under clients' own keys in a simulated world."""

from membership.errors import StoreUnavailable
from scheduler_service.domain.clients import Client
from scheduler_service.domain.ids import key_of, partition_of
from scheduler_service.domain.network import NetworkPolicy
from scheduler_service.domain.ports import ScheduleStore
from scheduler_service.domain.quotas import PollerChooser
from scheduler_service.domain.schedule_keys import KeyRow
from scheduler_service.domain.schedules import Definition, Row, State
from scheduler_service.usecases.admission import AdmitCreates, JudgeClock
from scheduler_service.usecases.cancel_schedules import CancelSchedules
from scheduler_service.usecases.create_schedules import Chosen, CreateSchedules
from scheduler_service.usecases.resolve_schedule import Resolved, ResolveSchedule
from scheduler_service.usecases.schedule_keys import Put, PutResult, ScheduleKeys
from scheduler_service.usecases.schedule_request import CallbackPolicy, CallbackRequest, ScheduleRequest
from scheduler_service.usecases.schedule_writer import ScheduleWriter
from scheduler_service.usecases.secret_encryption import NoEncryption
from tests.simulation.creates import CreateRecord
from tests.simulation.sim_clock import AgreedClock
from tests.simulation.world import World

URL = "http://receiver.test/"


class _Registering(ScheduleKeys):
    """Registers every schedule with the world before it is announced: it may be called before the put is answered."""

    world: World
    drawn: list[CreateRecord]

    def _new(
        self,
        client: Client,
        request: ScheduleRequest,
        key: KeyRow,
        present: Resolved | None,
        chosen: Chosen | None,
    ) -> Definition:
        made = super()._new(client, request, key, present, chosen)
        asked = CreateRecord(client.client_id, made.schedule_id, made.due)
        self.drawn.append(self.world.asked.setdefault(str(made.schedule_id), asked))
        return made


def keys_of(
    world: World, schedules: ScheduleStore, writer: ScheduleWriter, *, drawn: list[CreateRecord] | None = None
) -> ScheduleKeys:
    """Puts of an API process that writes through these stores. `drawn` gets every schedule that is drawn."""
    drawn = [] if drawn is None else drawn
    clock, policy = world.api_clock, CallbackPolicy(network=NetworkPolicy(), encryption=NoEncryption())
    create = CreateSchedules(
        writer=writer,
        pollers=PollerChooser(world.api_randomness),
        policy=policy,
        admit=AdmitCreates(
            judge_clock=JudgeClock(clock=clock, compared=AgreedClock(), limit_ms=1_000), admit_wires=lambda: None
        ),
        clock=clock,
        randomness=world.api_randomness,
    )
    keys = _Registering(
        create=create,
        resolve=ResolveSchedule(schedules=schedules, writer=writer),
        cancel=CancelSchedules(schedules=schedules, writer=writer, clock=clock, has_feed=lambda client_id: False),
        writer=writer,
        clock=clock,
    )
    keys.world, keys.drawn = world, drawn
    return keys


def request(key: str, delay_seconds: float) -> ScheduleRequest:
    return ScheduleRequest(callback=CallbackRequest(url=URL), delay_seconds=delay_seconds, key=key)


async def put(world: World, keys: ScheduleKeys, key: str, delay_seconds: float) -> PutResult | None:
    """Make one put; None: its result is unknown."""
    client = world.clients["shop"]
    try:
        result = await keys.put(client, request(key, delay_seconds))
    except StoreUnavailable:
        return None
    if isinstance(result, Put):
        world.asked[str(result.definition.schedule_id)].acknowledged = True
    return result


async def judge(world: World, keys: ScheduleKeys) -> int:
    """Every schedule put under a key was called once, replaced by a created one, or never decided. Returns the number
    of calls.
    """
    assert isinstance(keys, _Registering)
    calls = 0
    for asked in keys.drawn:
        calls += len(asked.calls)
        row = await stored(world, asked)
        if row is None or row.created_at is None:
            assert (len(asked.calls), asked.acknowledged) == (0, False), row
        elif row.rescheduled_to is not None:
            assert (len(asked.calls), row.state) == (0, State.CANCELLED), row
            following = await stored(world, world.asked[str(row.rescheduled_to)])
            assert following is not None
            assert following.created_at is not None, following
        else:
            # A node that is killed between a claim and its outcome leaves doubt, and the call is repeated.
            assert [call.redelivery for call in asked.calls].count(False) <= 1, row
            assert (bool(asked.calls), row.state) == (True, State.DELIVERED), row
    return calls


async def stored(world: World, asked: CreateRecord) -> Row | None:
    """The original as stored, announced or created."""
    partition, key = partition_of(asked.client_id, asked.schedule_id), key_of(asked.schedule_id)
    return (await world.truth.schedules.find_rows(partition, [key])).get(key)
