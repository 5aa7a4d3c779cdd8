"""Notices of simulated clients: their subscriptions, and which events their destinations got."""

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from membership.conditional import Applied
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.domain.notices import EVENTS_CLIENT
from scheduler_service.domain.subscriptions import EventFilter, StoredSubscription, Subscription, encode_subscription
from tests.simulation.receivers import Call

if TYPE_CHECKING:
    from tests.simulation.sim_node import SimNode
    from tests.simulation.world import World

BOOK = "https://book.test/events"
"""Where the notices of these scenarios go."""


@dataclass
class Notices:
    """`got`: how often each event arrived in a call that was answered with success; `calls`: all notices sent."""

    world: "World"
    got: Counter[str] = field(default_factory=Counter)
    types: dict[str, str] = field(default_factory=dict)
    ends: dict[str, set[str]] = field(default_factory=dict)
    """The types of the events that arrived, by schedule."""
    told: dict[str, list[tuple[str, dict[str, Any]]]] = field(default_factory=dict)
    """The notices of schedules' own, as they were sent: their ids and bodies, by schedule and what they tell."""
    calls: list[Call] = field(default_factory=list)

    async def subscribe(
        self, name: str = "all", *, client: str = "shop", events: tuple[str, ...] = (), **asked: Any
    ) -> None:
        """Send these events to the destination `book`, which is made."""
        if EVENTS_CLIENT not in self.world.clients:
            await self.world.add_client(EVENTS_CLIENT, quota=4)
        await self.world.destinations.put("book", client=client, url=BOOK)
        subscription = Subscription(destination="book", events=events, filter=EventFilter(**asked))
        now = UnixMillis(self.world.now_ms())
        stored = StoredSubscription(
            client_id=ClientId(client),
            name=name,
            document=encode_subscription(subscription),
            revision=now,
            created_at=now,
            changed_at=now,
        )
        answer = await self.world.truth.subscriptions.put_subscription(stored, expected_revision=None)
        assert isinstance(answer, Applied)

    def sent(self, node: "SimNode", call: Call) -> bool:
        """Whether this call is a notice; it is checked then."""
        if call.schedule_id in self.world.asked or not call.body.startswith(b'{"client_id":'):
            return False
        if not node.node.membership_agent.trusted():
            raise self.world.violation(f"{node.name} sent a notice without trust")
        self.calls.append(call)
        if "on" in (body := msgspec.json.decode(call.body)):
            end = f"{body['events'][0]['schedule_id']} {body['on']}"
            self.told.setdefault(end, []).append((call.schedule_id, body))
            return True
        if isinstance(call.answer, int) and 200 <= call.answer <= 299:
            for event in msgspec.json.decode(call.body)["events"]:
                self.got[event["id"]] += 1
                self.types[event["id"]] = event["type"]
                self.ends.setdefault(event["schedule_id"], set()).add(event["type"])
        return True
