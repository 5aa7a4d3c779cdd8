"""A scene to explore: one poller, creates and external updates, two incarnations that own the poller in turn, and
faults.
"""

from dataclasses import dataclass, field

from poller_cluster.clients import ServedClient
from poller_cluster.minute.machine import PollerMinute
from poller_cluster.settings import MinuteSettings
from scheduler_service.domain.clients import Client, ClientSettings, ClientState, RetrySettings
from scheduler_service.domain.ids import (
    ClientId,
    Minute,
    PollerId,
    RowKey,
    UnixMillis,
    compose_schedule_id,
    minute_end,
    minute_start,
)
from scheduler_service.domain.schedules import Definition
from scheduler_service.usecases.reschedule_schedule import RescheduleSchedule
from scheduler_service.usecases.schedule_writer import ScheduleWriter
from tests.simulation.explorer.store import LossySchedules

CLIENT = ClientId("shop")
POLLER = PollerId(0)
FIRST_MINUTE = Minute(29_916_667)
"""The minute in which everything is due."""
DUE_MS = minute_start(FIRST_MINUTE) + 30_000
AFTER_GRACE_MS = 12_000
OLD_URL, NEW_URL = "http://receiver.test/", "http://receiver.test/new"
"""What a schedule calls as it was created, and as it is updated."""


@dataclass(frozen=True)
class Plant:
    """The code under exploration; a plant replaces a part of it."""

    machine: type[PollerMinute] = PollerMinute
    writer: type[ScheduleWriter] = ScheduleWriter
    update: type[RescheduleSchedule] = RescheduleSchedule
    owners_store: type[LossySchedules] = LossySchedules
    writers_store: type[LossySchedules] = LossySchedules


SOUND = Plant()


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Bounds of an exploration. Time begins at the due of all rows, then ticks past the grace of the first minute, of
    the second, and so on.

    `losses`: the number of conditional writes whose answer may be lost after they were applied. `crash`, `zombie`: the
    first incarnation may crash, or lose trust and go on, and the second then takes the poller. `zombie_reads`: reads of
    the first incarnation without trust count, as if trust had gone right after. `split`: other moves may come between a
    write's effect and its answer. `fails`: attempts of a schedule that the receiver answers with 500. `defers`: owners
    defer every schedule that waits, and call its retry row. `hand_over`: the first incarnation drains and releases the
    poller.
    """

    creates: int = 1
    cancel: bool = True
    redeliver: bool = False
    update: bool = False
    fails: int = 0
    defers: bool = False
    crash: bool = True
    zombie: bool = True
    hand_over: bool = False
    writer_crash: bool = True
    losses: int = 1
    ticks: int = 2
    zombie_reads: bool = True
    split: bool = False
    page_rows: int = 1000
    headroom: int = 10
    same_minute_retry: bool = True
    plant: Plant = SOUND
    settings: MinuteSettings = field(default_factory=lambda: MinuteSettings(record_after_ms=0))
    largest_version: int = 9

    def now(self, tick: int) -> UnixMillis:
        if tick == 0:
            return UnixMillis(DUE_MS)
        return UnixMillis(minute_end(FIRST_MINUTE + tick - 1) + AFTER_GRACE_MS)

    def definition(self, number: int) -> Definition:
        due = UnixMillis(DUE_MS - number)
        return Definition(
            client_id=CLIENT,
            poller_id=POLLER,
            due=due,
            schedule_id=compose_schedule_id(due=due, poller_id=POLLER, tail=number + 1),
            method="POST",
            url=OLD_URL,
            headers="[]",
            body=b"",
            options="{}",
            created_at=UnixMillis(DUE_MS - 60_000),
        )

    def key(self, number: int) -> RowKey:
        return self.definition(number).key

    def registered(self) -> Client:
        base_seconds = 5.0 if self.same_minute_retry else 60.0
        settings = ClientSettings(retry=RetrySettings(base_seconds=base_seconds))
        return Client(
            client_id=CLIENT,
            poller_quota=1,
            poller_ceiling=1,
            state=ClientState.ACTIVE,
            settings=settings,
            revision=1,
            created_at=UnixMillis(0),
        )

    def client(self) -> ServedClient:
        client = self.registered()
        return ServedClient(client, client.settings.effective(poller_quota=1), ())
