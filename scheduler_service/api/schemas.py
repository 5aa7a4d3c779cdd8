"""The bodies of requests and answers. A requested schedule is defined in `usecases.schedule_request`.

Docstrings of the structs are shown to callers as descriptions in the OpenAPI document.
"""

from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import Meta

from scheduler_service.api.problems import Problem
from scheduler_service.domain.acknowledgements import Ack
from scheduler_service.domain.clients import CLIENT_ID_PATTERN, ClientSettings, ClientState, Scope, SignatureScheme
from scheduler_service.domain.ids import MAX_POLLERS
from scheduler_service.domain.options import RetryOverride
from scheduler_service.domain.reasons import REASONS
from scheduler_service.domain.schedules import State
from scheduler_service.usecases.schedule_request import ScheduleRequest

MAX_BATCH: Final = 1000
MAX_BATCH_FAULTS: Final = 1000
"""Faults listed in the answer to a batch; beyond them each item still lists its first."""

Instant = Annotated[
    str, Meta(description="RFC 3339 in UTC with milliseconds", extra_json_schema={"format": "date-time"})
]
ClientStateName = Annotated[str, Meta(extra_json_schema={"enum": list(ClientState)})]
ScheduleStateName = Annotated[str, Meta(extra_json_schema={"enum": list(State)})]
ScheduleReason = Annotated[
    str | None,
    Meta(
        description="More than the state says: "
        + ". ".join(f"`{reason}`: {sentence}" for reason, sentence in REASONS.items())
        + "."
    ),
]
SchemeName = Annotated[str, Meta(extra_json_schema={"enum": list(SignatureScheme)})]
ScopeName = Annotated[str, Meta(extra_json_schema={"enum": list(Scope)})]
KeyName = Annotated[str, Meta(min_length=1, max_length=128)]
AdminName = Annotated[str, Meta(pattern=CLIENT_ID_PATTERN)]


class ClientRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The quota and settings that the client shall have. Settings that are left out get their defaults."""

    poller_quota: Annotated[int, Meta(ge=1, le=MAX_POLLERS)]
    settings: ClientSettings | None = None


class ClientView(msgspec.Struct, frozen=True, kw_only=True):
    """A client. `settings` are in force, within the operator's bounds; `stored_settings` are as they were put, so
    putting them again changes nothing. `paused`: it holds its calls itself, whatever its state."""

    client_id: str
    poller_quota: int
    poller_ceiling: int
    guaranteed_calls_per_minute: int
    state: ClientStateName
    paused: bool
    settings: ClientSettings
    stored_settings: ClientSettings
    revision: int
    created_at: Instant


class SecretRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a secret is to sign. v1: HMAC-SHA256 under a secret that both sides know; v1a: Ed25519, by a key pair."""

    scheme: SignatureScheme = SignatureScheme.V1


class NewSecretView(msgspec.Struct, frozen=True, kw_only=True):
    """A new signing secret, which is shown only once. `secret` is what receivers verify by: the secret itself, or of a
    key pair (`scheme` v1a) the public key, which is no secret."""

    secret_id: str
    scheme: SchemeName
    secret: str
    created_at: Instant


class NewClientView(ClientView, frozen=True, kw_only=True):
    """A new client with its first signing secret, which is shown only once."""

    signing_secret: NewSecretView


class KeyRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a key is to be. `scope`: read, write (which includes read) or manage (which includes both). `name` says what
    it is for. `expires_at` null: it is good until it is revoked."""

    scope: Scope = Scope.WRITE
    name: KeyName | None = None
    expires_at: Instant | None = None


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    """A key without its secret. `last_used_at` is an hour or so behind; null: it was not used yet."""

    key_id: str
    name: str | None
    scope: ScopeName
    created_at: Instant
    expires_at: Instant | None
    last_used_at: Instant | None
    revoked_at: Instant | None


class NewKeyView(msgspec.Struct, frozen=True, kw_only=True):
    """A new key, which is shown only once."""

    key_id: str
    key: str
    name: str | None
    scope: ScopeName
    created_at: Instant
    expires_at: Instant | None


class AdminKeyRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The name of the administrator that the key is for."""

    name: AdminName


