"""One state of the explored world: cheap to copy, compared by fingerprint."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
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
from scheduler_service.domain.waits import Waits
from tests.simulation.explorer.scene import FIRST_MINUTE
from tests.simulation.explorer.store import Tables
from tests.simulation.explorer.tasks import Task

PARTS = (PollerMinute, PendingRows, PendingRow, Waits, FollowUps, Tally, KnownHeader, PartitionScan, RescanThrottle)


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
        twin = State.__new__(State)
        twin.__dict__.update(
            self.__dict__,
            owners=dict(self.owners),
            machines=dict(self.machines),
            machine_keys=dict(self.machine_keys),
            busy=dict(self.busy),
            tasks=dict(self.tasks),
        )
        return twin

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
    """How values of a type are copied and frozen."""
    if issubclass(kind, PARTS):
        return "part" if hasattr(kind, "__slots__") else "object"
    if kind in (dict, list, tuple, set):
        return str(kind.__name__)
    if kind.__eq__ is object.__eq__ and not issubclass(kind, (Enum, type(None))):
        raise TypeError(f"{kind.__name__} changes: states can't share it unless PARTS says how to copy it")
    return "value" if kind.__hash__ is not None else "other"


def _names(kind: Any, value: Any) -> Iterable[str]:
    """The attributes of a part."""
    names: Iterable[str] = kind.__slots__ if hasattr(kind, "__slots__") else value.__dict__
    return names


Copy = Callable[[Any, dict[int, Any]], Any]
Freeze = Callable[[Any], Any]


class _Copies(dict[type, Copy | None]):
    """How values of a type are copied; None: they are shared."""

    def __missing__(self, kind: type) -> Copy | None:
        copies: dict[str, Copy] = {
            "tuple": lambda value, twins: tuple([_copied(each, twins) for each in value]) if value else value,
            "list": _copied_list,
            "dict": _copied_dict,
            "set": lambda value, twins: set(value),
            "part": _copied_part,
            "object": _copied_part,
        }
        copy = self[kind] = copies.get(_shape(kind))
        return copy


class _Freezes(dict[type, Freeze | None]):
    """How values of a type become hashable; None: they are."""

    def __missing__(self, kind: type) -> Freeze | None:
        freezes: dict[str, Freeze] = {
            "tuple": _frozen_sequence,
            "list": _frozen_sequence,
            "dict": lambda value: tuple([(_frozen(key), _frozen(each)) for key, each in value.items()]),
            "set": frozenset,
            "part": _frozen_part,
            "object": _frozen_part,
            "other": repr,
        }
        freeze = self[kind] = freezes.get(_shape(kind))
        return freeze


_COPIES = _Copies()
_FREEZES = _Freezes()


# A value that is shared is recognized where it is met: a call for each would take most of the time.


def _copied(value: Any, twins: dict[int, Any]) -> Any:
    copy = _COPIES[type(value)]
    return value if copy is None else copy(value, twins)


def _copied_list(value: list[Any], twins: dict[int, Any]) -> list[Any]:
    return [each if (copy := _COPIES[type(each)]) is None else copy(each, twins) for each in value]


def _copied_dict(value: dict[Any, Any], twins: dict[int, Any]) -> dict[Any, Any]:
    return {
        _copied(key, twins): each if (copy := _COPIES[type(each)]) is None else copy(each, twins)
        for key, each in value.items()
    }


def _copied_part(value: Any, twins: dict[int, Any]) -> Any:
    twin = twins.get(id(value))
    if twin is None:
        kind: Any = type(value)
        twin = twins[id(value)] = kind.__new__(kind)
        for name in _names(kind, value):
            held = getattr(value, name)
            copy = _COPIES[type(held)]
            setattr(twin, name, held if copy is None else copy(held, twins))
    return twin


def _frozen(value: Any) -> Any:
    freeze = _FREEZES[type(value)]
    return value if freeze is None else freeze(value)


def _frozen_sequence(value: Iterable[Any]) -> tuple[Any, ...]:
    return tuple([each if (freeze := _FREEZES[type(each)]) is None else freeze(each) for each in value])


def _frozen_part(value: Any) -> tuple[Any, ...]:
    return _frozen_sequence([getattr(value, name) for name in _names(type(value), value)])
