"""Minutehand's SDK for Python, synchronous and asynchronous.

    with Minutehand("http://127.0.0.1:8080", key) as api:
        shop = api.client("shop")
        expire = Callback(url="https://shop.example/hooks/expire", json={"order": 17})
        schedule = shop.schedules.create(expire, delay_seconds=90)
        shop.schedules.cancel(schedule.schedule_id)
        print(shop.trial_call(expire).status)  # one call, sent now, to see how the receiver answers
        shop.crons.put("nightly", expire, expression="30 2 * * *", timezone="Europe/Berlin")

`AsyncMinutehand` has the same methods as coroutines. A client's key gives access to that client only; `api.clients`,
the keys and signing secrets of clients, `api.cluster()`, `api.nodes` and `api.audit_log()` need an administrator's key.

Errors: `MinutehandApiError` when the API refuses (it carries the problem document; its subclasses, such as `NotFound`
and `Conflict`, are those of single statuses), `MinutehandUnreachable` when there was no readable answer; such a request
may have taken effect. Values are plain and frozen; fields that a newer server adds are ignored.

Retries. Reads, PUT and DELETE, creates (create, create_batch, bulk) and requests under an `Idempotency-Key` (redeliver,
reschedule, update, run, crons.trigger, reconciliations.create) are safe to repeat, and so is reschedule_window, of
which the API recognises a repeat. They are sent again when there was no answer, and after 429 and 503, with growing
pauses, jitter and Retry-After: `Minutehand(..., retries=4, retry_deadline_seconds=60)`.
Everything else, and `health()`, is sent once, unless it was answered 429: then nothing was done.

Creates carry a token from which the API derives the same schedules each time. It stores nothing for it, so these
creates take no conditional write. The first create of a connection for a client, and one after ten quiet minutes,
carries an `Idempotency-Key` instead: its answer, unless it took longer than a second, holds what tokens are made of. A
repeat is answered as the first request would have been, whatever has become of the schedule since; it is validated
again, so settings changed meanwhile may refuse it although the first was accepted. A token is valid for 15 minutes, and
while the client's quota is not cut: later a repeat may end in MinutehandApiError of kind `once-refused`, and the
schedule may or may not exist. The same holds after MinutehandUnreachable, also where only API processes of a version
without tokens were left to ask.

With an `idempotency_key` of the caller's, the same arguments under the same key take effect once within 24 hours, also
across a restart of the program; a repeat shows the schedule's present state, completes a batch of which some items
could not be stored, and is refused when its content differs. It costs the API a conditional write, several times a
create. With `retries=0` neither token nor key is sent.

This package imports nothing of the server and needs httpx, msgspec and sniffio only.
"""

