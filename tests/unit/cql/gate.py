"""A connection whose requests are held until released, and waits for them."""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import pytest

from cql.connection import Consistency, Item, Parameters
from cql.group_commit import GroupCommit
from cql.memory.connection import InMemoryConnection
from cql.settings import StorageSettings
from scheduler_service.domain.schedules import Definition
from scheduler_service.runtime.lifecycle import Tasks
from tests.contract.builders import definition

DATA = "schedules.insert_definition"
INDEX = "occupied_minutes.insert"


class Gate(InMemoryConnection):
    """Holds requests until they are released; `refuse` may return an error for one."""

    def __init__(self, *, held: bool = False) -> None:
        super().__init__()
        self.sent: list[list[Item]] = []
        self.held: list[asyncio.Future[None]] = []
        self.hold = held
        self.refuse: Callable[[Sequence[Item]], Exception | None] = lambda items: None
        self.homes: dict[tuple[Any, ...], str] = {}

    async def write_batch(self, items: Sequence[Item], *, consistency: Consistency = "LOCAL_QUORUM") -> None:
        self.sent.append(list(items))
        if self.hold:
            gate = asyncio.get_running_loop().create_future()
            self.held.append(gate)
            await gate
        if error := self.refuse(items):
            raise error
        await super().write_batch(items, consistency=consistency)

    def replicas(self, name: str, parameters: Parameters) -> Hashable:
        return self.homes.get(parameters[:2])

    @property
    def data(self) -> list[list[Parameters]]:
        return [[values for _, values in items] for items in self.sent if items[0][0] == DATA]


def committer(connection: Gate, **settings: Any) -> GroupCommit:
    tasks = Tasks(lambda name, error: pytest.fail(f"{name}: {error!r}"))
    defaults = {"group_commit_delay_seconds": 0.0}
    return GroupCommit(connection, tasks=tasks, settings=StorageSettings(**{**defaults, **settings}))


async def turns(count: int = 20) -> None:
    """Let everything that is ready run."""
    for _ in range(count):
        await asyncio.sleep(0)


def start(commit: GroupCommit, *definitions: Definition) -> list[asyncio.Task[None]]:
    return [asyncio.get_running_loop().create_task(commit.insert(one)) for one in definitions]


def rows(count: int, **other: Any) -> list[Definition]:
    return [definition("shop", offset=number, tail=number, **other) for number in range(count)]


def pollers(count: int) -> list[Definition]:
    return [definition("shop", poller_id=number) for number in range(count)]


async def commit_all(connection: Gate, tasks: Sequence[asyncio.Task[None]]) -> None:
    connection.hold = False
    for gate in connection.held:
        gate.set_result(None)
    await asyncio.gather(*tasks)
