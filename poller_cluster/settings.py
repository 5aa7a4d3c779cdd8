"""Settings of a node. Field docstrings are shown to operators in the reference of settings."""

from dataclasses import dataclass, field

from scheduler_service.domain.acknowledgements import AckSettings
from scheduler_service.domain.client_bounds import ClientBounds

LARGEST_LONG_CALL_SHARE = 0.8
"""Leaves a client more than the room that it needs to claim rows (`dispatch.ready_rows.claim_rows`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MinuteSettings:
    """How a node works on a minute. Times in milliseconds, bounds in rows."""

    claim_ahead_ms: int = 5_000
    """Milliseconds before its due from which a row may be claimed. Until then a cancel always succeeds."""
    claim_lead_ms: int = 1_000
    """A claim is written when the next row is due within this many milliseconds; it covers all rows due within
    `claim_ahead_ms`."""
    record_after_ms: int = 500
    """Milliseconds that an outcome waits for others to share its write, unless nothing else is under way."""
    record_after_longest_ms: int = 4_000
    """The longest that an outcome may wait so on a node with many busy minutes, in milliseconds. Longer: fewer writes,
    and more calls in doubt after a crash."""
    commits_per_second: int = 32
    """Owner commits that a node's busy minutes should write a second, together and approximately. To keep to it,
    outcomes wait longer, up to `record_after_longest_ms`."""
    record_rows: int = 500
    """Outcomes in one owner commit, at most; it is written as soon as this many wait. More: fewer writes for Cassandra,
    each of which takes longer, and more calls in doubt after a crash."""
    window_rows: int = 2_000
    """Rows of one minute held in memory; the others stay in Cassandra and are read when there is room."""
    rows_memory_mb: int = 160
    """Approximate MiB for the rows of all minutes of a process; busy minutes hold fewer rows each to keep to it. Less:
    more reads of fewer rows when very many rows are due."""
    page_reads_at_once: int = 16
    """Pages of rows that a process reads at the same time. Beyond the default, reads time out rather than finish
    sooner."""
    rescan_apart_ms: int = 2_000
    """Milliseconds between two reads of a whole minute, which happen when more rows are created near their due than
    hints can announce. Longer: fewer reads, and such rows are that much later."""
    grace_ms: int = 10_000
    """Milliseconds from a minute's end to its sweep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverSettings:
    """How receivers are protected from their callers, and callers from their receivers."""

    receiver_share: float = 0.8
    """Share of a client's `max_in_flight` that one host may take, unless the client sets a limit for that host."""
    receiver_connections: int = 200
    """Concurrent calls of one client to one host, unless the client sets a limit for that host. A host that answers in
    20 ms gets 10,000 calls a second over 200."""
    receivers_per_client: int = 1000
    """Hosts of one client whose failures and rates are remembered. More: more memory. Fewer: they are forgotten
    sooner."""
    long_call_seconds: float = 60.0
    """Calls with a time-out above this many seconds are long calls, which share `long_call_share`. Only where
    `clients.timeout_seconds` is above it are there any."""
    long_call_share: float = 0.5
    """Share of a client's `max_in_flight`, and of a node's `delivery.max_in_flight`, that long calls may take. More:
    more of them at a time, and less is left for other calls while they last."""
    flows_per_client: int = 20_000
    """Flow keys of one client that a node remembers, because calls of them are claimed or have to wait for their rate.
    Rows of further keys wait. Each takes about a kilobyte."""
    breaker_failures: int = 20
    """Consecutive failures after which the breaker holds back a client's calls to a host. Keep it well above the
    attempts of one schedule, so that a single bad callback does not stop the calls to other paths of its host."""
    breaker_open_seconds: float = 5.0
    """Seconds for which the breaker holds calls back the first time; doubled each time the probes of the host fail."""
    breaker_longest_seconds: float = 300.0
    """The most seconds for which the breaker holds calls back at a time."""
    breaker_probes: int = 3
    """Concurrent calls to a host that the breaker is probing."""

    def __post_init__(self) -> None:
        if not 0 < self.receiver_share <= 1:
            raise ValueError("receiver_share must be above 0 and at most 1")
        if self.receiver_connections < 1:
            raise ValueError("receiver_connections must be at least 1")
        if self.receivers_per_client < 1:
            raise ValueError("receivers_per_client must be at least 1")
        if not self.long_call_seconds > 0:
            raise ValueError("long_call_seconds must be above 0")
        if not 0 < self.long_call_share <= LARGEST_LONG_CALL_SHARE:
            raise ValueError(f"long_call_share must be above 0 and at most {LARGEST_LONG_CALL_SHARE:g}")
        if self.flows_per_client < 1:
            raise ValueError("flows_per_client must be at least 1")
        if self.breaker_failures < 1:
            raise ValueError("breaker_failures must be at least 1")
        if self.breaker_probes < 1:
            raise ValueError("breaker_probes must be at least 1")
        if not 0 < self.breaker_open_seconds <= self.breaker_longest_seconds <= 3600:
            raise ValueError("breaker_open_seconds must be above 0, at most breaker_longest_seconds, at most 3600")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciliationSettings:
    """How fast reconciliations go through their windows, each on one node."""

    redeliver_share: float = 0.5
    """Share of the guaranteed rate of a client's pollers (1,000 calls a minute each) over which its redeliveries are
    spread. Higher: redeliveries end sooner, and leave fresh calls less of the guarantee."""
    cancels_per_second: float = 500.0
    """Schedules that one reconciliation cancels a second. Higher: it ends sooner, at the cost of Cassandra's time."""
    rows_read_per_second: float = 5_000.0
    """Schedules, plus minutes of pollers, that one reconciliation reads a second. Higher: it ends sooner, at the cost
    of a node's and Cassandra's time."""

    def __post_init__(self) -> None:
        if not 0 < self.redeliver_share <= 1:
            raise ValueError("redeliver_share must be above 0 and at most 1")
        for name in ("cancels_per_second", "rows_read_per_second"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundSettings:
    """How much of storage a node may use for the past: recovery, outcomes of retry rows on the way to their originals,
    recounts, searches, reconciliations, retention."""

    requests_at_once: int = 16
    """Concurrent requests for the past while storage answers well. More: a node catches up sooner after an outage, at
    the cost of Cassandra's time. A node makes fewer by itself while Cassandra is slow."""
    slow_ms: int = 250
    """Milliseconds; if the p99 of all of a node's storage requests is above it, fewer requests are made for the past.
    Lower: fresh calls are protected more, and recovery takes longer."""
    longest_pause_seconds: float = 5.0
    """The longest pause in seconds between two requests for the past while Cassandra leaves them unanswered. Longer:
    Cassandra gets more rest, and its return is noticed later."""

    def __post_init__(self) -> None:
        for name in ("requests_at_once", "slow_ms"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if not 0 < self.longest_pause_seconds <= 60:
            raise ValueError("longest_pause_seconds must be above 0 and at most 60")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """How much one node takes on."""

    minute: MinuteSettings = field(default_factory=MinuteSettings)
    receivers: ReceiverSettings = field(default_factory=ReceiverSettings)
    clients: ClientBounds = field(default_factory=ClientBounds)
    acknowledgements: AckSettings = field(default_factory=AckSettings)
    reconciliations: ReconciliationSettings = field(default_factory=ReconciliationSettings)
    background: BackgroundSettings = field(default_factory=BackgroundSettings)
    recovery_minutes_at_once: int = 4
    """Past minutes that run beside the present after a takeover or an outage; one client gets half of them at most.
    More: recovery ends sooner, and fresh calls are later."""
    capacity_per_minute: int = 300_000
    """Calls a minute that this node is sized for; shown beside what the quotas guarantee."""
    weight: float = 1.0
    """This node's share of the pollers, relative to the weights of the others."""
    named_clients: int = 0
    """Clients that the metrics show by name, those with the most calls; all others are shown together. `/metrics` needs
    no key, so everybody who reaches the node's port can read these names. More: more memory in Prometheus, up to twice
    as many series for each metric on every node."""
    retention_waits_for_archive: bool = False
    """Whether schedules past their client's retention are kept until `minutehand spark run archive` has archived their
    day. Run it every day then: what is not archived is kept forever. It must be the same on all nodes; one node without
    it deletes what the others keep."""

    def __post_init__(self) -> None:
        if self.recovery_minutes_at_once < 1:
            raise ValueError("recovery_minutes_at_once must be at least 1")
        if not self.weight > 0:
            raise ValueError("weight must be above 0")
        if self.named_clients < 0:
            raise ValueError("named_clients must be at least 0")
