"""Heartbeats and lives."""

from collections.abc import Sequence
from typing import Any

from cql.connection import UNSET, AnswerRows, Connection, Parameters
from membership.conditional import Answer, Applied, Rejected, Unknown
from membership.identity import Incarnation, Life, NodeId
from membership.ports import Heartbeat, LifeRecord, NodeState, ServerTime

CLUSTER = "minutehand"
"""The partition that all nodes of a keyspace are in."""
_LIVE = "live"


class CqlMemberStore:
    """`membership.ports.MemberStore` over a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def write_heartbeat(self, heartbeat: Heartbeat) -> None:
        node_id, incarnation = heartbeat.life
        parameters = (
            CLUSTER,
            node_id,
            incarnation,
            heartbeat.beat,
            heartbeat.state.value,
            heartbeat.address,
            heartbeat.wall_ms,
            heartbeat.version,
            UNSET if heartbeat.floor is None else heartbeat.floor,
            heartbeat.weight,
            heartbeat.capacity_per_minute,
            UNSET if heartbeat.system_ms is None else heartbeat.system_ms,
            heartbeat.knows,
            incarnation * 1000 + heartbeat.beat,
        )
        await self._connection.write("nodes.write", parameters)

    async def read_heartbeats(self) -> Sequence[Heartbeat]:
        return [_heartbeat(values) for values in await self._connection.select("nodes.read", (CLUSTER,))]

    async def read_server_clock(self) -> ServerTime:
        ((server, wall_ms),) = await self._connection.select("servers.read_clock", ())
        return ServerTime(str(server), wall_ms)

    async def begin_life(self, life: Life) -> Answer[LifeRecord]:
        answer = await self._connection.conditional((("lives.begin", tuple(life)),))
        if not isinstance(answer, Rejected):
            return answer
        record = _met(life, answer.current)
        return Unknown("the store rejected an insert and showed no row") if record is None else Rejected(record)

    async def renew_life(self, life: Life, *, renewals: int) -> Answer[LifeRecord | None]:
        return await self._change(life, "lives.renew", (renewals + 1, *life, renewals))

    async def declare_dead(self, life: Life, *, renewals: int) -> Answer[LifeRecord | None]:
        return await self._change(life, "lives.declare_dead", (*life, renewals))

    async def read_life(self, life: Life) -> LifeRecord | None:
        for state, renewals in await self._connection.select("lives.read", tuple(life), serial=True):
            return LifeRecord(life, state == _LIVE, renewals)
        return None

    async def _change(self, life: Life, name: str, parameters: Parameters) -> Answer[LifeRecord | None]:
        match await self._connection.conditional(((name, parameters),)):
            case Rejected(rows):
                return Rejected(_met(life, rows))
            case Applied() | Unknown() as answer:
                return answer


def _met(life: Life, rows: AnswerRows) -> LifeRecord | None:
    return LifeRecord(life, rows[0]["state"] == _LIVE, rows[0]["renewals"]) if rows else None


def _heartbeat(values: tuple[Any, ...]) -> Heartbeat:
    node_id, incarnation, beat, state, address, wall_ms, version, floor, weight, capacity, system_ms, knows = values
    return Heartbeat(
        life=Life(NodeId(node_id), Incarnation(incarnation)),
        beat=beat,
        state=NodeState(state),
        address=address,
        wall_ms=wall_ms,
        version=version,
        floor=floor,
        weight=weight,
        capacity_per_minute=capacity,
        system_ms=system_ms,
        knows=knows or 0,
    )
