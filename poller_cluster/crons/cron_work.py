"""Builds a node's parts for crons: the expander, the check of fires, the overdue scan of crons."""

from collections.abc import Awaitable, Callable

from membership.identity import NodeId
from poller_cluster.clients import ServedClients
from poller_cluster.crons.expander import Expander
from poller_cluster.crons.fire_guard import CronFireGuard
from poller_cluster.crons.overdue_scan import OverdueScan
from poller_cluster.held_pollers import HeldPollers
from poller_cluster.node_runtime import NodeRuntime
from poller_cluster.node_stores import NodeStores
from scheduler_service.domain.clients import Client
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.schedules import Definition
from scheduler_service.usecases.audit_log import AuditActions
from scheduler_service.usecases.cancel_schedules import CancelSchedules
from scheduler_service.usecases.expand_crons import ExpandCrons, Placed
from scheduler_service.usecases.pause_failing_crons import PauseFailingCrons
from scheduler_service.usecases.resolve_schedule import ResolveSchedule
from scheduler_service.usecases.schedule_writer import ScheduleWriter


class CronWork:
    """What a node does for crons."""

    def __init__(
        self,
        *,
        stores: NodeStores,
        writer: ScheduleWriter,
        clients: ServedClients,
        pollers: HeldPollers,
        node_id: NodeId,
        runtime: NodeRuntime,
        missed: Callable[[Definition], Awaitable[None]],
        placed: Placed,
    ) -> None:
        """`missed` and `placed`: as for `ExpandCrons`."""
        self._clients = clients
        cancel = CancelSchedules(
            schedules=stores.schedules, writer=writer, clock=runtime.clock, has_feed=clients.has_feed
        )
        self.expand = ExpandCrons(
            crons=stores.crons,
            clients=stores.clients,
            known=self._known,
            writer=writer,
            resolve=ResolveSchedule(schedules=stores.schedules, writer=writer),
            cancel=cancel,
            clock=runtime.clock,
            on_fault=runtime.on_fault,
            missed=missed,
            placed=placed,
        )
        self.expander = Expander(expand=self.expand, runtime=runtime)
        pause_failing = PauseFailingCrons(
            crons=stores.crons,
            schedules=stores.schedules,
            clients=stores.clients,
            known=self._known,
            writer=writer,
            audit_log=AuditActions(store=stores.audit_log, clock=runtime.clock, randomness=runtime.randomness),
            node_id=node_id,
            clock=runtime.clock,
            on_fault=runtime.on_fault,
        )
        self.fire_guard = CronFireGuard(
            crons=stores.crons, schedules=stores.schedules, cancel=cancel, pause_failing=pause_failing
        )
        self.overdue_scan = OverdueScan(
            crons=stores.crons, expand=self.expand, clients=clients, pollers=pollers, runtime=runtime
        )

    def _known(self, client_id: ClientId) -> Client | None:
        client = self._clients.get(client_id)
        return None if client is None else client.record
