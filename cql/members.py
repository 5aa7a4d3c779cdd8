"""Heartbeats, incarnations and the servers' clocks: the tables `nodes`, `lives` and `system.local`."""

from collections.abc import Sequence
from typing import Any

from cql.connection import UNSET, AnswerRows, Connection, Parameters
from membership.conditional import Answer, Applied, Rejected, Unknown
from membership.identity import IncarnationNumber, NodeId, NodeIncarnation
from membership.ports import Heartbeat, IncarnationRecord, NodeState, ServerTime

CLUSTER = "minutehand"
"""The partition that holds all nodes of a keyspace."""
_LIVE = "live"


class CqlMemberStore:
    """`membership.ports.MemberStore` over a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def write_heartbeat(self, heartbeat: Heartbeat) -> None:
        node_id, incarnation = heartbeat.incarnation
        parameters = (
            CLUSTER,
            node_id,
            incarnation,
            heartbeat.beat,
            heartbeat.state.value,
            heartbeat.address,
            heartbeat.wall_ms,
            heartbeat.version,
            UNSET if heartbeat.low_watermark is None else heartbeat.low_watermark,
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

    async def begin_incarnation(self, incarnation: NodeIncarnation) -> Answer[IncarnationRecord]:
        answer = await self._connection.conditional((("lives.begin", tuple(incarnation)),))
        if not isinstance(answer, Rejected):
            return answer
        record = _met(incarnation, answer.current)
        return Unknown("the store rejected an insert and showed no row") if record is None else Rejected(record)

    async def renew_incarnation(
        self, incarnation: NodeIncarnation, *, renewals: int
    ) -> Answer[IncarnationRecord | None]:
        return await self._change(incarnation, "lives.renew", (renewals + 1, *incarnation, renewals))

    async def declare_dead(self, incarnation: NodeIncarnation, *, renewals: int) -> Answer[IncarnationRecord | None]:
        return await self._change(incarnation, "lives.declare_dead", (*incarnation, renewals))

    async def read_incarnation(self, incarnation: NodeIncarnation) -> IncarnationRecord | None:
        for state, renewals in await self._connection.select("lives.read", tuple(incarnation), serial=True):
            return IncarnationRecord(incarnation, state == _LIVE, renewals)
        return None

    async def _change(
        self, incarnation: NodeIncarnation, name: str, parameters: Parameters
    ) -> Answer[IncarnationRecord | None]:
        match await self._connection.conditional(((name, parameters),)):
            case Rejected(rows):
                return Rejected(_met(incarnation, rows))
            case Applied() | Unknown() as answer:
                return answer


def _met(incarnation: NodeIncarnation, rows: AnswerRows) -> IncarnationRecord | None:
    return IncarnationRecord(incarnation, rows[0]["state"] == _LIVE, rows[0]["renewals"]) if rows else None


def _heartbeat(values: tuple[Any, ...]) -> Heartbeat:
    node_id, incarnation, beat, state, address, wall_ms, version, low_watermark, weight, capacity, system_ms, knows = (
        values
    )
    return Heartbeat(
        incarnation=NodeIncarnation(NodeId(node_id), IncarnationNumber(incarnation)),
        beat=beat,
        state=NodeState(state),
        address=address,
        wall_ms=wall_ms,
        version=version,
        low_watermark=low_watermark,
        weight=weight,
        capacity_per_minute=capacity,
        system_ms=system_ms,
        knows=knows or 0,
    )
