"""The clients that are Minutehand's own, as they are created when there are none yet."""

from scheduler_service.domain.clients import ClientSettings, RetrySettings
from scheduler_service.domain.crons.row import CRON_CLIENT
from scheduler_service.usecases.clients import RegisterClient

CRON_POLLERS = 16
"""Each is guaranteed 1,000 wake-ups a minute. An administrator may change the quota."""
CRONS_AT_ONCE = 1_600
"""Over all nodes. Wake-ups are no calls: no connection is taken, and the more of them are under way, the more share
each conditional write, of the crons and of their own rows."""
CRON_SETTINGS = ClientSettings(
    retry=RetrySettings(max_attempts=100, deadline_seconds=604_800.0),
    max_in_flight=CRONS_AT_ONCE,
    retention_days=1,
)
"""A wake-up is retried for as long as anything may be, and is of no interest once it is over."""


async def create_built_in_clients(register: RegisterClient) -> None:
    """Those that are missing. Repeatable, by any number of processes at once. Raises StoreUnavailable."""
    await register.built_in(CRON_CLIENT, poller_quota=CRON_POLLERS, settings=CRON_SETTINGS)