from minutehand.client._async.api import AsyncMinutehand
from minutehand.client._async.bulk import AsyncBulk
from minutehand.client._async.client_scope import AsyncClientScope
from minutehand.client._audits import Audit, AuditCounts, AuditFinding, LatestAudit, LatestAudits
from minutehand.client._backlog import Backlog, BacklogPolicy, ClusterBacklog, Overdue, OverdueAges
from minutehand.client._bulk import BulkItem
from minutehand.client._destinations import (
    ClientCertificate,
    CloudEvents,
    Destination,
    DestinationFigures,
    ForwardProxy,
    NewClientCertificate,
    NewDestination,
    NewForwardProxy,
    NewTokenSource,
    TokenSource,
)
from minutehand.client._errors import (
    Conflict,
    Forbidden,
    InvalidRequest,
    MinutehandApiError,
    MinutehandClientError,
    MinutehandUnreachable,
    NotFound,
    PreconditionFailed,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from minutehand.client._events import Event
from minutehand.client._filters import ContentFilter, ScheduleFilter
from minutehand.client._forecast import Forecast, ForecastMinute, ForecastPeak, ForecastRun
from minutehand.client._models import (
    Ack,
    AdminKey,
    BatchItem,
    Calendar,
    Callback,
    CallbackUpdate,
    Client,
    Cluster,
    Cron,
    CronPause,
    CronPreview,
    CronRun,
    DrainingNode,
    Dst,
    Fault,
    Health,
    HealthReason,
    Key,
    Lateness,
    LocalTime,
    MinuteBalance,
    NewAdminKey,
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
    PublicKey,
    Retry,
    Schedule,
    SentCallback,
    SigningSecret,
)
from minutehand.client._outcomes import (
    Acknowledged,
    AcknowledgedItem,
    Acknowledgement,
    Attempt,
    AuditEntry,
    BackfillItem,
    CancelItem,
    CronChange,
    DeadLetter,
    Exchange,
    Redriven,
    RedrivenItem,
    RescheduleItem,
    TrialCallTimes,
)
from minutehand.client._overdue_rate import OverdueRate
from minutehand.client._recent_calls import CallingClient, LateCalls, RecentCalls
from minutehand.client._reconciliations import (
    ReconciledHour,
    ReconciledSchedule,
    Reconciliation,
    ReconciliationProgress,
    ReconciliationsUnderWay,
)
from minutehand.client._settings import (
    ClientSettings,
    FlowLimits,
    FlowRules,
    HostLimit,
    LatePolicy,
    OwnSettings,
    RetrySettings,
)
from minutehand.client._stories import Story, StoryStep
from minutehand.client._subscriptions import EventFilter, NewSubscription, Subscription
from minutehand.client._sync.api import Minutehand
from minutehand.client._sync.bulk import Bulk
from minutehand.client._sync.client_scope import ClientScope
from minutehand.client._usage import DayUsage, FailingHost, HourUsage, UsedLateness

__all__ = [
    "Ack",
    "Acknowledged",
    "AcknowledgedItem",
    "Acknowledgement",
    "AdminKey",
    "AsyncBulk",
    "AsyncClientScope",
    "AsyncMinutehand",
    "Attempt",
    "Audit",
    "AuditCounts",
    "AuditEntry",
    "AuditFinding",
    "BackfillItem",
    "Backlog",
    "BacklogPolicy",
    "BatchItem",
    "Bulk",
    "BulkItem",
    "Calendar",
    "Callback",
    "CallbackUpdate",
    "CallingClient",
    "CancelItem",
    "Client",
    "ClientCertificate",
    "ClientScope",
    "ClientSettings",
    "CloudEvents",
    "Cluster",
    "ClusterBacklog",
    "Conflict",
    "ContentFilter",
    "Cron",
    "CronChange",
    "CronPause",
    "CronPreview",
    "CronRun",
    "DayUsage",
    "DeadLetter",
    "Destination",
    "DestinationFigures",
    "DrainingNode",
    "Dst",
    "Event",
    "EventFilter",
    "Exchange",
    "FailingHost",
    "Fault",
    "FlowLimits",
    "FlowRules",
    "Forbidden",
    "Forecast",
    "ForecastMinute",
    "ForecastPeak",
    "ForecastRun",
    "ForwardProxy",
    "Health",
    "HealthReason",
    "HostLimit",
    "HourUsage",
    "InvalidRequest",
    "Key",
    "LateCalls",
    "LatePolicy",
    "Lateness",
    "LatestAudit",
    "LatestAudits",
    "LocalTime",
    "MinuteBalance",
    "Minutehand",
    "MinutehandApiError",
    "MinutehandClientError",
    "MinutehandUnreachable",
    "NewAdminKey",
    "NewClientCertificate",
    "NewCron",
    "NewDestination",
    "NewForwardProxy",
    "NewKey",
    "NewSchedule",
    "NewSigningSecret",
    "NewSubscription",
    "NewTokenSource",
    "Node",
    "NotFound",
    "Overdue",
    "OverdueAges",
    "OverdueRate",
    "OwnSettings",
    "Page",
    "Poller",
    "PollerCounts",
    "PollerOwner",
    "PreconditionFailed",
    "Problem",
    "PublicKey",
    "RecentCalls",
    "ReconciledHour",
    "ReconciledSchedule",
    "Reconciliation",
    "ReconciliationProgress",
    "ReconciliationsUnderWay",
    "Redriven",
    "RedrivenItem",
    "RescheduleItem",
    "Retry",
    "RetrySettings",
    "Schedule",
    "ScheduleFilter",
    "SentCallback",
    "SigningSecret",
    "Story",
    "StoryStep",
    "Subscription",
    "TokenSource",
    "TooManyRequests",
    "TrialCallTimes",
    "Unauthorized",
    "Unavailable",
    "UsedLateness",
]
