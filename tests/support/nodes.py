"""Nodes, as the API sees them in storage."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Self

from membership.conditional import APPLIED
from membership.identity import IncarnationNumber, NodeId, NodeIncarnation, PollerKey
from membership.ports import Heartbeat, LeaseRow, NodeState
from scheduler_service.domain.destination_figures import NodeFigures
from scheduler_service.domain.ids import ClientId, Partition, RowKey
from tests.support.api import ApiHarness


class Nodes:
    """Nodes as their rows show them; `beat` advances the clock by a second and lets the given incarnations beat."""

    def __init__(self, api: ApiHarness) -> None:
        self.api = api
        self.rows: dict[NodeIncarnation, Heartbeat] = {}

    async def add(self, name: str, number: int = 7, **values: Any) -> NodeIncarnation:
        incarnation = NodeIncarnation(NodeId(name), IncarnationNumber(number))
        await self.api.storage.members.begin_incarnation(incarnation)
        known: dict[str, Any] = {
            "state": NodeState.LIVE,
            "address": f"{name}:1",
            "version": "0.1.0",
            "low_watermark": None,
        }
        known |= {"capacity_per_minute": 5_000, "wall_ms": self.api.clock.wall_ms()}
        self.rows[incarnation] = Heartbeat(incarnation=incarnation, beat=1, **{**known, **values})
        await self.api.storage.members.write_heartbeat(self.rows[incarnation])
        return incarnation

    async def beat(self, *incarnations: NodeIncarnation, seconds: int = 1, offset_ms: int = 0, **values: Any) -> None:
        for _ in range(seconds):
            self.api.clock.advance(1.0)
            for incarnation in incarnations:
                old = self.rows[incarnation]
                wall_ms = self.api.clock.wall_ms() + offset_ms
                self.rows[incarnation] = replace(old, beat=old.beat + 1, wall_ms=wall_ms, **values)
                await self.api.storage.members.write_heartbeat(self.rows[incarnation])
            await self.api.members.look()

    async def own(self, poller: PollerKey, owner: NodeIncarnation | None, **values: Any) -> None:
        row = await self.api.storage.leases.read_lease(poller)
        assert row is not None
        new = LeaseRow(
            **{
                "poller": poller,
                "owner": owner,
                "epoch": row.epoch + 1,
                "watermark": row.watermark,
                "lagging": False,
                **values,
            }
        )
        assert await self.api.storage.leases.write_lease(expected=row, new=new) == APPLIED


class UnaskedNode:
    """The node behind a port, for tests that ask it nothing; what they ask, they define."""

    incarnation = NodeIncarnation(NodeId("one"), IncarnationNumber(1))

    @property
    def pollers(self) -> Self:
        return self

    @property
    def hand_over(self) -> Self:
        return self

    @property
    def destinations(self) -> Self:
        return self

    def figures(self, client_id: ClientId, name: str) -> NodeFigures:
        raise AssertionError("it was asked for figures")

    def held_back(self) -> Collection[ClientId]:
        raise AssertionError("it was asked who is held back")

    def hinted(self, hints: Sequence[tuple[Partition, RowKey | None]]) -> None:
        raise AssertionError("it was told of rows")

    async def ask(self, *, force: bool) -> None:
        raise AssertionError("it was told to drain")

    def take_back(self) -> bool:
        raise AssertionError("it was told to take pollers again")
