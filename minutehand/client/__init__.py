"""Speak to Minutehand's API from Python, in a plain or in an asynchronous program.

    with Minutehand("http://127.0.0.1:8080", key) as api:
        shop = api.client("shop")
        expire = Callback(url="https://shop.example/hooks/expire", json={"order": 17})
        schedule = shop.schedules.create(expire, delay_seconds=90)
        shop.schedules.cancel(schedule.schedule_id)
        print(shop.test_call(expire).status)  # one trial call, now, to see what the receiver makes of it
        shop.crons.put("nightly", expire, expression="30 2 * * *", timezone="Europe/Berlin")

`AsyncMinutehand` has the same methods to be awaited. A client's key reaches that client only; `api.clients` and the
keys and signing secrets of clients need an administrator's, and so do `api.cluster()`, `api.nodes` and
`api.audit_log()`.

Errors: `MinutehandApiError` when the API refuses (it carries the problem document), `MinutehandUnreachable` when there
was no answer that could be read; what got none may have taken effect. Values are plain and frozen; fields that a newer
server adds are ignored.

What can be repeated harmlessly is: reads, PUT and DELETE, creates (create, create_batch, bulk), and what goes under an
`Idempotency-Key` (redeliver, reschedule, reconciliations.create). It is sent again when there was no answer, and after
429 and 503, with growing pauses and jitter, Retry-After honoured: `Minutehand(..., retries=4,
retry_deadline_seconds=60)`. Everything else is sent once, `health()` too, unless it was answered 429: then nothing was
done.

Creates carry a token of which the API makes the same schedules each time, and keeps nothing, so they take no
conditional write. The first create of a connection for a client, and one after ten quiet minutes, goes under an
`Idempotency-Key` of its own instead, as its answer, unless it took longer than a second, says what tokens are made of.
A repeat is answered as the first would have been, whatever has become of the schedule since; it is judged once more, so
settings changed meanwhile may refuse what was made. A token is good for 15 minutes, and while the client's quota is not
cut: later a repeat may end in MinutehandApiError of kind `once-refused`, and then the schedule may have been made or
not. So it may after MinutehandUnreachable, also where only nodes of a version that knows no tokens were left to ask.

With an `idempotency_key` of yours the same arguments under the same key do nothing twice within 24 hours, also after a
restart of your program; a repeat shows what has become of the schedule, completes a batch of which some items could not
be stored, and is refused when it asks for something else. It costs the API a conditional write, several times a create.
With `retries=0` there is neither token nor key.

This package imports nothing of the server and needs httpx, msgspec and sniffio only.
"""

from minutehand.client._async.api import AsyncMinutehand
from minutehand.client._async.bulk import AsyncBulk
from minutehand.client._async.client_scope import AsyncClientScope
from minutehand.client._audits import Audit, AuditCounts, AuditFinding
from minutehand.client._bulk import BulkItem
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
    HealthReason,
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
from minutehand.client._outcomes import Attempt, AuditEntry, CancelItem, DeadLetter, Exchange, Redriven, TrialCallTimes
from minutehand.client._reconciliations import Reconciliation, ReconciliationProgress
from minutehand.client._settings import ClientSettings, DestinationLimit, LatePolicy, RetrySettings
from minutehand.client._sync.api import Minutehand
from minutehand.client._sync.bulk import Bulk
from minutehand.client._sync.client_scope import ClientScope
from minutehand.client._usage import DayUsage, FailingHost, HourUsage, UsedLateness

__all__ = [
    "AsyncBulk",
    "AsyncClientScope",
    "AsyncMinutehand",
    "Attempt",
    "Audit",
    "AuditCounts",
    "AuditEntry",
    "AuditFinding",
    "BatchItem",
    "Bulk",
    "BulkItem",
    "Callback",
    "CancelItem",
    "Client",
    "ClientScope",
    "ClientSettings",
    "Cluster",
    "Cron",
    "CronPreview",
    "CronRun",
    "DayUsage",
    "DeadLetter",
    "DestinationLimit",
    "DrainingNode",
    "Dst",
    "Exchange",
    "FailingHost",
    "Fault",
    "Health",
    "HealthReason",
    "HourUsage",
    "Key",
    "LatePolicy",
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
    "RetrySettings",
    "Schedule",
    "SentCallback",
    "SigningSecret",
    "TrialCallTimes",
    "UsedLateness",
]
