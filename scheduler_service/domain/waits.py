"""What a late call waited for, as it is remembered and stored. Pure.

A row that is late by more than `LATE_MS`, deferred or retried has behind its `fired_by` what its schedule has waited
for so far, in whole milliseconds by cause, and for an ordering key behind which schedule:

    node-1@1763836790000 waited ordering=1500/01a1fe8c-3c6a-8000-8000-1f6d8a5bd3c1,flow=200

A row that nobody has called yet has nothing before the blank. These texts are shown; all that acts on them is the retry
deadline of acknowledged work (`poller_cluster.dispatch.outcome`). Programs that do not know them show or archive them
as part of `fired_by`. There is at most one entry for each cause, so
their length is bounded.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

LATE_MS: Final = 1_000
"""A call that starts no later than this after its due is on time."""
OVERDUE_RATE_HELD: Final = "overdue-rate"
CAUSES: Final[Mapping[str, str]] = {
    "ordering": "an earlier call of its ordering key had not ended",
    "flow": "the limits of its flow key were reached",
    "long-calls": "as many calls with long time-outs were under way as may be",
    "receiver": "its receiver had no room: the client's limits for each host, or the destination's own",
    "receiver-open": "its receiver only failed, so calls were held back",
    "destination-paused": "its destination was paused",
    "destination-locked": "nodes could not decrypt its destination, or did not admit its target",
    "destination-unknown": "a node did not know its destination yet",
    "headers-locked": "nodes had no key that decrypts its headers",
    "token-unavailable": "there was no token for its destination",
    "overlap": "another run of its cron had not ended",
    "late-create": "it was created when its minute was being called",
    "takeover": "its poller had no living owner",
    "client-inactive": "the client was suspended or paused",
    "trust": "its node could not be sure to be alone, and called nothing",
    "clock": "its node's clock was in doubt",
    "in-flight": "the client had as many calls under way as it may have",
    OVERDUE_RATE_HELD: "overdue calls were made at the rate that an administrator has set",
    "quota": "the minute had more calls than its quota guarantees, and those were called first",
    "node": "its node was busy, or storage was slow",
}
"""The causes, each with what it says."""
_MARK: Final = " waited "


class Wait(NamedTuple):
    """For how long a schedule waited for one cause, and for its ordering key: behind which schedule last."""

    cause: str
    ms: int
    behind: str | None = None


def fired_by_of(text: str | None) -> str | None:
    """The node incarnation in a stored `fired_by`; None: nobody called."""
    return None if text is None else text.partition(_MARK)[0] or None


def read_waits(text: str | None) -> list[Wait]:
    """What is said behind a stored `fired_by`. Entries that this program can't read are left out."""
    said: list[Wait] = []
    if text is None or _MARK not in text:
        return said
    for entry in text.partition(_MARK)[2].split(","):
        cause, _, value = entry.partition("=")
        ms, _, behind = value.partition("/")
        if ms.isdecimal():
            said.append(Wait(cause, int(ms), behind or None))
    return said


class Waits:
    """What one schedule has waited for. Made only for rows that wait: all others have none."""

    __slots__ = ("_behind", "_fired_by", "_leg_ms", "_ms")

    def __init__(self, text: str | None = None) -> None:
        """`text`: a stored `fired_by`, whose waits are taken over."""
        self._ms: dict[str, int] = {}
        self._fired_by = ""
        self._behind: str | None = None
        self._leg_ms = 0
        if text is None:
            return
        self._fired_by = fired_by_of(text) or ""
        for wait in read_waits(text):
            self._ms[wait.cause] = wait.ms
            self._behind = wait.behind or self._behind

    def add(self, cause: str, ms: int, *, behind: str | None = None) -> None:
        """Count time of the row's present wait, from its own instant on."""
        if ms > 0:
            self._ms[cause] = self._ms.get(cause, 0) + ms
            self._leg_ms += ms
            self._behind = behind or self._behind

    def ms_of(self, cause: str) -> int:
        """How long the schedule has waited for this cause."""
        return self._ms.get(cause, 0)

    @property
    def leg_ms(self) -> int:
        """How much of the time since the row's own instant is counted."""
        return self._leg_ms

    def deferred(self, cause: str, ms: int, *, behind: str | None = None) -> str:
        """What is stored of a row that is deferred without a call, until `ms` after its own instant. Changes nothing
        here, because it may not come to that."""
        after = Waits()
        after._ms, after._behind, after._leg_ms = dict(self._ms), self._behind, self._leg_ms
        after.add(cause, ms - self._leg_ms, behind=behind)
        return after.text(self._fired_by)

    def text(self, fired_by: str) -> str:
        """What is stored: `fired_by`, and what was waited for."""
        if not self._ms:
            return fired_by
        entries = (
            f"{cause}={ms}/{self._behind}" if cause == "ordering" and self._behind is not None else f"{cause}={ms}"
            for cause, ms in self._ms.items()
        )
        return f"{fired_by}{_MARK}{','.join(entries)}"
