"""A client whose crons are changed through API processes in a random world; `simulation.crons` says what must fire."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar, cast

from scheduler_service.api.services import ApiServices
from scheduler_service.domain.crons.row import CRON_CLIENT
from scheduler_service.domain.ids import ClientId
from scheduler_service.usecases.crons import ChangeCrons
from tests.simulation.crons import Crons, Story
from tests.simulation.drawn.api import Unanswered
from tests.simulation.drawn.world import DrawnWorld

T = TypeVar("T")
OWNER = ClientId("hourly")
WAKERS = 2
RULES = ("* * * * *", "*/2 * * * *", "1-59/3 * * * *")
SEARCHED_SECONDS = 60
"""How much longer the search for crons without a wake-up takes, in addition to the time without faults."""
CRON_IDS = ("first", "second")


class DrawnCrons(Crons):
    """One caller changes the client's crons one after the other, and repeats each change until it is answered."""

    def __init__(self, world: DrawnWorld) -> None:
        super().__init__(world, client_id=OWNER)
        self._world = world
        self._turn = asyncio.Lock()
        self.change = cast(ChangeCrons, _ThroughApi(world))

    async def begin(self) -> None:
        """Start; the built-in client that wakes crons takes no requests."""
        await self._world.add_client(CRON_CLIENT, quota=WAKERS)
        del self._world.clients[CRON_CLIENT]

    async def alter(self, dice: random.Random) -> None:
        async with self._turn:
            cron_id = dice.choice(CRON_IDS)
            if cron_id not in self.stories or dice.random() < 0.4:
                await self.put(cron_id, dice.choice(RULES), spread_seconds=dice.choice((0, 5)))
            elif self.stories[cron_id].spells[-1].rule is not None:
                await self.pause(cron_id)
            else:
                await self.resume(cron_id)

    def owed(self, story: Story, until_ms: int) -> set[int]:
        """Where wake-ups are lost or no node acts, the next change may precede an expansion; fires not expanded by then
        are made if the new rule has them.
        """
        return Story(story.spells[-1:]).owed(until_ms)

    async def end(self) -> None:
        """Check the runs of all changes, then delete the crons, so that they place no more rows."""
        await self.world.advance(SEARCHED_SECONDS)
        await self.check()
        for cron_id in self.stories:
            await self.delete(cron_id)

    async def _until_answered(self, ask: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await ask()
            except Unanswered:
                await self.world.api_clock.sleep(0.5)


class _ThroughApi:
    """The verbs of `ChangeCrons`, each as one request to an API process whose clock permits it."""

    def __init__(self, world: DrawnWorld) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def ask(*arguments: object) -> object:
            async def verb(services: ApiServices) -> object:
                services.schedules.create.admit(await services.catalog.client(OWNER))
                return await getattr(services.crons.change, name)(*arguments)

            return await self._world.ask(verb)

        return ask
