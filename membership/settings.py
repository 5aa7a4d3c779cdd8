"""Settings of membership."""

from dataclasses import dataclass

from membership.errors import SettingsInvalid


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipSettings:
    """Times and limits of membership; times are in seconds. All nodes of a cluster must use the same. Contradictions
    raise `SettingsInvalid`."""

    beat_seconds: float = 1.0
    """Seconds between two heartbeats, two reads of the members, and two rounds of the lease balancer. Shorter: more
    requests to storage."""
    trust_seconds: float = 4.0
    """Seconds for which a confirmed heartbeat lets an incarnation act, counted from the start of its write. Shorter:
    slow storage stops the node sooner."""
    dead_after_seconds: float = 6.0
    """Seconds of silence after which an incarnation may be declared dead. Longer: the pollers of a dead node stand
    still for longer."""
    send_margin_seconds: float = 2.0
    """Seconds that may pass between a check of trust and bytes on the wire, plus the drift of two clocks over
    `dead_after_seconds`."""
    gap_seconds: float = 2.0
    """If an observer's own reads paused for this many seconds, it starts all its observations again."""
    retry_seconds: float = 0.25
    """Seconds of pause after a request that storage did not answer."""
    max_beats_in_flight: int = 4
    """Unanswered heartbeat writes at once. Fewer: a single write that hangs may cost the trust."""
    record_refresh_seconds: float = 10.0
    """Seconds after which an observer reads an incarnation's record again. Longer: fewer reads, but to declare a death
    after a lapse of trust may take one more `dead_after_seconds`."""
    max_concurrent_records: int = 8
    """Concurrent reads of incarnation records, and declarations of death."""
    clock_limit_ms: int = 1_000
    """Milliseconds by which a node's wall clock may differ from the members' median. Beyond that it releases its
    pollers until the clock agrees again. Cassandra's servers' clocks count beyond a difference of 5 s."""
    clock_window_beats: int = 30
    """Heartbeats over which a clock's offset is measured. More: a steadier value, and a change is seen later."""
    leave_seconds: float = 5.0
    """Seconds for which a stopping process tries to write that it left. Shorter: others may have to wait until it is
    declared dead."""
    drain_seconds: float = 15.0
    """Seconds that started work may take to end before its poller is released anyway. Shorter: more calls are in
    doubt."""
    max_concurrent_drains: int = 1_000
    """Pollers that a node drains at once. Fewer: a node with slow receivers takes longer to hand over."""
    max_concurrent_lease_writes: int = 32
    """Concurrent takes and releases, one for each client. More: faster moves, and more load on storage."""
    pollers_per_lease_write: int = 64
    """Pollers of one client that share a conditional write. More: clients with many pollers move faster, and more
    pollers are in doubt when an answer is lost."""
    max_concurrent_mark_writes: int = 8
    """Concurrent writes of watermarks and lagging flags; takes and releases go first."""
    max_concurrent_lease_reads: int = 8
    """Concurrent reads of clients' leases."""
    lease_reads_per_round: int = 200
    """Clients whose leases are read in one round of the lease balancer while pollers are missing."""
    fruitless_seconds: float = 5.0
    """Seconds between two reads of a client's leases once `patience_rounds` rounds have taken none of its pollers."""
    patience_rounds: int = 20
    """Rounds in which a client's missing pollers are looked for at every beat, before that slows down. If this is
    shorter than a drain may take, the next owner of a poller that drains slowly notices its release late."""
    mark_round_seconds: float = 10.0
    """Seconds between two checks of which pollers lag or have caught up."""
    lag_marks: int = 3
    """A poller whose watermark is this many minutes behind the median of the node's pollers counts as lagging, and no
    longer holds back the low watermark in the node's heartbeat."""
    watermark_marks: int = 30
    """Minutes by which a lagging poller's watermark must move before it is written again. Fewer: less to read again
    after a crash, and more writes while catching up."""

    def __post_init__(self) -> None:
        needed = self.trust_seconds + self.send_margin_seconds
        if self.dead_after_seconds < needed:
            raise SettingsInvalid(
                f"dead_after_seconds is {self.dead_after_seconds:g}; it must be at least trust_seconds + "
                f"send_margin_seconds = {needed:g}, or two nodes could act for one poller: raise it."
            )
        if self.trust_seconds < 2 * self.beat_seconds:
            raise SettingsInvalid(
                f"trust_seconds is {self.trust_seconds:g}; with a beat every {self.beat_seconds:g} s it must be at "
                f"least {2 * self.beat_seconds:g}, or one late answer stops all calls: raise it."
            )
        if not self.beat_seconds < self.gap_seconds < self.dead_after_seconds:
            raise SettingsInvalid(
                f"gap_seconds is {self.gap_seconds:g}; it must lie between beat_seconds ({self.beat_seconds:g}) and "
                f"dead_after_seconds ({self.dead_after_seconds:g})."
            )
        if self.beat_seconds <= 0 or self.send_margin_seconds < 0:
            raise SettingsInvalid("beat_seconds must be above 0, and send_margin_seconds must not be negative.")
