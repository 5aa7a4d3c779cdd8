"""The state of one attempt under way, and how it becomes a result."""

from collections.abc import Callable

from poller_cluster.delivery.answer import retry_after_seconds
from poller_cluster.delivery.connection import Connection
from poller_cluster.delivery.request import CallbackRequest
from poller_cluster.delivery.result import AttemptResult, Verdict, not_connected, refused, timed_out
from poller_cluster.delivery.sight import AnyAnswer, Sight, socket_name
from poller_cluster.delivery.target import Endpoint
from scheduler_service.domain.end_notices import KeptAnswer, kept_headers
from scheduler_service.domain.network import Refusal
from scheduler_service.domain.verbs import RETRY_AFTER, read_asked

OnDone = Callable[[AttemptResult], None]
MayStart = Callable[[], bool]


class Attempt:
    """`addresses` are tried in order, from `next_address` on. `peer`: what connections are made to, the receiver or a
    forward proxy. `opening`: connections being made. `sends`: how often the request was written. `due`: when the engine
    has to look at it next, `deadline`: when it times out. `answer_due`: when the answer is cut off, and its status
    decides. `repeated_at`: when it was last repeated, 0 if never.

    Instants are monotonic seconds. `tick` belongs to `Deadlines`.
    """

    addresses: tuple[str, ...] = ()
    answer_due: float | None = None
    connection: Connection["Attempt"] | None = None
    last_error: OSError | None = None
    next_address = 0
    opened = False
    over = False
    refusal: Refusal | None = None
    repeated_at = 0.0
    sends = 0
    sight: Sight | None = None
    tick = 0
    # Defaults are class attributes, so that `__init__` need not assign them for each attempt.

    def __init__(
        self,
        request: CallbackRequest,
        endpoint: Endpoint,
        head: bytes,
        *,
        on_done: OnDone,
        may_start: MayStart,
        started_at_ms: int,
        started: float,
        connect_timeout_seconds: float,
    ) -> None:
        self.request = request
        self.endpoint = endpoint
        channel = request.channel
        self.peer = endpoint if channel is None or channel.peer is None else channel.peer
        self.head = head
        self.on_done = on_done
        self.may_start = may_start
        self.started_at_ms = started_at_ms
        self.started = started
        self.connect_timeout_seconds = connect_timeout_seconds
        self.connect_deadline = started + connect_timeout_seconds
        self.deadline = self.due = started + request.timeout_seconds
        self.opening: list[Connection[Attempt]] = []

    @property
    def proxied(self) -> bool:
        return self.peer is not self.endpoint

    def socket_name(self, address: str) -> str:
        """How an observation names the socket; a forward proxy's address is the operator's and is not shown."""
        return self.peer.authority if self.proxied else socket_name(address, self.peer.target.port)

    def repeat(self, now: float) -> None:
        """Start over, with the whole time for connecting again."""
        self.repeated_at = now
        self.connect_deadline = min(self.deadline, now + self.connect_timeout_seconds)

    @property
    def no_connection(self) -> Verdict:
        """Why none could be made to any address."""
        if self.refusal is not None and not self.opened:
            return refused(self.refusal)
        return not_connected(self.last_error or OSError(), proxied=self.proxied)

    @property
    def timed_out(self) -> Verdict:
        return timed_out(
            self.sends,
            timeout_seconds=self.request.timeout_seconds,
            connect_timeout_seconds=self.connect_timeout_seconds,
        )

    def without_status(self, verdict: Verdict, now: float) -> AttemptResult:
        """The result if no final status came."""
        return AttemptResult(
            status=None,
            error=verdict.error,
            detail=verdict.detail,
            nothing_sent=self.sends == 0,
            final=verdict.final,
            started_at_ms=self.started_at_ms,
            duration_seconds=now - self.started,
        )

    def with_status(self, answer: AnyAnswer, *, broke_off: bool, now: float, wall_ms: int) -> AttemptResult:
        """The result if a final status came. `broke_off`: the answer neither ended properly nor was cut off by us."""
        kept = _kept(answer) if self.request.keeps_answer else None
        asked, fields = None, answer.fields() if answer.status >= 300 or answer.may_ask else []
        if answer.status >= 300 or fields:
            asked = read_asked(answer.status, fields if answer.may_ask else (), wall_ms=wall_ms)
        if answer.status < 300:
            return AttemptResult(
                status=answer.status,
                error=None,
                started_at_ms=self.started_at_ms,
                duration_seconds=now - self.started,
                asked=asked,
                answer=kept,
            )
        pause = next((value for name, value in fields if name.lower() == RETRY_AFTER), None)
        return AttemptResult(
            status=answer.status,
            error=None,
            detail="the answer broke off" if broke_off else "",
            started_at_ms=self.started_at_ms,
            duration_seconds=now - self.started,
            excerpt=answer.excerpt,
            retry_after_seconds=None if pause is None else retry_after_seconds(pause, wall_ms=wall_ms),
            asked=asked,
            answer=kept,
        )


def _kept(answer: AnyAnswer) -> KeptAnswer:
    return KeptAnswer(status=answer.status, headers=kept_headers(answer.fields()), body=answer.body, cut=answer.cut)
