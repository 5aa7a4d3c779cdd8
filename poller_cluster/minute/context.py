"""What every minute of a node works with."""

from collections.abc import Callable
from dataclasses import dataclass

from poller_cluster.bookkeeping import Bookkeeper
from poller_cluster.clients import ServedClients
from poller_cluster.crons.fire_guard import CronFireGuard
from poller_cluster.dispatch.dispatcher import Dispatcher
from poller_cluster.events.outcome_events import OutcomeEvents
from poller_cluster.minute.limits import MinuteLimits
from poller_cluster.node_runtime import NodeRuntime
from poller_cluster.notices.calls import NoticeCalls
from poller_cluster.notices.ends import EndNotices
from poller_cluster.notices.node_events import NodeEvents
from scheduler_service.domain.ids import ClientId, Partition
from scheduler_service.domain.ports import ScheduleStore
from scheduler_service.usecases.schedule_writer import ScheduleWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class MinuteContext:
    """What all minutes of a node share with it. `recount` asks for a minute to be counted again, under an epoch.
    `events` tells clients that have a feed; None: nobody has one. `ends` tells receivers of schedules' own."""

    runtime: NodeRuntime
    schedules: ScheduleStore
    writer: ScheduleWriter
    clients: ServedClients
    dispatcher: Dispatcher
    notices: NoticeCalls
    node_events: NodeEvents
    fire_guard: CronFireGuard
    books: Bookkeeper
    limits: MinuteLimits
    breaker_longest_seconds: float
    recount: Callable[[Partition, int], None]
    events: OutcomeEvents | None
    ends: EndNotices | None

    def feeds(self, client_id: ClientId) -> bool:
        """Whether the ends of this client's schedules are told as events."""
        return self.events is not None and self.events.wanted(client_id)
