"""One client's backlog leaves slots to the others."""

import asyncio

import pytest

from poller_cluster.recovery_slots import RecoverySlots, per_client


async def turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize(("slots", "most"), [(1, 1), (2, 1), (3, 1), (4, 2), (9, 4)])
def test_a_client_may_hold_half(slots: int, most: int) -> None:
    assert per_client(slots) == most


async def test_a_backlog_leaves_room_for_another_client() -> None:
    node = asyncio.Semaphore(4)
    hog, other = (RecoverySlots(node=node, client=asyncio.Semaphore(per_client(4))) for _ in range(2))
    waiting = [asyncio.ensure_future(hog.acquire()) for _ in range(10)]
    await turn()
    assert sum(task.done() for task in waiting) == 2
    async with asyncio.timeout(1):
        await other.acquire()
    hog.release()
    await turn()
    assert sum(task.done() for task in waiting) == 3
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_who_gives_up_waiting_keeps_nothing() -> None:
    node, own = asyncio.Semaphore(1), asyncio.Semaphore(1)
    slots = RecoverySlots(node=node, client=own)
    await node.acquire()
    waiting = asyncio.ensure_future(slots.acquire())
    await turn()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert not own.locked()
