"""Requests and answers of the API. Instants are aware datetimes, durations numbers of seconds."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, TypedDict, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

T = TypeVar("T")


class Retry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How failed attempts of one schedule are repeated. Fields left out are as in the client's settings."""

    max_attempts: int | UnsetType | None = UNSET
    base_seconds: float | UnsetType | None = UNSET
    cap_seconds: float | UnsetType | None = UNSET
    deadline_seconds: float | UnsetType | None = UNSET
    final_statuses: tuple[int, ...] | UnsetType | None = UNSET


class Ack(msgspec.Struct, frozen=True, kw_only=True):
    """The receiver may answer 202, and has `within_seconds` from then to say at the address in `Minutehand-Ack-Url`
    what became of the call."""

    within_seconds: float


class Callback(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The request to make: to a `url`, or to a `destination` of the client's with a `path` below its URL. What is left
    out then is as the destination says.

    Its body is `body`, `json` (any value of JSON, None too) or `body_base64`. Without any of them, methods that may
    have a body carry the schedule's id, due, attempt and key as JSON; "" stays empty.

    Calls with the same `flow_key` share a rate (`flow_rate` calls a second, may be below 1) and a parallelism
    (`flow_parallelism` calls at a time). What is left out is as the client's setting `flows` says.

    With `ack` a receiver may answer 202 and say later what became of the call."""

    url: str | UnsetType = UNSET
    destination: str | UnsetType = UNSET
    path: str | UnsetType = UNSET
    method: str | UnsetType = UNSET
    headers: Mapping[str, str] | UnsetType = UNSET
    body: str | UnsetType = UNSET
    json: Any = UNSET
    body_base64: bytes | UnsetType = UNSET
    flow_key: str | UnsetType = UNSET
    flow_rate: float | UnsetType = UNSET
    flow_parallelism: int | UnsetType = UNSET
    ack: Ack | UnsetType = UNSET


class CallbackUpdate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an update changes of the request to make. A `url` takes the destination away, and the other way round;
    `method` None is the destination's, or POST. `headers` are merged by name; None takes one away. A new body
    takes the old content type away; `body` None is the default body."""

    url: str | UnsetType = UNSET
    destination: str | UnsetType = UNSET
    path: str | UnsetType | None = UNSET
    method: str | UnsetType | None = UNSET
    headers: Mapping[str, str | None] | UnsetType = UNSET
    body: str | UnsetType | None = UNSET
    json: Any = UNSET
    body_base64: bytes | UnsetType = UNSET
    flow_key: str | UnsetType | None = UNSET
    flow_rate: float | UnsetType | None = UNSET
    flow_parallelism: int | UnsetType | None = UNSET


class ScheduleChanges(TypedDict, total=False):
    """What an update changes beside the instant and the callback; None takes it away."""

    label: str | None
    retry: "Retry | None"
    timeout_seconds: float | None
    skip_after_seconds: float | None
    succeed_within_seconds: float | None


class LocalTime(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The instant at which clocks in `timezone` (an IANA name) show `local`, such as 2027-03-28T02:30. When clocks
    change, a skipped time is the instant right after (`gap` shift) or refused (skip), and of a repeated one it is the
    `fold` first or second."""

    local: str
    timezone: str
    gap: str | UnsetType = UNSET
    fold: str | UnsetType = UNSET


class NewSchedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call at `due` (RFC 3339, an aware datetime, or a local time) or `delay_seconds` from now: exactly one of
    them. `window_seconds`: at some instant less than this later. `on_success` and `on_failure`: who is told of its end,
    with the receiver's answer: the name of a destination, or a URL. `succeed_within_seconds` (after the due) or
    `succeed_by`: an event `schedule.overdue` tells that it was not delivered by then."""

    callback: Callback
    due: datetime | str | LocalTime | UnsetType = UNSET
    delay_seconds: float | UnsetType = UNSET
    window_seconds: int | UnsetType = UNSET
    label: str | UnsetType = UNSET
    ordering_key: str | UnsetType = UNSET
    retry: Retry | UnsetType = UNSET
    timeout_seconds: float | UnsetType = UNSET
    skip_after_seconds: float | UnsetType = UNSET
    key: str | UnsetType = UNSET
    latest: datetime | str | UnsetType = UNSET
    on_success: str | UnsetType = UNSET
    on_failure: str | UnsetType = UNSET
    succeed_within_seconds: float | UnsetType = UNSET
    succeed_by: datetime | str | UnsetType = UNSET

    def __post_init__(self) -> None:
        if isinstance(self.due, datetime) and self.due.tzinfo is None:
            raise ValueError("due has no time zone: use datetime.now(UTC) + ..., or write its offset")


class ScheduleOptions(TypedDict, total=False):
    """The fields of `NewSchedule` beside the callback."""

    due: datetime | str | LocalTime
    delay_seconds: float
    window_seconds: int
    label: str
    ordering_key: str
    retry: Retry
    timeout_seconds: float
    skip_after_seconds: float
    latest: datetime | str
    on_success: str
    on_failure: str
    succeed_within_seconds: float
    succeed_by: datetime | str


class Dst(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a rule with fixed times of day does when clocks change: skipped times (`gap`) fire right after (shift) or
    not at all (skip), repeated ones (`fold`) the first time or both times."""

    gap: str | UnsetType = UNSET
    fold: str | UnsetType = UNSET


class Calendar(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Days off: public holidays of a `country` (and a `subdivision` of it), `dates` of your own, `weekends`. `on` says
    what happens to fires on them: skip, move-next or move-previous (to a working day)."""

    country: str | None = None
    subdivision: str | None = None
    dates: tuple[str, ...] = ()
    weekends: bool = False
    on: str = "skip"


class NewCron(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rule and the call to make at each of its fires. Instants are RFC 3339 texts or aware datetimes."""

    expression: str
    timezone: str
    callback: Callback
    dialect: str | UnsetType = UNSET
    also: Sequence[str] | UnsetType = UNSET
    excluding: Sequence[str] | UnsetType = UNSET
    calendar: Calendar | UnsetType | None = UNSET
    starts_at: datetime | str | UnsetType | None = UNSET
    ends_at: datetime | str | UnsetType | None = UNSET
    max_fires: int | UnsetType | None = UNSET
    spread_seconds: int | UnsetType = UNSET
    catch_up_seconds: float | UnsetType = UNSET
    overlap: str | UnsetType = UNSET
    dst: Dst | UnsetType = UNSET
    retry: Retry | UnsetType | None = UNSET
    timeout_seconds: float | UnsetType | None = UNSET
    label: str | UnsetType | None = UNSET
    ordering_key: str | UnsetType | None = UNSET
    pause_after_failures: int | UnsetType | None = UNSET
    on_success: str | UnsetType | None = UNSET
    on_failure: str | UnsetType | None = UNSET
    succeed_within_seconds: float | UnsetType | None = UNSET

    def __post_init__(self) -> None:
        for instant in (self.starts_at, self.ends_at):
            if isinstance(instant, datetime) and instant.tzinfo is None:
                raise ValueError("an instant has no time zone: use datetime.now(UTC), or write its offset")


class CronOptions(TypedDict, total=False):
    """The fields of `NewCron` beside the callback, the expression and its zone."""

    dialect: str
    also: Sequence[str]
    excluding: Sequence[str]
    calendar: Calendar | None
    starts_at: datetime | str | None
    ends_at: datetime | str | None
    max_fires: int | None
    spread_seconds: int
    catch_up_seconds: float
    overlap: str
    dst: Dst
    retry: Retry | None
    timeout_seconds: float | None
    label: str | None
    ordering_key: str | None
    pause_after_failures: int | None
    on_success: str | None
    on_failure: str | None
    succeed_within_seconds: float | None


class SentCallback(msgspec.Struct, frozen=True, kw_only=True):
    """A callback as the API shows it; credentials in its headers are masked. `url` is empty for one that names a
    `destination`, and `method` too if only the destination says it."""

    url: str = ""
    destination: str | None = None
    path: str | None = None
    method: str = ""
    headers: dict[str, str] | None = None
    body: str | None = None
    body_base64: bytes | None = None
    flow_key: str | None = None
    flow_rate: float | None = None
    flow_parallelism: int | None = None
    ack: Ack | None = None

    @property
    def receiver(self) -> str:
        """Where it goes, in a few words."""
        return self.url if self.destination is None else f"{self.destination}: {self.path or '/'}"


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule and its outcome so far.

    `nominal_due`: the instant that was asked for, if the call is due later. `state` is scheduled, retrying, awaiting,
    delivered, failed, cancelled or skipped; `in_flight`: a node has claimed it; `redelivered_at`: when it was last
    redelivered. `reason` in-doubt: a node stopped while it called the receiver, and the answer is unknown.
    `rescheduled_to`: it was cancelled, and that schedule is called instead. `retry`, `timeout_seconds` and
    `skip_after_seconds`: its own; None: as its client's settings say. `etag`: names it as it is now, for `if_match`;
    None in lists and where one was created.
    """

    schedule_id: str
    client_id: str
    poller_id: int
    due: datetime
    state: str
    callback: SentCallback
    created_at: datetime
    nominal_due: datetime | None = None
    in_flight: bool = False
    attempts: int = 0
    next_attempt_at: datetime | None = None
    first_attempt_at: datetime | None = None
    finished_at: datetime | None = None
    last_status: int | None = None
    last_error: str | None = None
    reason: str | None = None
    label: str | None = None
    ordering_key: str | None = None
    key: str | None = None
    latest: datetime | None = None
    retry: Retry | None = None
    timeout_seconds: float | None = None
    skip_after_seconds: float | None = None
    on_success: str | None = None
    on_failure: str | None = None
    succeed_by: datetime | None = None
    cron_id: str | None = None
    redelivered_at: datetime | None = None
    rescheduled_from: str | None = None
    rescheduled_to: str | None = None
    etag: str | None = None


class CronPause(msgspec.Struct, frozen=True, kw_only=True):
    """Why a cron is paused: since when, with what note. `by` request: somebody asked for it; failures: its
    last runs failed, as `pause_after_failures` says."""

    at: datetime
    by: str = "request"
    note: str | None = None


class Cron(msgspec.Struct, frozen=True, kw_only=True):
    """A cron. `state` is active, paused, finished or deleted. `expression`, `also` and `excluding` are the rule in its
    `dialect`; `rule` is all of it in canonical form, `words` an English sentence; `next_fires` are the next nominal
    instants."""

    cron_id: str
    client_id: str
    state: str
    revision: int
    expression: str
    timezone: str
    callback: SentCallback
    created_at: datetime
    changed_at: datetime
    dialect: str = "cronie"
    also: tuple[str, ...] = ()
    excluding: tuple[str, ...] = ()
    calendar: Calendar | None = None
    rule: str | None = None
    words: str | None = None
    next_fires: tuple[datetime, ...] = ()
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    max_fires: int | None = None
    spread_seconds: int = 0
    catch_up_seconds: float = 0
    overlap: str = "allow"
    dst: Dst = Dst()
    retry: Retry | None = None
    timeout_seconds: float | None = None
    label: str | None = None
    ordering_key: str | None = None
    pause_after_failures: int | None = None
    on_success: str | None = None
    on_failure: str | None = None
    succeed_within_seconds: float | None = None
    pause: CronPause | None = None


class CronRun(msgspec.Struct, frozen=True, kw_only=True):
    """A fire of a cron, or a triggered run. `nominal_due` is the instant by the rule, `due` when it is called. `state`
    is the schedule's; planned before there is one, expired once it is not kept any more. `kind`: scheduled, triggered
    or backfilled. `duration_seconds`: from the start of the first attempt to the end."""

    nominal_due: datetime
    due: datetime
    state: str
    schedule_id: str | None = None
    attempts: int = 0
    last_status: int | None = None
    last_error: str | None = None
    first_attempt_at: datetime | None = None
    finished_at: datetime | None = None
    duration_seconds: float | None = None
    reason: str | None = None
    kind: str = "scheduled"
    triggered: bool = False


class CronPreview(msgspec.Struct, frozen=True, kw_only=True):
    """A rule in its `dialect`, in canonical form (`rule`), as an English sentence, and its first nominal instants."""

    expression: str
    timezone: str
    words: str
    next_fires: tuple[datetime, ...]
    dialect: str = "cronie"
    also: tuple[str, ...] = ()
    excluding: tuple[str, ...] = ()
    calendar: Calendar | None = None
    rule: str | None = None


class NewSigningSecret(msgspec.Struct, frozen=True, kw_only=True):
    """A new signing secret, shown once; `secret` is what `minutehand.webhooks.verify` takes: the secret itself, or of a
    key pair (`scheme` v1a) the public key."""

    secret_id: str
    secret: str
    created_at: datetime
    scheme: str = "v1"


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """A client. `settings` are the effective ones, `stored_settings` those it was registered with. `paused`: it holds
    its calls itself, whatever its state. `signing_secret`: its first, shown once, by the answer that registered it."""

    client_id: str
    poller_quota: int
    poller_ceiling: int
    state: str
    settings: dict[str, Any]
    revision: int
    created_at: datetime
    guaranteed_calls_per_minute: int | None = None
    stored_settings: dict[str, Any] = {}
    paused: bool = False
    signing_secret: NewSigningSecret | None = None


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A client's key without its secret. `scope`: read, write (which includes read) or manage (which includes both).
    `last_used_at` is an hour or so behind."""

    key_id: str
    created_at: datetime
    revoked_at: datetime | None = None
    name: str | None = None
    scope: str = "write"
    expires_at: datetime | None = None
    last_used_at: datetime | None = None


class NewKey(msgspec.Struct, frozen=True, kw_only=True):
    """A new key, shown once."""

    key_id: str
    key: str
    created_at: datetime
    name: str | None = None
    scope: str = "write"
    expires_at: datetime | None = None


class AdminKey(msgspec.Struct, frozen=True, kw_only=True):
    """An administrator's key without its secret."""

    key_id: str
    name: str
    created_at: datetime
    revoked_at: datetime | None = None


class NewAdminKey(msgspec.Struct, frozen=True, kw_only=True):
    """A new key of an administrator, shown once."""

    key_id: str
    name: str
    key: str
    created_at: datetime


class SigningSecret(msgspec.Struct, frozen=True, kw_only=True):
    """A signing secret without the secret. `public_key`: that of a key pair (`scheme` v1a)."""

    secret_id: str
    created_at: datetime
    expires_at: datetime | None = None
    scheme: str = "v1"
    public_key: str | None = None


class PublicKey(msgspec.Struct, frozen=True, kw_only=True):
    """The public half of a key pair; `public_key` is what `minutehand.webhooks.verify` takes."""

    secret_id: str
    public_key: str
    created_at: datetime


class HealthReason(msgspec.Struct, frozen=True, kw_only=True):
    """Why a process is not ready: a stable word (`storage-away`), and a sentence."""

    reason: str
    detail: str


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the API is ready, and if not, why."""

    status: str
    reasons: tuple[HealthReason, ...] = ()

    @property
    def ready(self) -> bool:
        return self.status == "ok"


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node. `state` is live, draining, left or dead. `beat_age_seconds`: since the answering API process saw its
    heartbeat advance; None when it never did. `clock_offset_ms`: against the nodes' median, positive is ahead."""

    node_id: str
    incarnation: int
    state: str
    pollers: int = 0
    beat_age_seconds: float | None = None
    clock_offset_ms: int | None = None
    capacity_per_minute: int = 0
    version: str = ""
    address: str = ""


class PollerCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many pollers there are, and how many of them have a live owner."""

    total: int
    owned: int


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes and what they own; the sum of all guarantees against the live nodes' capacity. `not_calling`: why no
    calls are made now, as a sentence; None while they are."""

    nodes: tuple[Node, ...]
    pollers: PollerCounts
    guaranteed_calls_per_minute: int
    capacity_per_minute: int
    not_calling: str | None = None


class DrainingNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that has begun to hand over its pollers, or, `live`, to take its share again."""

    node_id: str
    incarnation: int
    state: str


class PollerOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The node that owns a poller."""

    node_id: str
    incarnation: int


class Poller(msgspec.Struct, frozen=True, kw_only=True):
    """A client's poller. All minutes before `watermark` are settled; `backlog` counts the due schedules that have not
    ended in the `open_minutes` from there to now. With `cut`, both are lower bounds."""

    poller_id: int
    owner: PollerOwner | None
    epoch: int
    watermark: datetime
    lagging: bool
    open_minutes: int
    backlog: int
    cut: bool = False


class Lateness(msgspec.Struct, frozen=True, kw_only=True):
    """Lateness of the first attempts; p50 and p99 are upper bounds."""

    p50_seconds: float
    p99_seconds: float
    max_seconds: float


class MinuteBalance(msgspec.Struct, frozen=True, kw_only=True):
    """The books of the schedules due in one minute: accepted = delivered + failed + cancelled + skipped + open."""

    minute: datetime
    accepted: int
    delivered: int
    failed: int
    cancelled: int
    skipped: int
    open: int
    lateness: Lateness | None = None


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One thing wrong with a request, by JSON pointer."""

    pointer: str
    detail: str


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A refusal (RFC 9457). `state`: of the object that is in the way. `rescheduled_to`: the schedule that is called
    instead."""

    type: str
    title: str
    status: int
    detail: str = ""
    request_id: str | None = None
    state: str | None = None
    rescheduled_to: str | None = None
    errors: tuple[Fault, ...] = ()

    @property
    def kind(self) -> str:
        """The last word of the type, such as `in-flight`."""
        return self.type.rpartition("/")[2]


class BatchItem(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one item of a batch: a schedule, or the problem that prevented it."""

    status: int
    schedule: Schedule | None = None
    problem: Problem | None = None


class Batch(msgspec.Struct, frozen=True):
    """The results of a batch, in order."""

    items: tuple[BatchItem, ...]


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One page of a list; a short page may still have a next one."""

    items: tuple[T, ...]
    next_cursor: str | None = None
