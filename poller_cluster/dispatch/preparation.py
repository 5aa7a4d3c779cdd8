"""From a ready row to its request, with what only this node has: its keys, and the tokens of destinations.

ready row --prepare--> Prepared    the dispatcher starts its attempt
              |------> Outcome     it ends without an attempt, or is deferred: headers or destination are locked, or
              |                    there is no token (`TOKEN_UNAVAILABLE`)
              `------> None        it waits here for its token, and is then given to `on_token`
"""

from collections.abc import Callable, Sequence

from poller_cluster.clients import ServedClient, ServedClients
from poller_cluster.delivery.result import AttemptResult
from poller_cluster.delivery.token_request import TokenFailure
from poller_cluster.dispatch.attempt_traces import UNTRACED, AttemptTraces
from poller_cluster.dispatch.job import Job
from poller_cluster.dispatch.named_rows import locked
from poller_cluster.dispatch.outcome import HEADERS_LOCKED, TOKEN_UNAVAILABLE, defer_for
from poller_cluster.dispatch.request import Prepared, Sender, prepare, unsent
from poller_cluster.dispatch.tokens import Fetcher, TokenAwaited, TokenKey, Tokens, TokenUnavailable
from poller_cluster.node_runtime import NodeRuntime
from scheduler_service.domain.errors import SecretLocked
from scheduler_service.domain.schedules import Outcome, State

UNAUTHORIZED = 401


class Preparation:
    """Prepares the rows of one node. `sender`: who calls."""

    def __init__(
        self,
        *,
        clients: ServedClients,
        sender: Sender,
        fetcher: Fetcher,
        runtime: NodeRuntime,
        on_token: Callable[[Sequence[Job]], None],
        on_fetched: Callable[[TokenKey, TokenFailure | None], None],
        traces: AttemptTraces = UNTRACED,
    ) -> None:
        self.sender = sender
        self.tokens: Tokens[Job] = Tokens(
            fetcher=fetcher,
            monotonic=runtime.clock.monotonic,
            fraction=runtime.randomness.fraction,
            on_ended=on_token,
            on_fetched=on_fetched,
        )
        self._open_headers = clients.open_headers
        self._randomness = runtime.randomness
        self._on_fault = runtime.on_fault
        self._traces = traces

    def prepare(self, job: Job, client: ServedClient, *, now: int, judged_at: int) -> Prepared | Outcome | None:
        """The request of an attempt that starts at `now` (Unix ms); lateness is judged at `judged_at`."""
        claim = job.claim
        try:
            return prepare(
                claim,
                client=client,
                epoch=job.owner.epoch,
                sender=self.sender,
                now=now,
                judged_at=judged_at,
                open_headers=self._open_headers,
                bearer=self.tokens.bearer,
                traces=self._traces,
            )
        except SecretLocked:
            return locked(claim, now=now, fraction=self._randomness.fraction(), reason=HEADERS_LOCKED)
        except TokenAwaited as awaited:
            self.tokens.wait(awaited.key, job)
            return None
        except TokenUnavailable as missing:
            return self._until_asked_again(job, missing, now)
        except Exception as error:
            # A row of which no request can be made must fail alone, or all rows behind it would wait.
            self._on_fault(f"row {claim.row.schedule_id}", error)
            return unsent(claim, State.FAILED, "internal", now, job.owner.epoch, self.sender)

    def attempt_ended(self, job: Job, prepared: Prepared, result: AttemptResult) -> None:
        """To be told of attempts that were prepared with a token or a trace."""
        if prepared.sent is not None and result.status == UNAUTHORIZED:
            self.tokens.rejected(*prepared.sent)
        if prepared.trace is not None:
            self._traces.ended(job.owner.client_id, job.claim, prepared.trace, result)

    def _until_asked_again(self, job: Job, missing: TokenUnavailable, now: int) -> Outcome:
        """The rows come back spread over as long again as the pause, so that they don't come all at once."""
        seconds = missing.seconds + missing.pause * self._randomness.fraction()
        return defer_for(job.claim, seconds, now=now, reason=TOKEN_UNAVAILABLE)