class AdminKeyView(msgspec.Struct, frozen=True, kw_only=True):
    """An administrator's key without its secret."""

    key_id: str
    name: str
    created_at: Instant
    revoked_at: Instant | None


class NewAdminKeyView(msgspec.Struct, frozen=True, kw_only=True):
    """A new key of an administrator, which is shown only once."""

    key_id: str
    name: str
    key: str
    created_at: Instant


class SecretView(msgspec.Struct, frozen=True, kw_only=True):
    """A signing secret, without its value. `public_key`: that of a key pair (`scheme` v1a), else null."""

    secret_id: str
    scheme: SchemeName
    public_key: str | None
    created_at: Instant
    expires_at: Instant | None


class PublicKeyView(msgspec.Struct, frozen=True, kw_only=True):
    """The public half of a key pair that signs a client's calls."""

    secret_id: str
    public_key: str
    created_at: Instant


class BatchRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Several schedules; each is created or refused independently."""

    items: Annotated[list[ScheduleRequest], Meta(min_length=1, max_length=MAX_BATCH)]


class BatchEnvelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A batch whose items are still undecoded."""

    items: Annotated[list[msgspec.Raw], Meta(min_length=1, max_length=MAX_BATCH)]


class CallbackView(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """The request that a receiver gets, and its flow key. It goes to a `url`, or to a `destination`, with a `path`
    below its URL; then there is no `method` if only the destination says it. Credentials among the headers are masked.
    `body` if it is UTF-8, else `body_base64`; neither if none was given, so that the default one is sent. `headers` is
    null if they can't be decoded or decrypted any more."""

    url: str | msgspec.UnsetType = msgspec.UNSET
    destination: str | msgspec.UnsetType = msgspec.UNSET
    path: str | msgspec.UnsetType = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    headers: dict[str, str] | None
    body: str | msgspec.UnsetType = msgspec.UNSET
    body_base64: bytes | msgspec.UnsetType = msgspec.UNSET
    flow_key: str | msgspec.UnsetType = msgspec.UNSET
    flow_rate: float | msgspec.UnsetType = msgspec.UNSET
    flow_parallelism: int | msgspec.UnsetType = msgspec.UNSET
    ack: Ack | msgspec.UnsetType = msgspec.UNSET


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A schedule and its outcome so far. `nominal_due`: the instant that was asked for, or that of the cron's rule, as
    sent to the receiver; null if it is `due`. `in_flight`: a node has claimed it and may be calling right now.
    `redelivered_at`: when its last redelivery was requested. `rescheduled_to`: it was cancelled, and that schedule is
    called instead."""

    schedule_id: UUID
    client_id: str
    poller_id: int
    minute: Instant
    due: Instant
    nominal_due: Instant | None
    state: ScheduleStateName
    in_flight: bool
    attempts: int
    next_attempt_at: Instant | None
    first_attempt_at: Instant | None
    finished_at: Instant | None
    last_status: int | None
    last_error: str | None
    reason: ScheduleReason
    callback: CallbackView
    label: str | None
    ordering_key: str | None
    key: str | None
    latest: Instant | None
    retry: RetryOverride | None
    timeout_seconds: float | None
    skip_after_seconds: float | None
    on_success: str | None
    on_failure: str | None
    succeed_by: Instant | None
    cron_id: str | None
    rescheduled_from: UUID | None
    rescheduled_to: UUID | None
    redelivered_at: Instant | None
    created_at: Instant


class BatchItemView(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The result of an item: `status` 201 with the `schedule`, or the status of the `problem`."""

    status: int
    schedule: ScheduleView | msgspec.UnsetType = msgspec.UNSET
    problem: Problem | msgspec.UnsetType = msgspec.UNSET


class BatchView(msgspec.Struct, frozen=True):
    """The results of the items, in order."""

    items: list[BatchItemView]


class ReasonView(msgspec.Struct, frozen=True, kw_only=True):
    """Why a process can't do its work: a stable word for programs, a sentence for people."""

    reason: str
    detail: str


class ReadyView(msgspec.Struct, frozen=True):
    """Whether this process can do its work, and if not, why. `status`: ok or unavailable."""

    status: str
    reasons: list[ReasonView] = []


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node. `state`: live, draining, left or dead. `beat_age_seconds`: seconds since this API process saw a new
    heartbeat of it, null if it never did. `clock_offset_ms`: its wall clock minus the median, null while unknown.
    `pollers`: how many it owns."""

    node_id: str
    incarnation: int
    state: str
    beat_age_seconds: float | None
    pollers: int
    clock_offset_ms: int | None
    capacity_per_minute: int
    weight: float
    version: str
    address: str


class PollersView(msgspec.Struct, frozen=True):
    """How many pollers there are, and how many of them have a live owner."""

    total: int
    owned: int


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster. `guaranteed_calls_per_minute`: what the quotas of all clients guarantee; `capacity_per_minute`: what
    the live nodes are sized for. `not_calling`: a sentence that says why no calls are made now; null while calls are
    made."""

    nodes: list[NodeView]
    pollers: PollersView
    guaranteed_calls_per_minute: int
    capacity_per_minute: int
    not_calling: str | None


class LateCallsView(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the first attempts (0.99: 99 %), and within how many seconds of their due they began; null: there were
    none, or some began more than an hour late."""

    part: float
    seconds: float | None


class CallingClientView(msgspec.Struct, frozen=True, kw_only=True):
    """A client's first attempts within the last minute, how late they began on average, and how many attempts failed,
    retries among them. Nodes of older versions do not count the last."""

    client_id: str
    calls: int
    mean_late_seconds: float
    failed_attempts: int


class RecentCallsView(msgspec.Struct, frozen=True, kw_only=True):
    """What nodes called within about the last minute. `delivered` and `failed`: schedules that ended so. `clients`: the
    busiest, as far as nodes count them by name. `nodes_not_answering` are missing in all figures."""

    per_second: float
    late: list[LateCallsView]
    delivered: int
    failed: int
    clients: list[CallingClientView]
    nodes_not_answering: list[str]


class DrainingView(msgspec.Struct, frozen=True, kw_only=True):
    """A node that has begun to drain, or (`live`) to take pollers again."""

    node_id: str
    incarnation: int
    state: str


class PollerOwner(msgspec.Struct, frozen=True):
    """The node incarnation that owns a poller."""

    node_id: str
    incarnation: int


class PollerView(msgspec.Struct, frozen=True, kw_only=True):
    """A poller. All minutes before `watermark` are settled. `open_minutes`: minutes with schedules from there to now;
    `backlog`: schedules in them that are due and have not ended. With `cut`, both are lower bounds. `lagging`: its
    watermark is behind those of the other pollers of its owner."""

    poller_id: int
    owner: PollerOwner | None
    epoch: int
    watermark: Instant
    lagging: bool
    open_minutes: int
    backlog: int
    cut: bool


class LatenessView(msgspec.Struct, frozen=True, kw_only=True):
    """How much later than due the first attempts began. p50 and p99 are upper bounds: the lowest of the steps 5, 10,
    20, 50, 100, 200, 500 ms, 1, 2, 5, 10, 30 s, 1, 10, 60 min that this share did not exceed, or `max_seconds` if that
    is less."""

    p50_seconds: float
    p99_seconds: float
    max_seconds: float


class BalanceView(msgspec.Struct, frozen=True, kw_only=True):
    """The books of the schedules due in one minute: accepted = delivered + failed + cancelled + skipped + open.
    `lateness` null: no attempt was made."""

    minute: Instant
    accepted: int
    delivered: int
    failed: int
    cancelled: int
    skipped: int
    open: int
    lateness: LatenessView | None
