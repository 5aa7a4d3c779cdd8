"""Builds a node's parts for crons: the expander, the check of fires, the overdue scan of crons."""

from collections.abc import Callable, Collection, Coroutine
from typing import Any

from poller_cluster.background_budget import BackgroundBudget
from poller_cluster.clients import ServedClients
from poller_cluster.crons.expander import Expander
from poller_cluster.crons.fire_checks import CronFireGuard
from poller_cluster.crons.overdue_scan import CronSearch
from scheduler_service.domain.clients import Client
from scheduler_service.domain.crons.row import CRON_CLIENT
from scheduler_service.domain.ids import ClientId, PollerId
from scheduler_service.domain.ports import ClientStore, CronStore, ScheduleStore
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.randomness import Randomness
from scheduler_service.usecases.cancel_schedules import CancelSchedules
from scheduler_service.usecases.expand_crons import ExpandCrons
from scheduler_service.usecases.resolve_schedule import ResolveSchedule
from scheduler_service.usecases.schedule_writer import ScheduleWriter


class CronWork:
    """`pollers` returns the `$cron` pollers that the node holds."""

    def __init__(
        self,
        *,
        crons: CronStore,
        clients: ClientStore,
        schedules: ScheduleStore,
        writer: ScheduleWriter,
        served: ServedClients,
        pollers: Callable[[], Collection[PollerId]],
        trusted: Callable[[], bool],
        budget: BackgroundBudget,
        clock: Clock,
        randomness: Randomness,
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
        on_fault: Callable[[str, BaseException], None],
    ) -> None:
        self._served = served
        self.expand = ExpandCrons(
            crons=crons,
            clients=clients,
            known=self._known,
            writer=writer,
            resolve=ResolveSchedule(schedules=schedules, writer=writer),
            cancel=CancelSchedules(schedules=schedules, writer=writer, clock=clock),
            clock=clock,
            on_fault=on_fault,
        )
        self.expander = Expander(expand=self.expand, clock=clock, randomness=randomness, spawn=spawn, on_fault=on_fault)
        self.children = CronFireGuard(crons=crons, schedules=schedules)
        self.search = CronSearch(
            crons=crons,
            expand=self.expand,
            clients=served.all,
            pollers=pollers,
            quota=self._quota,
            trusted=trusted,
            budget=budget,
            clock=clock,
            on_fault=on_fault,
        )

    def _known(self, client_id: ClientId) -> Client | None:
        client = self._served.get(client_id)
        return None if client is None else client.record

    def _quota(self) -> int:
        client = self._served.get(CRON_CLIENT)
        return 0 if client is None else client.quota
