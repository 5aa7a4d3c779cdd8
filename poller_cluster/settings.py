"""What an operator may tune about a node."""

from dataclasses import dataclass, field

from scheduler_service.domain.client_bounds import ClientBounds


@dataclass(frozen=True, slots=True, kw_only=True)
class MinuteSettings:
    """Times in milliseconds, bounds in rows."""

    claim_ahead_ms: int = 5_000
    """Rows due sooner than this may be claimed; until then a cancel is certain."""
    claim_lead_ms: int = 1_000
    """A claim is written when the next row is due within this; it then takes everything within `claim_ahead_ms`."""
    record_after_ms: int = 500
    """An outcome waits this long for others to share its write, unless nothing else is under way."""
    record_after_longest_ms: int = 4_000
    """How long it may wait on a node with many busy minutes. Longer: fewer writes, more in doubt after a crash."""
    commits_per_second: int = 32
    """What a node's busy minutes should write together, about; they wait longer for that, up to the bound above."""
    record_rows: int = 500
    """Outcomes in one advance; as many waiting make it due at once. More: fewer writes for Cassandra, each of which
    takes longer, and more in doubt after a crash."""
    window_rows: int = 2_000
    """Rows of one minute held in memory; what does not fit stays in Cassandra and is read when there is room."""
    rows_memory_mb: int = 160
    """MiB for the rows of all minutes of a process, about; busy minutes hold fewer rows each for it. Less: more reads
    of fewer rows where very much is due."""
    page_reads_at_once: int = 16
    """Pages of rows that a process reads at a time. More of them time out rather than go faster."""
    rescan_apart_ms: int = 2_000
    """From the end of a read of a whole minute to the next one where more rows are created near their time than can be
    told one by one. Longer: fewer reads, and such rows are that much later."""
    grace_ms: int = 10_000
    """From the minute's end to its sweep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationSettings:
    """How receivers are protected from their callers, and callers from their receivers."""

    destination_share: float = 0.8
    """The part of a client's max_in_flight that one host may take up unless the client says otherwise."""
    destination_connections: int = 200
    """Calls of one client to one host at the same time, unless the client says otherwise: a host that answers in 20 ms
    takes 10,000 a second over so many."""
    destinations_per_client: int = 1000
    """Hosts of one client whose failures and rates are remembered. More costs memory, less forgets sooner."""
    breaker_failures: int = 20
    """Failures in a row after which a client's calls to a receiver's host are held back. Well above the attempts of one
    schedule, so that a single bad callback does not stop its neighbours."""
    breaker_open_seconds: float = 5.0
    """How long they are held back the first time; doubled each time the host fails again when it is tried."""
    breaker_longest_seconds: float = 300.0
    """The longest they are held back at a time."""
    breaker_probes: int = 3
    """Calls at the same time to a host that is tried again."""

    def __post_init__(self) -> None:
        if not 0 < self.destination_share <= 1:
            raise ValueError("destination_share must be above 0 and at most 1")
        if self.destination_connections < 1:
            raise ValueError("destination_connections must be at least 1")
        if self.destinations_per_client < 1:
            raise ValueError("destinations_per_client must be at least 1")
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
    """The part of what a client's pollers are guaranteed (each 1,000 calls a minute) at which all that is to be
    redelivered for it is spread. More is done sooner, and leaves fresh calls less of the guarantee."""
    cancels_per_second: float = 500.0
    """Schedules that one reconciliation cancels a second. More is done sooner, at Cassandra's cost."""
    rows_read_per_second: float = 5_000.0
    """Schedules, and minutes of pollers, that one reconciliation reads a second. More is done sooner, at the cost of a
    node's and Cassandra's time."""

    def __post_init__(self) -> None:
        if not 0 < self.redeliver_share <= 1:
            raise ValueError("redeliver_share must be above 0 and at most 1")
        for name in ("cancels_per_second", "rows_read_per_second"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundSettings:
    """How much of storage a node may use for the past: recovery, ends of retried calls on their way to their schedules,
    recounts, searches, reconciliations, retention."""

    requests_at_once: int = 16
    """Requests of that kind that a node has under way at once while storage answers well. More catches up sooner after
    an outage, at the cost of Cassandra's time; fewer are made by themselves while Cassandra is slow."""
    slow_ms: int = 250
    """Milliseconds above which the p99 of all of a node's storage requests counts as slow: then fewer are made for the
    past. Lower spares the present more, and recovers later."""
    longest_pause_seconds: float = 5.0
    """The longest pause between two of them while Cassandra leaves requests without an answer. Longer gives it more
    rest, and an outage takes that much longer to be noticed as over."""

    def __post_init__(self) -> None:
        for name in ("requests_at_once", "slow_ms"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if not 0 < self.longest_pause_seconds <= 60:
            raise ValueError("longest_pause_seconds must be above 0 and at most 60")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """Bounds of one node process."""

    minute: MinuteSettings = field(default_factory=MinuteSettings)
    destinations: DestinationSettings = field(default_factory=DestinationSettings)
    clients: ClientBounds = field(default_factory=ClientBounds)
    reconciliations: ReconciliationSettings = field(default_factory=ReconciliationSettings)
    background: BackgroundSettings = field(default_factory=BackgroundSettings)
    recovery_minutes_at_once: int = 4
    """Minutes of the past that run beside the present after a takeover or an outage; one client gets half of them at
    most. More recovers sooner, at the cost of fresh calls' lateness."""
    capacity_per_minute: int = 300_000
    """Calls a minute that this node is sized for; shown against what the quotas guarantee."""
    weight: float = 1.0
    """This node's share of the pollers, relative to the others'."""
    named_clients: int = 0
    """Clients that the metrics show by name, those with the most calls; all others are shown together. `/metrics` asks
    for no key, so everybody who reaches the node's port reads these names. More costs Prometheus memory: up to twice as
    many series a metric, on every node."""
    retention_waits_for_archive: bool = False
    """Whether schedules past their client's retention are kept until their day is archived by `minutehand spark run
    archive`. Then run it every day: what is not archived is kept for ever. The same on all nodes, or it holds for
    none."""

    def __post_init__(self) -> None:
        if self.recovery_minutes_at_once < 1:
            raise ValueError("recovery_minutes_at_once must be at least 1")
        if not self.weight > 0:
            raise ValueError("weight must be above 0")
        if self.named_clients < 0:
            raise ValueError("named_clients must be at least 0")
