"""What a node needs for reconciliations, put together."""

from collections.abc import Callable, Collection, Coroutine
from typing import Any

from poller_cluster.background_budget import BackgroundBudget
from poller_cluster.clients import Tenants
from poller_cluster.reconciliation import Reconciler
from poller_cluster.settings import ReconciliationSettings
from scheduler_service.domain.ids import ClientId, PollerId
from scheduler_service.domain.ports import AttemptStore, ReconciliationStore, ScheduleStore
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.randomness import Randomness
from scheduler_service.usecases.cancel_schedules import CancelSchedules
from scheduler_service.usecases.edit_schedule import EditSchedule
from scheduler_service.usecases.place import Place
from scheduler_service.usecases.reconcile import Reconcile
from scheduler_service.usecases.redeliver import RedeliverSchedule


def build_reconciler(
    *,
    store: ReconciliationStore,
    schedules: ScheduleStore,
    attempts: AttemptStore,
    place: Place,
    tenants: Tenants,
    lanes: Callable[[ClientId], Collection[PollerId]],
    trusted: Callable[[], bool],
    budget: BackgroundBudget,
    clock: Clock,
    randomness: Randomness,
    settings: ReconciliationSettings,
    spawn: Callable[[Coroutine[Any, Any, None], str], object],
    on_fault: Callable[[str, BaseException], None],
) -> Reconciler:
    """`lanes` answers the lanes of a client that the node holds."""
    edit = EditSchedule(schedules=schedules, place=place, clock=clock, randomness=randomness)
    return Reconciler(
        store=store,
        reconcile=Reconcile(
            store=store,
            schedules=schedules,
            redeliver=RedeliverSchedule(
                schedules=schedules, attempts=attempts, place=place, clock=clock, randomness=randomness
            ),
            cancel=CancelSchedules(schedules=schedules, edit=edit, clock=clock, randomness=randomness),
            clock=clock,
            on_fault=on_fault,
        ),
        tenant=tenants.get,
        lanes=lanes,
        trusted=trusted,
        budget=budget,
        clock=clock,
        randomness=randomness,
        settings=settings,
        spawn=spawn,
        on_fault=on_fault,
    )
