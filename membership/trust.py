"""An incarnation's trust: whether it may still act, judged by its own monotonic clock alone. Pure.

```
             renewal answered applied, before its start + 4 s
  ┌────────┐ ─────────────────────────────────────────────────▶ ┌─────────┐ ─┐ beat confirmed: until its
  │ lapsed │                                                    │ trusted │  │ write's start + 4 s
  └────────┘ ◀───────────────────────────────────────────────── └─────────┘ ◀┘
   initial   │        the clock passed the end of the trust          │
             ▼                                                       ▼
           over: the record says dead or is gone; a newer incarnation was seen; stopped
```

There is no timer: each call compares the clock with `until`. A confirmed beat only prolongs trust that still holds, so
only a renewal ends a lapse, and only one that was itself answered *applied*. After an unknown answer the record is
read, and the renewal is repeated from what was read, even if that is the value that the lost one would have written.
"""

from membership.conditional import Answer, Applied, Rejected, Unknown
from membership.ports import IncarnationRecord


class Trust:
    """`renewals`: what the next renewal must be conditional on; None when the record must be read first."""

    __slots__ = ("_span", "_until", "over", "renewals")

    def __init__(self, *, trust_seconds: float) -> None:
        self._span = trust_seconds
        self._until = float("-inf")
        self.renewals: int | None = 0
        self.over = False

    def trusted(self, now: float) -> bool:
        return now < self._until and not self.over

    def beat_confirmed(self, *, begun: float, now: float) -> None:
        """The write of a heartbeat that began at `begun` was acknowledged."""
        if self.trusted(now):
            self._until = max(self._until, begun + self._span)

    def renewal_answered(self, answer: Answer[IncarnationRecord | None], *, begun: float) -> None:
        """The renewal that began at `begun`, conditional on `renewals`, was answered."""
        match answer:
            case Applied():
                if self.renewals is None:
                    raise ValueError("a renewal was answered that cannot have been begun: the record was unknown")
                self.renewals += 1
                self._until = max(self._until, begun + self._span)
            case Rejected(current):
                self.record_read(current)
            case Unknown():
                self.renewals = None

    def record_read(self, record: IncarnationRecord | None) -> None:
        """Take in this incarnation's record, read serially. It never gives trust."""
        if record is None or not record.alive:
            self.over = True
        else:
            self.renewals = record.renewals
