"""How many wake-ups of crons may be under way without delaying calls or another client's wake-ups."""

from types import SimpleNamespace
from typing import Any, cast

from poller_cluster.crons.expander import CronEngine
from poller_cluster.dispatch.receivers import Receivers
from poller_cluster.settings import ReceiverSettings
from scheduler_service.domain.crons.expansion import WAKE_UP_SCHEME
from scheduler_service.domain.crons.row import CRON_CLIENT
from scheduler_service.usecases.clients import CRON_POLLERS, CRON_SETTINGS, CRONS_AT_ONCE
from scheduler_service.usecases.expand_crons import EXPANDED_AT_ONCE


def test_one_clients_wake_ups_leave_room_for_the_others() -> None:
    receivers: Receivers[int] = Receivers(ReceiverSettings(), on_free=lambda client_id: None)
    settings = CRON_SETTINGS.effective(poller_quota=CRON_POLLERS)
    greedy, quiet = (
        receivers.of(CRON_CLIENT, WAKE_UP_SCHEME + name, settings, share=0.5) for name in ("greedy", "quiet")
    )
    while greedy.delay(0.0) is not None:
        greedy.started()
    assert EXPANDED_AT_ONCE <= greedy.in_flight < CRONS_AT_ONCE // 2, (
        "as many as one expansion takes together, and not all"
    )
    assert quiet.delay(0.0) == 0.0
    assert quiet.headroom() >= EXPANDED_AT_ONCE


def test_wake_ups_take_no_room_in_the_engine() -> None:
    calls, expander = SimpleNamespace(capacity=10, in_flight=4), SimpleNamespace(in_flight=1_000)
    engine = CronEngine(calls=cast(Any, calls), expander=cast(Any, expander))
    assert (engine.capacity, engine.in_flight) == (10, 4)
