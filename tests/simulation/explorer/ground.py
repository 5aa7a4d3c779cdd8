"""What all moves share: the scene, its store, and the product's parts, wired to run one storage operation at a time."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from membership.errors import StoreUnavailable
from poller_cluster.bookkeeping import Bookkeeper
from poller_cluster.crons.fire_guard import CronFireGuard
from poller_cluster.minute.context import MinuteContext
from poller_cluster.minute.limits import MinuteLimits
from poller_cluster.node_runtime import NodeRuntime
from poller_cluster.settings import MinuteSettings
from scheduler_service.domain.ids import Minute
from scheduler_service.domain.network import NetworkPolicy
from scheduler_service.domain.quotas import PollerChooser
from scheduler_service.domain.schedules import Definition
from scheduler_service.usecases.cancel_schedules import CancelSchedules
from scheduler_service.usecases.schedule_request import CallbackPolicy
from scheduler_service.usecases.schedule_writer import ScheduleWriter
from scheduler_service.usecases.secret_encryption import NoEncryption
from tests.simulation.explorer.scene import FIRST_MINUTE, Scene
from tests.simulation.explorer.state import State
from tests.simulation.explorer.store import Store, fingerprint
from tests.simulation.explorer.tasks import Circumstances, Port

At = tuple[int, Minute]
"""A machine's place: the epoch of its incarnation, and its minute."""


@dataclass(frozen=True)
class Move:
    """`actor`: the process that makes the move, or the world. `fault`: the world may always leave the move out."""

    label: str
    apply: Callable[[State], None]
    actor: str | None = None
    fault: bool = False


class _NothingAnnounced:
    """Updates are explored in place: one that would be a reschedule gets no answer."""

    def __init__(self, writer: ScheduleWriter) -> None:
        self._writer = writer

    def __getattr__(self, method: str) -> Any:
        return getattr(self._writer, method)

    async def announce(self, definition: Definition) -> None:
        raise StoreUnavailable("nothing is announced here")


class Ground:
    """Shared by all moves of one exploration. Its stores are ports that wait for the explorer, unless noted."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.store = Store(owners=scene.plant.owners_store, writers=scene.plant.writers_store)
        self.circumstances: Any = Circumstances()
        self.client = scene.client()
        self.trusted = True
        schedules: Any = Port("schedules")
        leases: Any = Port("leases")
        self.writer = scene.plant.writer(
            schedules=schedules,
            keys=Port("schedule_keys"),
            leases=leases,
            clock=self.circumstances,
            randomness=self.circumstances,
            hints=self.circumstances,
        )
        self.cancel = CancelSchedules(
            schedules=schedules, writer=self.writer, clock=self.circumstances, has_feed=lambda client_id: False
        )
        nobody: Any = None
        self.update = scene.plant.update(
            schedules=schedules,
            resolve=nobody,
            cancel=self.cancel,
            writer=_NothingAnnounced(self.writer),  # type: ignore[arg-type]
            pollers=PollerChooser(self.circumstances),
            policy=CallbackPolicy(network=NetworkPolicy(), encryption=NoEncryption()),
            clock=self.circumstances,
        )

    def context(self, schedules: Any, balances: Any) -> MinuteContext:
        unused: Any = None
        letters: Any = Port("dead_letters")
        books = Bookkeeper(
            balances=balances,
            dead_letters=letters,
            attempts=unused,
            clock=self.circumstances,
            spawn=unused,
        )
        return MinuteContext(
            runtime=NodeRuntime(
                clock=self.circumstances,
                randomness=self.circumstances,
                spawn=unused,
                budget=unused,
                trusted=lambda: self.trusted,
                on_fault=unused,
            ),
            schedules=schedules,
            writer=self.writer,
            clients=unused,
            dispatcher=unused,
            notices=unused,
            node_events=unused,
            fire_guard=CronFireGuard(crons=unused, schedules=schedules),
            books=books,
            limits=MinuteLimits(MinuteSettings()),
            breaker_longest_seconds=300.0,
            recount=lambda partition, epoch: None,
            events=None,
            ends=None,
        )

    def enter(self, state: State) -> None:
        """Load a state's tables into the store."""
        self.store.load(state.tables)

    def leave(self, state: State) -> None:
        """Save the store's tables into the state."""
        state.tables = self.store.save()
        state.tables_key = fingerprint(state.tables)


def change_owner(state: State, epoch: int, **changes: Any) -> None:
    state.owners[epoch] = replace(state.owners[epoch], **changes)


def machine_name(at: At) -> str:
    return f"incarnation {at[0]} in minute {at[1] - FIRST_MINUTE}"
