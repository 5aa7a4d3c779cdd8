"""Requests about windows of schedules in a random world: reconciliations and the books."""

import random

from scheduler_service.api.services import ApiServices
from scheduler_service.domain.errors import ClientSuspended, Conflict, Invalid
from scheduler_service.domain.ids import ClientId, minute_of
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.reconciliations import HANDLED, Action, Reconciliation, ReconciliationId
from scheduler_service.usecases.balance import Books, Position
from scheduler_service.usecases.reconciliations import ReconciliationRequest
from tests.simulation.drawn.api import Unanswered
from tests.simulation.drawn.world import DrawnWorld, Window

REPORTED_MS = 20 * 60_000
"""How far back the books are read."""


class Windows:
    """`asked`: the reconciliations that were acknowledged, by client."""

    def __init__(self, world: DrawnWorld) -> None:
        self.world = world
        self.asked: list[tuple[str, ReconciliationId]] = []

    async def reconcile(self, client: str, action: Action, *, start: int, end: int, dice: random.Random) -> None:
        """Request a reconciliation, under one id until it is answered."""
        states = [state for state in HANDLED[action] if dice.random() < 0.7] or [HANDLED[action][0]]
        request = ReconciliationRequest(
            start=format_instant(start), end=format_instant(end), states=states, action=action
        )
        self.world.query_of_window(Window(ClientId(client), action, start, end))
        chosen: list[ReconciliationId] = []

        async def verb(services: ApiServices) -> Reconciliation:
            known = await services.catalog.client(ClientId(client))
            requests = services.reconciliations.request
            requests.admit(known)  # a process whose clock is in doubt makes no ids
            chosen[:] = chosen or [requests.new_id()]
            return await requests.create(known, request, reconciliation_id=chosen[0], created_by=client)

        try:
            await self.world.asked_until_answered(verb)
        except (ClientSuspended, Conflict) as error:
            self.world.note("client", f"{action} for {client}: {error}")
            return
        except Invalid as error:
            # By an API's clock that is behind, the window of a skip may not be over.
            if action is not Action.SKIP:
                raise
            self.world.note("client", f"{action} for {client}: {error}")
            return
        self.world.note("client", f"{action} {chosen[0]} for {client}")
        self.asked.append((client, chosen[0]))

    async def stop(self, client: str, asked_id: ReconciliationId) -> None:
        async def verb(services: ApiServices) -> Reconciliation:
            return await services.reconciliations.request.stop(ClientId(client), asked_id)

        try:
            await self.world.asked_until_answered(verb, tries=5)
        except (Unanswered, Conflict) as error:
            self.world.note("client", f"stop {asked_id}: {error}")

    async def show_balance(self, client: str) -> None:
        """Read the books page by page; a read also stores the counts made for it."""
        now = self.world.now_ms()
        first, last = minute_of(now - REPORTED_MS), minute_of(now)
        position: Position | None = Position(first)
        while position is not None:

            async def verb(services: ApiServices, position: Position = position) -> Books:
                return await services.books.balance(ClientId(client), position=position, last=last, limit=3)

            try:
                books = await self.world.ask(verb)
            except Unanswered:
                return
            position = books.next

    async def ended(self, *, within: float) -> None:
        """With all faults over, every reconciliation ends, and its counts add up."""
        for client, asked_id in self.asked:
            found = await self._read(client, asked_id)
            for _ in range(round(within)):
                if not found.running:
                    break
                await self.world.advance(1.0)
                found = await self._read(client, asked_id)
            else:
                raise self.world.violation(f"reconciliation {asked_id} has not ended: {found}")
            seen, outcomes = sum(found.progress.seen.values()), sum(found.progress.outcomes.values())
            if seen != outcomes:
                raise self.world.violation(f"reconciliation {asked_id} has seen {seen} and counts {outcomes}: {found}")

    async def _read(self, client: str, asked_id: ReconciliationId) -> Reconciliation:
        found = await self.world.truth.reconciliations.read(ClientId(client), asked_id, serial=True)
        if found is None:
            raise self.world.violation(f"reconciliation {asked_id} was acknowledged and is not there")
        return found
