"""A question to the present nodes, each on its own port: to all that beat, many at once. One that does not answer in
time, or is of a version that does not know the question, is silent."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from membership.identity import NodeId
from scheduler_service.domain.errors import NodeUnreachable
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.members import Member, WatchMembers

ASKED_AT_ONCE: Final = 32

T = TypeVar("T")


async def ask_nodes(members: WatchMembers, ask: Callable[[Member], Awaitable[T]]) -> tuple[list[T], list[NodeId]]:
    """The answers, and the nodes that were silent. `ask` raises NodeUnreachable for those."""
    asked = [one for one in members.members() if one.beats]

    async def answer(member: Member) -> list[T]:
        try:
            return [await ask(member)]
        except NodeUnreachable:
            return []

    answers = await concurrently(answer, asked, width=ASKED_AT_ONCE)
    silent = [one.incarnation.node_id for one, its in zip(asked, answers, strict=True) if not its]
    return [one for its in answers for one in its], silent
