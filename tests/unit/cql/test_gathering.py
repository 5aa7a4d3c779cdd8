"""What is asked at the same moment shares requests, and each gets its own answer."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from cql.gathering import Gathering
from membership.errors import StoreUnavailable
from scheduler_service.runtime.lifecycle import Tasks


class Server:
    """Answers ten times what is asked, when it is let."""

    def __init__(self, *, most: int = 3, in_flight: int = 1) -> None:
        self.tasks = Tasks(lambda name, error: None)
        self.requests: list[tuple[str, list[int]]] = []
        self.gathering: Gathering[str, int, int] = Gathering(
            self._send, tasks=self.tasks, most=most, in_flight=in_flight
        )
        self._under_way: list[asyncio.Future[None]] = []

    async def _send(self, place: str, asked: Sequence[int]) -> Sequence[int]:
        self.requests.append((place, list(asked)))
        self._under_way.append(asyncio.get_running_loop().create_future())
        await self._under_way[-1]
        return [10 * one for one in asked]

    def ask(self, *asked: int, place: str = "a") -> list[asyncio.Task[int]]:
        return [asyncio.get_running_loop().create_task(self.gathering.ask(place, one)) for one in asked]

    async def turns(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    async def let(self, end: Callable[[asyncio.Future[None]], None] = lambda future: future.set_result(None)) -> None:
        """End the longest request under way."""
        end(self._under_way.pop(0))
        await self.turns()


async def test_a_lone_one_is_sent_at_once_and_later_ones_gather() -> None:
    server = Server()
    first = server.ask(1)
    await server.turns()
    others = server.ask(2, 3, 4, 5, 2)
    await server.turns()
    assert server.requests == [("a", [1])]
    for _ in range(3):
        await server.let()
    assert server.requests == [("a", [1]), ("a", [2, 3, 4]), ("a", [5, 2])]
    assert await asyncio.gather(*first, *others) == [10, 20, 30, 40, 50, 20]


async def test_so_many_requests_are_under_way_for_each_place() -> None:
    server = Server(most=1, in_flight=2)
    asked = [*server.ask(1, 2, 3), *server.ask(7, place="b")]
    await server.turns()
    assert server.requests == [("a", [1]), ("a", [2]), ("b", [7])]
    for _ in range(4):
        await server.let()
    assert await asyncio.gather(*asked) == [10, 20, 30, 70]


@pytest.mark.parametrize("error", [StoreUnavailable("no answer"), ValueError("a bug")])
async def test_a_request_fails_for_all_that_it_carries_and_the_next_one_is_sent(error: Exception) -> None:
    server = Server(most=2)
    asked = server.ask(1, 2, 3)
    await server.turns()
    await server.let(lambda future: future.set_exception(error))
    await server.let()
    *failed, answered = await asyncio.gather(*asked, return_exceptions=True)
    assert [(type(one), str(one)) for one in failed] == [(type(error), str(error))] * 2
    assert (failed[0] is failed[1]) is isinstance(error, ValueError)
    assert answered == 30


async def test_what_is_cancelled_before_it_was_sent_is_not_sent() -> None:
    server = Server()
    under_way, waiting, other = server.ask(1)[0], *server.ask(2, 3)
    await server.turns()
    assert server.requests == [("a", [1, 2, 3])]
    late, later = server.ask(4, 5)
    await server.turns()
    for one in (under_way, late):
        one.cancel()
    await server.let()
    assert server.requests[1:] == [("a", [5])]
    await server.let()
    assert await asyncio.gather(waiting, other, later) == [20, 30, 50]


async def test_a_closing_store_answers_everybody() -> None:
    server = Server(most=1)
    asked = server.ask(1, 2)
    await server.turns()
    await server.tasks.close()
    answers = await asyncio.gather(*asked, *server.ask(3), return_exceptions=True)
    assert [type(one) for one in answers] == [StoreUnavailable] * 3
