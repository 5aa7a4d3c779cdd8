"""One state of the explored world: cheap to copy, compared by fingerprint."""

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from poller_cluster.dispatch.job import Claim
from poller_cluster.minute.follow_ups import FollowUps
from poller_cluster.minute.machine import PollerMinute
from poller_cluster.minute.partition import KnownHeader, PartitionScan, RescanThrottle
from poller_cluster.minute.rows import PendingRow, PendingRows
from poller_cluster.minute.steps import Step
from scheduler_service.domain.books import Tally
from scheduler_service.domain.ids import Minute, Partition, RowKey
from tests.simulation.explorer.scene import FIRST_MINUTE
from tests.simulation.explorer.store import Tables
from tests.simulation.explorer.tasks import Task

PARTS = (PollerMinute, PendingRows, PendingRow, FollowUps, Tally, KnownHeader, PartitionScan, RescanThrottle)


@dataclass(frozen=True)
class Owner:
    """An incarnation that holds the poller, or held it. `passed`: minutes it has settled or passed over as empty."""

    epoch: int
    alive: bool = True
    trusted: bool = True
    draining: bool = False
    released: bool = False
    start: Minute = FIRST_MINUTE
    passed: frozenset[Minute] = frozenset()
    outbox: tuple[tuple[Minute, Claim], ...] = ()

    def position(self) -> Minute:
        """The oldest minute not passed, where a new owner begins."""
        minute = self.start
        while minute in self.passed:
            minute = Minute(minute + 1)
        return minute


@dataclass(frozen=True)
class Call:
    """One request that reached the receiver."""

    number: int
    attempt: int
    epoch: int
    in_doubt: bool
    url: str


@dataclass
class State:
    """Holds values only, which states share; a machine is copied before it is changed."""

    tick: int = 0
    losses: int = 0
    writer_crashes: int = 0
    tables: Tables = field(default_factory=dict)
    tables_key: int = 0
    owners: dict[int, Owner] = field(default_factory=dict)
    machines: dict[tuple[int, Minute], PollerMinute] = field(default_factory=dict)
    machine_keys: dict[tuple[int, Minute], int] = field(default_factory=dict)
    busy: dict[tuple[int, Minute], tuple[Step, tuple[Any, ...]]] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)
    hints: frozenset[tuple[Partition, RowKey]] = frozenset()
    calls: tuple[Call, ...] = ()
    acknowledged: frozenset[int] = frozenset()
    cancelled: frozenset[int] = frozenset()
    redelivered: frozenset[int] = frozenset()
    updated: frozenset[int] = frozenset()
    refused: frozenset[int] = frozenset()
    """Whose updates were answered that they are made, or that they are not and will not be."""

    def copied(self) -> "State":
        return replace(
            self,
            owners=dict(self.owners),
            machines=dict(self.machines),
            machine_keys=dict(self.machine_keys),
            busy=dict(self.busy),
            tasks=dict(self.tasks),
        )

    def own_machine(self, at: tuple[int, Minute]) -> PollerMinute:
        """A copy of the machine that belongs to this state alone."""
        machine: PollerMinute = _copied(self.machines[at], {})
        self.machines[at] = machine
        return machine

    def fingerprint(self) -> int:
        return hash(
            (
                self.tick,
                self.losses,
                self.writer_crashes,
                self.tables_key,
                tuple(sorted((epoch, _frozen(vars(owner))) for epoch, owner in self.owners.items())),
                tuple(sorted(self.machine_keys.items())),
                tuple(sorted((at, repr(waiting)) for at, waiting in self.busy.items())),
                tuple(sorted(task.fingerprint() for task in self.tasks.values())),
                self.hints,
                self.calls,
                self.acknowledged,
                self.cancelled,
                self.redelivered,
                self.updated,
                self.refused,
            )
        )


def machine_key(machine: PollerMinute) -> int:
    return hash(_frozen(machine))


def _shape(kind: Any) -> str:
    """How values of a type are copied and frozen; cached by type."""
    if issubclass(kind, PARTS):
        return "part" if hasattr(kind, "__slots__") else "object"
    if kind in (dict, list, tuple, set):
        return str(kind.__name__)
    if kind.__eq__ is object.__eq__ and not issubclass(kind, (Enum, type(None))):
        raise TypeError(f"{kind.__name__} changes: states can't share it unless PARTS says how to copy it")
    return "value" if kind.__hash__ is not None else "other"


class _Shapes(dict[type, str]):
    def __missing__(self, kind: type) -> str:
        shape = self[kind] = _shape(kind)
        return shape


_SHAPES = _Shapes()


def _copied(value: Any, twins: dict[int, Any]) -> Any:
    kind: Any = type(value)
    match _SHAPES[kind]:
        case "value" | "other":
            return value
        case "tuple":
            return tuple([_copied(each, twins) for each in value]) if value else value
        case "list":
            return [_copied(each, twins) for each in value]
        case "dict":
            return {_copied(key, twins): _copied(each, twins) for key, each in value.items()}
        case "set":
            return set(value)
        case shape:
            twin = twins.get(id(value))
            if twin is None:
                twin = twins[id(value)] = kind.__new__(kind)
                names = value.__slots__ if shape == "part" else value.__dict__
                for name in names:
                    setattr(twin, name, _copied(getattr(value, name), twins))
            return twin


def _frozen(value: Any) -> Any:
    match _SHAPES[type(value)]:
        case "value":
            return value
        case "tuple" | "list":
            return tuple([_frozen(each) for each in value])
        case "dict":
            return tuple([(_frozen(key), _frozen(each)) for key, each in value.items()])
        case "set":
            return frozenset(value)
        case "part":
            return tuple([_frozen(getattr(value, name)) for name in value.__slots__])
        case "object":
            return tuple([_frozen(each) for each in value.__dict__.values()])
        case _:
            return repr(value)
