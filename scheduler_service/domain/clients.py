"""Clients (tenants): quota, state, settings with their defaults and bounds, keys and signing secrets."""

from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from scheduler_service.domain.ids import ClientId, UnixMillis

CLIENT_ID_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,62}$"
GUARANTEED_CALLS_PER_MINUTE = 1000
"""What each poller of a quota guarantees."""

ReadConsistency: TypeAlias = Literal["LOCAL_QUORUM", "LOCAL_ONE"]
"""How many replicas answer when a tenant looks at its schedules: most of those in the home data centre, or any one."""
WriteConsistency: TypeAlias = Literal["LOCAL_QUORUM", "EACH_QUORUM"]
"""How many replicas have a new schedule before its create is answered: most of those at home, or in each data centre.

Both are for what tenants ask only. Everything that decides who calls, and what became of it, stays at LOCAL_QUORUM and
LOCAL_SERIAL."""


class ClientState(StrEnum):
    ACTIVE = "active"
    SUSPENDED = "suspended"
    DELETED = "deleted"


class RetrySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=False):
    """When failed attempts are repeated: delay = min(cap, base x 2^n) with half jitter, until the deadline."""

    max_attempts: Annotated[int, Meta(ge=1, le=100)] = 10
    base_seconds: Annotated[float, Meta(ge=0.1, le=3600)] = 5.0
    cap_seconds: Annotated[float, Meta(ge=0.1, le=86_400)] = 600.0
    deadline_seconds: Annotated[float, Meta(ge=1, le=604_800)] = 86_400.0
    final_statuses: tuple[Annotated[int, Meta(ge=100, le=599)], ...] = (410,)


class LatePolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What becomes of a call that could not be made in time: fired however late, or skipped after some seconds."""

    kind: Literal["fire", "skip"] = "fire"
    after_seconds: Annotated[float, Meta(ge=0, le=604_800)] = 0.0


class DestinationLimit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds for one receiver host."""

    max_in_flight: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    max_per_second: Annotated[float, Meta(gt=0, le=100_000)] | None = None


class ClientSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=False):
    """What a client may tune. None means: derived from the quota (see `effective`)."""

    retry: RetrySettings = RetrySettings()
    timeout_seconds: Annotated[float, Meta(ge=0.1, le=60)] = 10.0
    max_in_flight: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    destinations: Annotated[dict[str, DestinationLimit], Meta(max_length=100)] = {}
    late_policy: LatePolicy = LatePolicy()
    in_doubt: Literal["redeliver", "drop"] = "redeliver"
    horizon_days: Annotated[int, Meta(ge=1, le=3650)] = 730
    retention_days: Annotated[int, Meta(ge=1, le=90)] = 7
    payload_bytes: Annotated[int, Meta(ge=1, le=1_048_576)] = 65_536
    header_bytes: Annotated[int, Meta(ge=1, le=16_384)] = 8_192
    create_rate_per_second: Annotated[float, Meta(gt=0, le=1_000_000)] | None = None
    read_consistency: Literal["LOCAL_QUORUM", "LOCAL_ONE"] = "LOCAL_QUORUM"
    write_consistency: Literal["LOCAL_QUORUM", "EACH_QUORUM"] = "LOCAL_QUORUM"

    def effective(self, *, poller_quota: int) -> "ClientSettings":
        """These settings with everything that follows from the quota filled in."""
        return msgspec.structs.replace(
            self,
            max_in_flight=self.max_in_flight or min(100 * poller_quota, 10_000),
            create_rate_per_second=self.create_rate_per_second or 100.0 * poller_quota,
        )


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant. `poller_ceiling` is the highest quota ever granted: its lanes stay polled when the quota shrinks.

    `revision` grows by one with every change.
    """

    client_id: ClientId
    poller_quota: int
    poller_ceiling: int
    state: ClientState
    settings: ClientSettings
    revision: int
    created_at: UnixMillis

    @property
    def built_in(self) -> bool:
        return self.client_id.startswith("$")


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """A bearer key. `owner` is a client_id, or for administrators their name with `admin` set."""

    key_id: str
    owner: str
    admin: bool
    secret_hash: bytes
    created_at: UnixMillis
    revoked_at: UnixMillis | None = None


class SigningSecret(msgspec.Struct, frozen=True, kw_only=True):
    """A Standard Webhooks secret: `secret` holds its raw bytes. Several may be active; None never expires."""

    client_id: ClientId
    secret_id: str
    secret: bytes
    encryption_key_id: str | None
    created_at: UnixMillis
    expires_at: UnixMillis | None = None
