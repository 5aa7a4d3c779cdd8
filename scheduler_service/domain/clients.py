"""Clients: quota, state, settings with their defaults and bounds, keys and signing secrets."""

import re
from enum import StrEnum
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from scheduler_service.domain.flows import FlowRules
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.domain.overdue_rates import OverdueRate
from scheduler_service.domain.verbs import VERBS, Verb

CLIENT_ID_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,62}$"
is_client_id = re.compile(CLIENT_ID_PATTERN.strip("^$")).fullmatch
GUARANTEED_CALLS_PER_MINUTE = 1000
"""What each poller of a quota guarantees."""

CREATES_PER_POLLER = 100.0
"""Creates a second for each poller of the quota, unless a client's settings say otherwise."""

ReadConsistency: TypeAlias = Literal["LOCAL_QUORUM", "LOCAL_ONE"]
"""How many replicas answer a client's reads of its schedules: a majority in the home data centre, or any one."""
WriteConsistency: TypeAlias = Literal["LOCAL_QUORUM", "EACH_QUORUM"]
"""How many replicas have a new schedule before its create is answered: a majority at home, or in each data centre.

Both apply to clients' requests only. All reads and writes that decide about calls and outcomes stay at LOCAL_QUORUM and
LOCAL_SERIAL."""


class ClientState(StrEnum):
    ACTIVE = "active"
    SUSPENDED = "suspended"
    DELETED = "deleted"


class Scope(StrEnum):
    """What a client's key may do. Each scope includes those before it: reading; creating, cancelling and calling;
    managing the client's own keys, secrets, settings and pauses."""

    READ = "read"
    WRITE = "write"
    MANAGE = "manage"

    def includes(self, needed: "Scope") -> bool:
        return needed in _INCLUDED[self]


_INCLUDED: Final = {scope: frozenset(list(Scope)[: at + 1]) for at, scope in enumerate(Scope)}


class SignatureScheme(StrEnum):
    """How a signing secret signs, by the names of Standard Webhooks: V1 is HMAC-SHA256 under a secret that both sides
    know; V1A is Ed25519, which receivers check by a public key."""

    V1 = "v1"
    V1A = "v1a"


class RetrySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=False):
    """When failed attempts are repeated: delay = min(cap, base x 2^n) with half jitter, until the deadline."""

    max_attempts: Annotated[int, Meta(ge=1, le=100)] = 10
    base_seconds: Annotated[float, Meta(ge=0.1, le=3600)] = 5.0
    cap_seconds: Annotated[float, Meta(ge=0.1, le=86_400)] = 600.0
    deadline_seconds: Annotated[float, Meta(ge=1, le=604_800)] = 86_400.0
    final_statuses: Annotated[tuple[Annotated[int, Meta(ge=100, le=599)], ...], Meta(max_length=500)] = (410,)


class LatePolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether a call that could not be made in time is made however late (fire), or skipped after some seconds (skip).

    Lateness counts from the due. If a running node learned of a schedule only after that, lateness counts from then, so
    a create that was answered in time is not skipped.
    """

    kind: Literal["fire", "skip"] = "fire"
    after_seconds: Annotated[float, Meta(ge=0, le=604_800)] = 0.0


CallRate: TypeAlias = Annotated[float, Meta(ge=0.0001, le=100_000)]
"""Calls a second: at least one in three hours."""


class HostLimit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits for one receiver's host."""

    max_in_flight: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    max_per_second: CallRate | None = None


AttemptSeconds: TypeAlias = Annotated[float, Meta(ge=0.1, le=600)]
"""The operator's bound is 60 unless it is raised (`client_bounds`)."""
HostLimits: TypeAlias = Annotated[dict[str, HostLimit], Meta(max_length=100)]
InDoubt: TypeAlias = Literal["redeliver", "drop"]
ReceiverVerbs: TypeAlias = Annotated[tuple[Verb, ...], Meta(max_length=len(VERBS))]


class ClientSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=False):
    """A client's settings. Null: derived from the quota. The operator may have set lower bounds than those here."""

    retry: Annotated[RetrySettings, Meta(description="When failed attempts are repeated.")] = RetrySettings()
    timeout_seconds: Annotated[
        AttemptSeconds, Meta(description="Seconds for one attempt, from connecting to the end of the answer.")
    ] = 10.0
    max_in_flight: Annotated[
        Annotated[int, Meta(ge=1, le=10_000)] | None,
        Meta(description="Concurrent attempts, over all nodes. Null: 100 for each poller, at most 10,000."),
    ] = None
    hosts: Annotated[HostLimits, Meta(description="Limits of single receivers, by host, or host:port.")] = {}
    flows: Annotated[
        FlowRules, Meta(description="Rate and parallelism of flow keys, for callbacks that do not say them.")
    ] = FlowRules()
    late_policy: Annotated[
        LatePolicy, Meta(description="Whether calls that could not be made in time fire or are skipped.")
    ] = LatePolicy()
    in_doubt: Annotated[
        InDoubt,
        Meta(
            description="What to do with a call that a crashed node may have made. redeliver: call (perhaps again); "
            "drop: end it as failed (perhaps without a call)."
        ),
    ] = "redeliver"
    receiver_verbs: Annotated[
        ReceiverVerbs,
        Meta(
            description="What receivers may ask for in the headers of their answers. not-again: the schedule fails for "
            "good (status 489, or webhook-delivery: abort-message); snooze: it is called again at another instant "
            "(Retry-After with a 2xx, or Minutehand-Call-At); stop-cron: the cron of this fire is paused "
            "(Minutehand-Stop-Cron: true)."
        ),
    ] = ("not-again",)
    horizon_days: Annotated[int, Meta(ge=1, le=3650, description="Most days ahead that a schedule may be due.")] = 730
    accept_past_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=604_800,
            description="Most seconds ago that a new schedule may have been due. It is called at once.",
        ),
    ] = 60.0
    retention_days: Annotated[
        int, Meta(ge=1, le=90, description="Days for which schedules that have ended can be read and redelivered.")
    ] = 7
    payload_bytes: Annotated[int, Meta(ge=1, le=1_048_576, description="Most bytes of a callback's body.")] = 65_536
    header_bytes: Annotated[
        int, Meta(ge=1, le=16_384, description="Most bytes of the names and values of a callback's headers.")
    ] = 8_192
    create_rate_per_second: Annotated[
        Annotated[float, Meta(ge=0.1, le=1_000_000)] | None,
        Meta(
            description="Creates a second, with a burst of ten seconds' worth; a batch counts its items. Null: 100 for "
            "each poller. Every API process counts for itself, so a client that spreads its requests over N of them "
            "gets up to N times as many."
        ),
    ] = None
    max_crons: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="Most crons at the same time. Counting those deleted within the retention, there may be "
            "twice as many, or 1,000 more if that is more.",
        ),
    ] = 10_000
    read_consistency: Annotated[
        ReadConsistency,
        Meta(
            description="For reading and listing schedules. LOCAL_QUORUM shows everything that was answered before. "
            "LOCAL_ONE asks one replica: faster, and possible while most are down, but a state may be outdated, and a "
            "list may lack recent creates. Cancels, the books and the calls themselves never depend on it."
        ),
    ] = "LOCAL_QUORUM"
    write_consistency: Annotated[
        WriteConsistency,
        Meta(
            description="For creating schedules: one, a batch, a triggered run. LOCAL_QUORUM needs only the home data "
            "centre. EACH_QUORUM also waits for most replicas in every other data centre, so no accepted schedule is "
            "lost with the home: creates are slower by that distance, and refused with 503 while any of the data "
            "centres is down. Outcomes are recorded at home in any case."
        ),
    ] = "LOCAL_QUORUM"
    event_feed: Annotated[
        bool,
        Meta(
            description="Whether what becomes of schedules can be read as events, at `/v1/clients/{client_id}/events`. "
            "Each end then costs a further small write. Schedules that end before it is on are not told of."
        ),
    ] = False
    overdue_per_second: Annotated[
        OverdueRate | None,
        Meta(
            description="Calls a second, over all nodes, of those that are more than a minute late, as after an "
            "outage. So a receiver that comes back is spared. Null: as fast as limits permit."
        ),
    ] = None

    def effective(self, *, poller_quota: int) -> "ClientSettings":
        """These settings, with those that derive from the quota filled in."""
        return msgspec.structs.replace(
            self,
            max_in_flight=self.max_in_flight or min(100 * poller_quota, 10_000),
            create_rate_per_second=self.create_rate_per_second or CREATES_PER_POLLER * poller_quota,
        )


class OwnSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings that a client may change itself, within the operator's bounds. What is left out, or null, stays.
    All others are what the operator gives: rates, ceilings and how long things are kept."""

    retry: RetrySettings | None = None
    timeout_seconds: AttemptSeconds | None = None
    hosts: HostLimits | None = None
    flows: FlowRules | None = None
    late_policy: LatePolicy | None = None
    in_doubt: InDoubt | None = None
    receiver_verbs: ReceiverVerbs | None = None
    read_consistency: ReadConsistency | None = None
    write_consistency: WriteConsistency | None = None
    event_feed: bool | None = None

    def over(self, settings: ClientSettings) -> ClientSettings:
        """`settings` with what is named here, each setting as a whole."""
        named = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}
        return msgspec.structs.replace(settings, **named)


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """A client. `poller_ceiling` is the highest quota ever granted: those pollers are still served after the quota
    shrinks, because they may have rows.

    `paused`: its calls are held at its own wish, whatever its state. `revision` grows by one with every change.
    """

    client_id: ClientId
    poller_quota: int
    poller_ceiling: int
    state: ClientState
    settings: ClientSettings
    revision: int
    created_at: UnixMillis
    paused: bool = False

    @property
    def built_in(self) -> bool:
        return self.client_id.startswith("$")

    @property
    def calls_held(self) -> bool:
        """Whether nothing of it is called or expanded, by its administrator's will or its own."""
        return self.paused or self.state is not ClientState.ACTIVE


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """A bearer key. `owner` is a client_id, or for administrators their name with `admin` set; their keys have no
    scope. `name` says what a key is for. `last_used_at` may be an hour or so behind. `rightless`: it was stored with a
    scope that this version doesn't know, so it is good for nothing."""

    key_id: str
    owner: str
    admin: bool
    secret_hash: bytes
    created_at: UnixMillis
    revoked_at: UnixMillis | None = None
    scope: Scope = Scope.WRITE
    name: str | None = None
    expires_at: UnixMillis | None = None
    last_used_at: UnixMillis | None = None
    rightless: bool = False

    def good_at(self, now: int) -> bool:
        """Whether it is neither revoked nor expired, and has rights."""
        lasts = self.revoked_at is None and (self.expires_at is None or now < self.expires_at)
        return lasts and not self.rightless


class SigningSecret(msgspec.Struct, frozen=True, kw_only=True):
    """A Standard Webhooks secret: `secret` holds its raw bytes. Several may be active; None never expires. With a
    `public_key`, `secret` is the private half of that key pair (32 bytes each, as in RFC 8032)."""

    client_id: ClientId
    secret_id: str
    secret: bytes
    encryption_key_id: str | None
    created_at: UnixMillis
    expires_at: UnixMillis | None = None
    public_key: bytes | None = None

    @property
    def scheme(self) -> SignatureScheme:
        return SignatureScheme.V1 if self.public_key is None else SignatureScheme.V1A

    def active_at(self, now: int) -> bool:
        return self.expires_at is None or now < self.expires_at
