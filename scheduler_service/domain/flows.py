"""Flow keys: calls that share a rate and a parallelism, such as those for one customer. Pure.

A callback names its flow key. What it says of rate and parallelism is stored in its row; what it does not say is as the
client's rules have it when the row is claimed. Rows of one key may say different things: each is held to its own
limits, against what the key as a whole has under way and has started.

All rows of a key are placed in one poller, so that one node sees all calls of it (`quotas.pinned_poller`).
"""

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

MAX_FLOW_KEY = 256
"""Characters of a flow key."""
MAX_FLOW_PREFIXES = 100
"""Rules of one client by prefix."""

FlowKey: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_FLOW_KEY)]
FlowRate: TypeAlias = Annotated[float, Meta(ge=0.0001, le=10_000)]
FlowParallelism: TypeAlias = Annotated[int, Meta(ge=1, le=10_000)]


class FlowLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Calls of one flow key: started a second (may be below 1), and under way at a time. Null: not limited."""

    rate: FlowRate | None = None
    parallelism: FlowParallelism | None = None


NO_LIMITS = FlowLimits()


class FlowRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The limits of flow keys that begin with a prefix, of which the longest counts, and by default of all others."""

    default: FlowLimits = NO_LIMITS
    prefixes: Annotated[dict[FlowKey, FlowLimits], Meta(max_length=MAX_FLOW_PREFIXES)] = {}

    def of(self, key: str) -> FlowLimits:
        """The limits that these rules give a key."""
        if not self.prefixes:
            return self.default
        for length in range(len(key), 0, -1):
            if (found := self.prefixes.get(key[:length])) is not None:
                return found
        return self.default


class Flow(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The flow key of a row, with the limits that its request gave."""

    key: str
    rate: float | None = None
    parallelism: int | None = None

    def limits(self, rules: FlowRules | None) -> FlowLimits:
        """What holds for this row under the client's rules."""
        if self.rate is not None and self.parallelism is not None:
            return FlowLimits(self.rate, self.parallelism)
        ruled = NO_LIMITS if rules is None else rules.of(self.key)
        return FlowLimits(
            ruled.rate if self.rate is None else self.rate,
            ruled.parallelism if self.parallelism is None else self.parallelism,
        )
