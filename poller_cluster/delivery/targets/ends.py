"""How a call to a target ends, and the result that the dispatcher gets for it. Pure."""

from enum import Enum
from typing import Final, NamedTuple

from poller_cluster.delivery.result import AttemptError, AttemptResult

_LONGEST_DETAIL: Final = 200


class End(Enum):
    """See the docstring of the package."""

    DONE = "done"
    REFUSED = "refused"
    UNAVAILABLE = "unavailable"
    TIMED_OUT = "timed-out"
    NOT_SENT = "not-sent"
    WITHDRAWN = "withdrawn"
    STOPPED = "stopped"


class TargetEnd(NamedTuple):
    """`detail`: a sentence for people, without payloads and secrets, cut after 200 characters. `nothing_sent`:
    certainly no byte of the call has taken effect; NOT_SENT and WITHDRAWN mean that already."""

    end: End
    detail: str = ""
    nothing_sent: bool = False


DONE: Final = TargetEnd(End.DONE)
WITHDRAWN: Final = TargetEnd(End.WITHDRAWN, "this node lost its right to act before the call was sent")
STOPPED: Final = TargetEnd(End.STOPPED, "the target was stopped meanwhile")
ERRORS: Final[dict[End, AttemptError | None]] = {
    End.DONE: None,
    End.REFUSED: "rejected",
    End.UNAVAILABLE: "unavailable",
    End.TIMED_OUT: "timeout",
    End.NOT_SENT: "internal",
    End.WITHDRAWN: "not-trusted",
    End.STOPPED: "stopped",
}
_NEVER_SENT: Final = frozenset({End.NOT_SENT, End.WITHDRAWN})


def result_of(ended: TargetEnd, *, kind: str, started_at_ms: int, duration_seconds: float) -> AttemptResult:
    """The result of an attempt that ended so. `kind`: of its target."""
    return AttemptResult(
        status=None,
        kind=kind,
        error=ERRORS[ended.end],
        detail=_storable(ended.detail),
        nothing_sent=ended.nothing_sent or ended.end in _NEVER_SENT,
        final=ended.end is End.REFUSED,
        started_at_ms=started_at_ms,
        duration_seconds=duration_seconds,
    )


def _storable(detail: str) -> str:
    """Cut, and without what is no text to storage: a target may quote the name of a file."""
    return detail[:_LONGEST_DETAIL].encode(errors="replace").decode()
