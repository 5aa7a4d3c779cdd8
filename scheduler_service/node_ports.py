"""Requests to one node's own port: an operator's drains, what became of a destination's calls, who is held back."""

import ssl
from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec
from aiohttp import ClientError, ClientSession, ClientTimeout

from membership.identity import NodeIncarnation
from scheduler_service.domain.call_figures import CallFigures
from scheduler_service.domain.destination_figures import NodeFigures
from scheduler_service.domain.errors import Conflict, NodeUnreachable
from scheduler_service.domain.ids import ClientId
from scheduler_service.usecases.members import node_headers, url_of

T = TypeVar("T")
TIMEOUT_SECONDS = 3.0
"""Below the API's own time limit, so that its caller is told which node did not answer."""
MAX_ANSWER_BYTES = 1 << 20
"""Calls of a thousand clients take a tenth of it."""
_CONFLICTS: Final = {
    "last-node": (
        "last-node",
        "no other node takes pollers, so no calls would be made; start another, or force it",
    ),
    "stopping": ("node-stopping", "the node is being stopped: it can't take pollers again"),
}
"""Kind and sentence of a conflict, by the reason in the node's answer."""


class HttpNodePorts:
    """Sends requests to one node's own port, with the cluster's token.

    Each request names the incarnation that is meant: another process may have taken over the address, and must not act
    on it.

    A `domain.ports.NodePorts`. Each call opens its own connection, as calls are rare.
    """

    def __init__(self, *, token: str, tls: ssl.SSLContext | None = None) -> None:
        """`tls`: how nodes that speak TLS are checked. None: against the system's authorities."""
        self._tls: ssl.SSLContext | bool = tls or True
        self._token = token

    async def drain(self, incarnation: NodeIncarnation, *, address: str, force: bool) -> None:
        await self._tell(incarnation, address, "/drain", force=force)

    async def undrain(self, incarnation: NodeIncarnation, *, address: str) -> None:
        await self._tell(incarnation, address, "/undrain")

    async def destination_figures(
        self, incarnation: NodeIncarnation, client_id: ClientId, name: str, *, address: str
    ) -> NodeFigures:
        told = await self._tell(incarnation, address, "/destination", client_id=client_id, name=name)
        return _figures(told, NodeFigures, incarnation, address)

    async def call_figures(self, incarnation: NodeIncarnation, *, address: str) -> CallFigures:
        return _figures(await self._tell(incarnation, address, "/calls"), CallFigures, incarnation, address)

    async def held_back(
        self, incarnation: NodeIncarnation, client_ids: Sequence[ClientId], *, address: str
    ) -> Sequence[ClientId]:
        told = await self._tell(incarnation, address, "/held-back", client_ids=client_ids)
        try:
            return [client_ids[position] for position in msgspec.json.decode(told, type=list[int])]
        except (msgspec.DecodeError, IndexError) as error:
            raise NodeUnreachable(f"node {incarnation.node_id} answered no clients at {address}") from error

    async def _tell(
        self, incarnation: NodeIncarnation, address: str, path: str, **more: bool | str | Sequence[str]
    ) -> bytes:
        node_id, number = incarnation
        body = msgspec.json.encode({"node_id": node_id, "incarnation": number, **more})
        try:
            async with (
                ClientSession(
                    headers=node_headers(self._token), timeout=ClientTimeout(total=TIMEOUT_SECONDS), trust_env=False
                ) as session,
                session.post(f"{url_of(address)}{path}", data=body, ssl=self._tls) as answer,
            ):
                status, told = answer.status, bytearray()
                while part := await answer.content.read(MAX_ANSWER_BYTES + 1 - len(told)):
                    told += part
        except (ClientError, TimeoutError, OSError, ValueError) as error:
            raise NodeUnreachable(f"node {node_id} does not answer at {address}") from error
        if status == 409 and (reason := _reason(told)) in _CONFLICTS:
            raise Conflict(*_CONFLICTS[reason])
        if status == 409:
            # A node also answers 409 when it is not the incarnation that is meant.
            raise NodeUnreachable(f"another process than node {node_id}'s answers at {address}")
        if status == 401:
            raise NodeUnreachable(f"node {node_id} refuses this API's cluster token: both must have the same")
        if status >= 300:
            raise NodeUnreachable(f"node {node_id} answered {status} at {address}")
        if len(told) > MAX_ANSWER_BYTES:
            raise NodeUnreachable(f"node {node_id} answered more than {MAX_ANSWER_BYTES} bytes at {address}")
        return bytes(told)


def _figures(told: bytes, type_: type[T], incarnation: NodeIncarnation, address: str) -> T:
    try:
        return msgspec.json.decode(told, type=type_)
    except msgspec.DecodeError as error:
        raise NodeUnreachable(f"node {incarnation.node_id} answered no figures at {address}") from error


class _Refusal(msgspec.Struct):
    reason: str = ""


def _reason(told: bytes | bytearray) -> str:
    """The reason in a node's answer; empty if a process other than a node answered."""
    try:
        return msgspec.json.decode(told, type=_Refusal).reason
    except msgspec.DecodeError:
        return ""
