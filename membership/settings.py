"""The times and limits of membership. All nodes of a cluster must use the same times."""

from dataclasses import dataclass

from membership.errors import SettingsInvalid


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipSettings:
    """Times are in seconds; each field says what a change costs. Contradictions raise `SettingsInvalid`."""

    beat_seconds: float = 1.0
    """Between two heartbeats, two reads of the members, and two rounds of the lease balancer. Shorter: more store
    requests."""
    trust_seconds: float = 4.0
    """How long a confirmed heartbeat lets an incarnation act, from the start of its write. Shorter: a slow store stops
    it."""
    dead_after_seconds: float = 6.0
    """How long an incarnation must be silent before it may be declared dead. Longer: its pollers stand still for
    longer."""
    send_margin_seconds: float = 2.0
    """What may pass from a trust check to bytes on the wire, plus the clocks' error over `dead_after_seconds`."""
    gap_seconds: float = 2.0
    """An observer whose own reads paused for this long starts all its observations again."""
    retry_seconds: float = 0.25
    """Pause after a request that the store did not answer."""
    max_beats_in_flight: int = 4
    """Unanswered heartbeat writes at once. Fewer: one hanging write may cost the trust."""
    record_refresh_seconds: float = 10.0
    """How old an observer's knowledge of an incarnation's record may be. Longer: fewer reads, but a death that follows
    a lapse of trust may take one more `dead_after_seconds` to decide."""
    max_concurrent_records: int = 8
    """Reads of incarnation records, and declarations of death, under way at once."""
    clock_limit_ms: int = 1_000
    """A node whose wall clock is off by this much against the members' median gives up its pollers until it agrees.
    Cassandra's servers have a say from 5 s on."""
    clock_window_beats: int = 30
    """Heartbeats over which a clock's offset is taken. More: steadier, and slower to see a change."""
    leave_seconds: float = 5.0
    """How long a stopping process tries to write that it left. Shorter: others may have to wait for its death."""
    drain_seconds: float = 15.0
    """How long started work may take to end before its poller is released all the same. Shorter: more is in doubt."""
    max_concurrent_drains: int = 1_000
    """Pollers being drained at once. Fewer: a node with slow receivers takes longer to hand over."""
    max_concurrent_lease_writes: int = 32
    """Takes and releases under way at once, one a client. More: faster moves, more load on the store."""
    pollers_per_lease_write: int = 64
    """Pollers of one client that share a conditional write. More: faster moves of clients with many pollers, and more
    pollers in doubt when one answer is lost."""
    max_concurrent_mark_writes: int = 8
    """Writes of watermarks and lagging flags under way at once; they wait for takes and releases."""
    max_concurrent_lease_reads: int = 8
    """Reads of clients' leases under way at once."""
    lease_reads_per_round: int = 200
    """Clients whose leases are read in one round of the lease balancer while pollers are missing."""
    fruitless_seconds: float = 5.0
    """Between two reads of a client's leases after `patience_rounds` rounds in which nothing could be taken."""
    patience_rounds: int = 20
    """Rounds in which a client's missing pollers are looked for at every beat, before that slows down. Fewer than a
    drain may last: the winner of a poller that took long to drain notices its release late."""
    mark_round_seconds: float = 10.0
    """Between two looks at which pollers lag behind or have caught up."""
    lag_marks: int = 3
    """A poller this many marks (minutes) behind the median of the held ones no longer holds the low watermark back."""
    watermark_marks: int = 30
    """A lagging poller's watermark is written again after it moved by this many marks. Fewer: less to read again after
    a crash, more writes while catching up."""

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
            raise SettingsInvalid("beat_seconds must be above 0 and send_margin_seconds not below it.")
