"""Speak to Minutehand's API from Python, in a plain or in an asynchronous program.

    with Minutehand("http://127.0.0.1:8080", key) as api:
        shop = api.client("shop")
        expire = Callback(url="https://shop.example/hooks/expire", json={"order": 17})
        schedule = shop.schedules.create(expire, delay_seconds=90)
        shop.schedules.cancel(schedule.schedule_id)
        shop.crons.put("nightly", expire, expression="30 2 * * *", timezone="Europe/Berlin")

`AsyncMinutehand` has the same methods to be awaited. A client's key reaches that client only; `api.clients` and the
keys and signing secrets of clients need an administrator's, and so do `api.cluster()` and `api.nodes`.

Errors: `MinutehandApiError` when the API refuses (it carries the problem document), `MinutehandUnreachable` when there
was no answer that could be read; a create without an answer may have taken effect. Nothing is repeated here. Values are
plain and frozen; fields that a newer server adds are ignored.

This package imports nothing of the server and needs httpx and msgspec only.
"""

from minutehand.client._async import AsyncClientScope, AsyncMinutehand
from minutehand.client._errors import (
    MinutehandApiError,
    MinutehandClientError,
    MinutehandUnreachable,
)
from minutehand.client._models import (
    BatchItem,
    Callback,
    Client,
    Cluster,
    Cron,
    CronPreview,
    CronRun,
    DrainingNode,
    Dst,
    Fault,
    Health,
    Key,
    Lateness,
    MinuteBalance,
    NewCron,
    NewKey,
    NewSchedule,
    NewSigningSecret,
    Node,
    Page,
    Poller,
    PollerCounts,
    PollerOwner,
    Problem,
    Retry,
    Schedule,
    SentCallback,
    SigningSecret,
)
from minutehand.client._outcomes import Attempt, CancelItem, DeadLetter, Redriven
from minutehand.client._reconciliations import Reconciliation, ReconciliationProgress
from minutehand.client._sync import ClientScope, Minutehand

__all__ = [
    "AsyncClientScope",
    "AsyncMinutehand",
    "Attempt",
    "BatchItem",
    "Callback",
    "CancelItem",
    "Client",
    "ClientScope",
    "Cluster",
    "Cron",
    "CronPreview",
    "CronRun",
    "DeadLetter",
    "DrainingNode",
    "Dst",
    "Fault",
    "Health",
    "Key",
    "Lateness",
    "MinuteBalance",
    "Minutehand",
    "MinutehandApiError",
    "MinutehandClientError",
    "MinutehandUnreachable",
    "NewCron",
    "NewKey",
    "NewSchedule",
    "NewSigningSecret",
    "Node",
    "Page",
    "Poller",
    "PollerCounts",
    "PollerOwner",
    "Problem",
    "Reconciliation",
    "ReconciliationProgress",
    "Redriven",
    "Retry",
    "Schedule",
    "SentCallback",
    "SigningSecret",
]
