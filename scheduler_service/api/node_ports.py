"""Speaks to the nodes' own ports: what an operator asks of one node goes there, with the cluster's token.

A node is told which life is meant. Addresses are taken over by other processes, and those must not do what it was told.
"""

from typing import Final

import msgspec
from aiohttp import ClientError, ClientSession, ClientTimeout

from membership.identity import Life
from scheduler_service.domain.errors import Conflict, NodeUnreachable

TIMEOUT_SECONDS = 3.0
"""Below the time limit of requests, so that the caller hears which node it was."""


MAX_ANSWER_BYTES = 4_096
_CONFLICTS: Final = {
    "last-node": ("last-node", "no other node takes pollers: nobody would be called; start another one, or force it"),
    "stopping": ("node-stopping", "the node is being stopped: it takes no pollers again"),
}
"""Kind and sentence of what a node refuses, by the word that it gives as its reason."""


class HttpNodePorts:
    """`domain.ports.NodePorts`. A connection for each call: they are rare."""

    def __init__(self, *, token: str) -> None:
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    async def drain(self, life: Life, *, address: str, force: bool) -> None:
        await self._tell(life, address, "/drain", force=force)

    async def undrain(self, life: Life, *, address: str) -> None:
        await self._tell(life, address, "/undrain")

    async def _tell(self, life: Life, address: str, path: str, **more: bool) -> None:
        node_id, incarnation = life
        body = msgspec.json.encode({"node_id": node_id, "incarnation": incarnation, **more})
        try:
            async with (
                ClientSession(
                    headers=self._headers, timeout=ClientTimeout(total=TIMEOUT_SECONDS), trust_env=False
                ) as session,
                session.post(f"http://{address}{path}", data=body) as answer,
            ):
                status, told = answer.status, await answer.content.read(MAX_ANSWER_BYTES)
        except (ClientError, TimeoutError, OSError, ValueError) as error:
            raise NodeUnreachable(f"node {node_id} does not answer at {address}") from error
        if status == 409 and (reason := _reason(told)) in _CONFLICTS:
            raise Conflict(*_CONFLICTS[reason])
        if status == 409:
            raise NodeUnreachable(f"another process than node {node_id}'s answers at {address}")
        if status == 401:
            raise NodeUnreachable(f"node {node_id} does not know this API's cluster token: both need the same")
        if status >= 300:
            raise NodeUnreachable(f"node {node_id} answered {status} at {address}")


class _Refusal(msgspec.Struct):
    reason: str = ""


def _reason(told: bytes) -> str:
    """Empty where another process answered, which gives none."""
    try:
        return msgspec.json.decode(told, type=_Refusal).reason
    except msgspec.DecodeError:
        return ""
