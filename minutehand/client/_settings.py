"""The settings that a client may be registered with. Fields left out have their defaults; the operator's bounds may be
lower."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, TypedDict

ReceiverVerb: TypeAlias = Literal["not-again", "snooze", "stop-cron"]
"""What receivers may ask for in the headers of their answers."""


class RetrySettings(TypedDict, total=False):
    """When failed attempts are repeated: after min(cap, base x 2^n) with half jitter, until the deadline."""

    max_attempts: int
    base_seconds: float
    cap_seconds: float
    deadline_seconds: float
    final_statuses: list[int]


class LatePolicy(TypedDict, total=False):
    """What happens to overdue calls."""

    kind: Literal["fire", "skip"]
    after_seconds: float


class HostLimit(TypedDict, total=False):
    """Limits of each receiver."""

    max_in_flight: int | None
    max_per_second: float | None


class FlowLimits(TypedDict, total=False):
    """Calls of one flow key: started a second (may be below 1), and under way at a time. None: not limited."""

    rate: float | None
    parallelism: int | None


class FlowRules(TypedDict, total=False):
    """The limits of flow keys by their longest prefix here, and of all others."""

    default: FlowLimits
    prefixes: Mapping[str, FlowLimits]


class ClientSettings(TypedDict, total=False):
    """A client's settings, for `clients.register`.

    `max_in_flight` and `create_rate_per_second` None: 100 for each poller. The rate applies to each API process, with a
    burst of ten seconds' worth. `read_consistency` LOCAL_ONE answers from one replica: faster, perhaps stale.
    `write_consistency` EACH_QUORUM answers a create when every data centre has it: slower, and refused while one is
    unreachable. `overdue_per_second`: calls a second of those that are more than a minute late, over all nodes; None:
    as many as limits permit.
    """

    retry: RetrySettings
    timeout_seconds: float
    max_in_flight: int | None
    hosts: Mapping[str, HostLimit]
    flows: FlowRules
    late_policy: LatePolicy
    in_doubt: Literal["redeliver", "drop"]
    receiver_verbs: Sequence[ReceiverVerb]
    horizon_days: int
    accept_past_seconds: float
    retention_days: int
    payload_bytes: int
    header_bytes: int
    create_rate_per_second: float | None
    max_crons: int
    read_consistency: Literal["LOCAL_QUORUM", "LOCAL_ONE"]
    write_consistency: Literal["LOCAL_QUORUM", "EACH_QUORUM"]
    event_feed: bool
    overdue_per_second: float | None


class OwnSettings(TypedDict, total=False):
    """The settings that a client may change itself, for `client(...).change_settings`."""

    retry: RetrySettings
    timeout_seconds: float
    hosts: Mapping[str, HostLimit]
    flows: FlowRules
    late_policy: LatePolicy
    in_doubt: Literal["redeliver", "drop"]
    receiver_verbs: Sequence[ReceiverVerb]
    read_consistency: Literal["LOCAL_QUORUM", "LOCAL_ONE"]
    write_consistency: Literal["LOCAL_QUORUM", "EACH_QUORUM"]
    event_feed: bool
