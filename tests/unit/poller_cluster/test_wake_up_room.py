"""How many wake-ups of crons may be under way: as many as their client may have, and none at the cost of calls."""

from types import SimpleNamespace
from typing import Any, cast

from poller_cluster.destinations import Destinations
from poller_cluster.expander import CronEngine
from poller_cluster.settings import DestinationSettings
from scheduler_service.domain.crons.expansion import WAKE_UP_URL
from scheduler_service.domain.crons.row import CRON_CLIENT
from scheduler_service.usecases.built_in_clients import CRON_POLLERS, CRON_SETTINGS, CRONS_AT_ONCE


def test_wake_ups_are_not_bounded_like_connections() -> None:
    destinations: Destinations[int] = Destinations(DestinationSettings(), on_free=lambda client_id: None)
    settings = CRON_SETTINGS.effective(poller_quota=CRON_POLLERS)
    wake_ups = destinations.of(CRON_CLIENT, WAKE_UP_URL, settings, share=0.5)
    assert wake_ups.room() == CRONS_AT_ONCE // 2
    for _ in range(CRONS_AT_ONCE // 2):
        assert wake_ups.delay(0.0) == 0.0
        wake_ups.started()
    assert wake_ups.delay(0.0) is None


def test_wake_ups_take_no_room_in_the_engine() -> None:
    calls, expander = SimpleNamespace(capacity=10, in_flight=4), SimpleNamespace(in_flight=1_000)
    engine = CronEngine(calls=cast(Any, calls), expander=cast(Any, expander))
    assert (engine.capacity, engine.in_flight) == (10, 4)
