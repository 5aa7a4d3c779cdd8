"""Crons and runs with defaults for what a test does not care about."""

from typing import Any
from uuid import UUID

from scheduler_service.domain.crons.row import Cron, CronCallback, CronOptions, CronProgress, CronRun, CronState
from scheduler_service.domain.ids import ClientId, CronId, PollerId, ScheduleId, UnixMillis

BEGAN = UnixMillis(1_772_000_000_123)
"""An instant in February 2026."""
CALLBACK = CronCallback(method="POST", url="https://receiver.example/hook", headers="[]", body=b"\x00\xffpayload")


def cron(client_id: ClientId, name: str = "daily", *, revision: int = 1, **other: Any) -> Cron:
    """An active cron of its first revision, not yet expanded, to be examined now."""
    values: dict[str, Any] = {
        "client_id": client_id,
        "cron_id": CronId(name),
        "expression": "30 9 * * mon-fri",
        "timezone": "Europe/Berlin",
        "callback": CALLBACK,
        "options": CronOptions(),
        "state": CronState.ACTIVE,
        "revision": revision,
        "poller_id": PollerId(3),
        "created_at": BEGAN,
        "changed_at": BEGAN,
        "expanded_through": BEGAN,
        "fires": 0,
        "swept": 0,
        "wake_at": BEGAN,
    }
    return Cron(**{**values, **other})


def progress(of: Cron, **other: Any) -> CronProgress:
    """Progress by one fire, an hour on."""
    values: dict[str, Any] = {
        "state": of.state,
        "expanded_through": UnixMillis(of.expanded_through + 3_600_000),
        "fires": of.fires + 1,
        "swept": of.revision,
        "wake_at": UnixMillis(of.expanded_through + 3_500_000),
    }
    return CronProgress(cron=of, **{**values, **other})


def run(client_id: ClientId, nominal_due: int, *, revision: int = 1, name: str = "daily") -> CronRun:
    schedule_id = ScheduleId(UUID(int=nominal_due << 16 | revision))
    return CronRun(client_id, CronId(name), UnixMillis(nominal_due), revision, schedule_id)
