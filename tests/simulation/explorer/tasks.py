"""Runs the product's coroutines one storage operation at a time; they are forgotten, and rebuilt from their answers.

A task's whole state is the history of the answers it got, so a state of the world can be copied at will: to continue
it, the coroutine is run again through that history.
"""

import uuid
from collections.abc import Callable, Coroutine, Generator, Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from membership.conditional import Applied, Unknown
from membership.errors import StoreUnavailable
from membership.ports import Timer
from scheduler_service.domain.ids import Partition, RowKey

NOTHING: Any = object()


class Op:
    """One storage operation that a task waits for."""

    __slots__ = ("arguments", "method", "named", "port")

    def __init__(self, port: str, method: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.port = port
        self.method = method
        self.arguments = arguments
        self.named = named

    def __await__(self) -> Generator["Op", Any, Any]:
        return (yield self)

    def __repr__(self) -> str:
        return f"{self.port}.{self.method}{self.arguments}{self.named}"

    @property
    def conditional(self) -> bool:
        return self.method in ("update", "commit", "open")


class Port:
    """A store whose every method waits for the explorer."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def asked(*arguments: Any, **named: Any) -> Any:
            fixed = tuple(
                list(value) if isinstance(value, Iterable) and not _plain(value) else value for value in arguments
            )
            return await Op(self._name, method, fixed, named)

        return asked


def _plain(value: Any) -> bool:
    return isinstance(value, (tuple, list, dict, str, bytes))


class Circumstances:
    """Clock, randomness and hints of the running coroutine. Random values depend only on the task that draws them."""

    def __init__(self) -> None:
        self.at = 0
        self.drawer = ""
        self.hints: list[tuple[Partition, RowKey]] = []

    def monotonic(self) -> float:
        return self.at / 1000.0

    def wall_ms(self) -> int:
        return self.at

    def system_ms(self) -> int:
        return self.at

    def wall_trusted(self) -> bool:
        return True

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing that is explored sleeps")

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        raise AssertionError("nothing that is explored has timers")

    def uuid4(self) -> uuid.UUID:
        digest = blake2b(self.drawer.encode(), digest_size=16).digest()
        return uuid.UUID(bytes=digest, version=4)

    def fraction(self) -> float:
        return 0.5

    def bits(self, count: int) -> int:
        return self.uuid4().int & ((1 << count) - 1)

    def secret_bytes(self, count: int) -> bytes:
        return self.uuid4().bytes[:count]

    def hint(self, partition: Partition, key: RowKey) -> None:
        self.hints.append((partition, key))


@dataclass(frozen=True)
class Task:
    """`told`: the answers so far, each with the time of its arrival; `known`: their fingerprint. `waits`: the pending
    operation. `answer`: that of an operation that has taken effect and is not told yet. `writes`: conditional ones that
    were or may have been applied. `before`: this task at each earlier wait.

    A task that repeats a request is in the same state as when it first made it, except for its count of turns.
    """

    name: str
    kind: str
    argument: Any
    told: tuple[tuple[Any, int], ...] = ()
    known: int = 0
    waits: Op | None = None
    answer: Any = NOTHING
    result: Any = NOTHING
    writes: int = 0
    before: "tuple[Task, ...]" = ()

    @property
    def done(self) -> bool:
        return self.result is not NOTHING

    def fingerprint(self) -> tuple[Any, ...]:
        if self.done:
            return self.name, 0, 0, type(self.result).__name__, True
        return self.name, self.known, self.writes, self.answer is not NOTHING and repr(self.answer), self.done


Begin = Callable[[Task], Coroutine[Any, Any, Any]]


def proceed(task: Task, answer: Any, *, begin: Begin, circumstances: Circumstances, at: int) -> Task:
    """The task after one more answer (the first starts it); new hints are left in `circumstances`."""
    told = (*task.told, (answer, at))
    writes = task.writes + isinstance(answer, (Applied, Unknown))
    circumstances.drawer = f"{task.name}/{writes}"
    work = begin(task)
    waits: Op | None = None
    result: Any = NOTHING
    try:
        for value, heard_at in told:
            circumstances.at = heard_at
            circumstances.hints = []
            waits = work.throw(type(value)(*value.args)) if isinstance(value, Exception) else work.send(value)
    except StopIteration as ended:
        waits, result = None, ended.value
    except StoreUnavailable as error:
        waits, result = None, error
    finally:
        work.close()
    for earlier in task.before:
        if waits is not None and repr(earlier.waits) == repr(waits):
            return replace(earlier, writes=writes)
    known = hash((task.known, repr(answer), at))
    moved = replace(task, told=told, known=known, waits=waits, answer=NOTHING, result=result, writes=writes)
    return replace(moved, before=(*task.before, moved))
