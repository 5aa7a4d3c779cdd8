"""Turns claimed rows of `$events` into calls of the clients whose events they send.

    submit --> [reading the feed] --> the dispatcher, in the client's turn --> attempt_ended of the row's run
                  |    |
                  |    '--> ended without a call: nothing is wanted any more, or the subscription is gone
                  '-------> deferred, with no attempt counted: the client is held, or the destination not known yet

To its run a row looks as if the dispatcher had it: it gets one outcome, or is taken back by `withdraw`.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from membership.errors import StoreUnavailable
from poller_cluster.clients import ServedClient, ServedClients
from poller_cluster.dispatch.dispatcher import Dispatcher
from poller_cluster.dispatch.job import Claim, ClaimingRun, Job
from poller_cluster.dispatch.outcome import defer
from poller_cluster.dispatch.receivers import Receiver
from poller_cluster.held_pollers import HeldPollers
from poller_cluster.node_runtime import NodeRuntime
from poller_cluster.notices.success_deadlines import LOOK_AGAIN_MS, Append, Looked, SuccessDeadlines
from scheduler_service.domain.clients import ClientState
from scheduler_service.domain.destinations import named_url, read_named_url
from scheduler_service.domain.end_notices import EndNotice
from scheduler_service.domain.ids import DAY_MS, ClientId, RowKey, UnixMillis, due_of, poller_of
from scheduler_service.domain.notices import (
    EVENTS_CLIENT,
    EVENTS_GONE,
    NOTICE_SCHEME,
    DeadlineContent,
    EventContent,
    NoticeContent,
    decode_notice,
    end_notice_body,
    notice_body,
    tried_for_ms,
    wants,
)
from scheduler_service.domain.options import (
    RetryOverride,
    ScheduleOptions,
    Undecodable,
    decode_options,
    encode_headers,
    encode_options,
)
from scheduler_service.domain.ports import ClientStore, DestinationStore, EventStore, SubscriptionStore
from scheduler_service.domain.schedules import Outcome, Row, State
from scheduler_service.domain.subscriptions import Subscription, decode_subscription
from scheduler_service.runtime.backoff import Backoff

HELD_MS: Final = 60_000
"""A notice of a client whose calls are held is looked at again after this time to twice of it."""
UNKNOWN_MS: Final = 2_000
"""The same where this node does not know the client or its destination yet."""
CLIENT_INACTIVE: Final = "client-inactive"
DESTINATION_UNKNOWN: Final = "destination-unknown"
SUBSCRIPTION_OVER: Final = "subscription-over"
"""The subscription was deleted or disabled, or its client deleted."""
UNWANTED: Final = "unwanted"
"""The subscription wants none of the events any more."""
_HEADERS: Final = encode_headers([("content-type", "application/json")])


class _Sender:
    """The rows of one run that send events of one client: the owner of its calls in the dispatcher. `reading`: those
    whose events are being read."""

    def __init__(self, calls: "NoticeCalls", run: ClaimingRun, client_id: ClientId) -> None:
        self.client_id, self.epoch, self.began_ms = client_id, run.epoch, run.began_ms
        self.run = run
        self.jobs: dict[RowKey, Job] = {}
        self.reading: set[RowKey] = set()
        self._calls = calls

    def attempt_ended(self, key: RowKey, outcome: Outcome, *, now: int) -> None:
        self._calls.ended(self, key, outcome, now=now)

    def may_send(self) -> bool:
        return self.run.may_send()

    def long_call(self, key: RowKey, *, under_way: bool) -> None:
        self.run.long_call(key, under_way=under_way)

    def queued_again(self) -> None:
        self.run.queued_again()


def is_notice(job: Job) -> bool:
    """Whether the dispatcher has this job for a notice."""
    return isinstance(job.owner, _Sender)


class NoticeCalls:
    """The notices of one node. Rows that have ended, or were taken back, give back their room."""

    def __init__(
        self,
        *,
        dispatcher: Dispatcher,
        clients: ServedClients,
        stored: ClientStore,
        pollers: HeldPollers,
        events: EventStore,
        subscriptions: SubscriptionStore,
        destinations: DestinationStore,
        runtime: NodeRuntime,
        append: Append,
        deadlines: SuccessDeadlines,
    ) -> None:
        self._append = append
        self._deadlines = deadlines
        self._dispatcher = dispatcher
        self._clients = clients
        self._stored = stored
        self._pollers = pollers
        self._events = events
        self._subscriptions = subscriptions
        self._destinations = destinations
        self._runtime = runtime
        self._senders: dict[ClaimingRun, dict[ClientId, _Sender]] = {}

    def submit(self, jobs: Sequence[Job]) -> None:
        """Send the notices of these rows when they are due."""
        for job in jobs:
            row, run = job.claim.row, job.owner
            client_id = ClientId((row.url or "").removeprefix(NOTICE_SCHEME))
            senders = self._senders.setdefault(run, {})
            sender = senders.get(client_id)
            if sender is None:
                sender = senders[client_id] = _Sender(self, run, client_id)
            sender.jobs[row.key] = job
            sender.reading.add(row.key)
            self._take_room(job)
            self._runtime.spawn(self._prepare(sender, job), name=f"notice {row.schedule_id}")

    def withdraw(self, run: ClaimingRun) -> list[Job]:
        """Take back every row of this run of which no attempt was started."""
        taken: list[Job] = []
        for sender in list(self._senders.get(run, {}).values()):
            keys = [*sender.reading, *(job.claim.row.key for job in self._dispatcher.withdraw(sender))]
            taken += [self._released(sender, key) for key in keys]
        return taken

    def clients_changed(self) -> None:
        """The calls of a client that is held now are deferred, so that their rows' minutes go on."""
        now = self._runtime.clock.wall_ms()
        for sender in [one for senders in list(self._senders.values()) for one in senders.values()]:
            client = self._clients.get(sender.client_id)
            if client is None or not client.active:
                for job in self._dispatcher.withdraw(sender):
                    key = job.claim.row.key
                    outcome = self._later(sender.jobs[key].claim, CLIENT_INACTIVE, HELD_MS)
                    self.ended(sender, key, outcome, now=now)

    def ended(self, sender: _Sender, key: RowKey, outcome: Outcome, *, now: int) -> None:
        """A row has its outcome."""
        self._released(sender, key)
        sender.run.attempt_ended(key, outcome, now=now)

    def _take_room(self, job: Job) -> None:
        self._dispatcher.reserve(EVENTS_CLIENT, 1)
        if (events := self._clients.get(EVENTS_CLIENT)) is not None:
            job.receiver = self._dispatcher.receiver(events, job.claim.row.url or "")
            job.receiver.outstanding += 1

    def _released(self, sender: _Sender, key: RowKey) -> Job:
        job = sender.jobs.pop(key)
        sender.reading.discard(key)
        receiver: Receiver[Job] | None = job.receiver
        if receiver is not None:
            receiver.released()
            job.receiver = None
        self._dispatcher.reserve(EVENTS_CLIENT, -1)
        if not sender.jobs:
            senders = self._senders[sender.run]
            del senders[sender.client_id]
            if not senders:
                del self._senders[sender.run]
            if not self._pollers.positions(sender.client_id):
                self._dispatcher.left(sender.client_id)
        return job

    async def _prepare(self, sender: _Sender, job: Job) -> None:
        claim = job.claim
        key, clock = claim.row.key, self._runtime.clock
        backoff = Backoff(clock=clock, randomness=self._runtime.randomness)
        while True:
            try:
                prepared = await self._called(claim)
            except StoreUnavailable:
                await backoff.wait()
                if sender.jobs.get(key) is not job:
                    return
                continue
            except Undecodable:
                prepared = _end(claim, State.FAILED, "undecodable", now=clock.wall_ms())
            except Exception as error:
                # A notice that can't be made must fail alone.
                self._runtime.on_fault(f"notice {claim.row.schedule_id}", error)
                prepared = _end(claim, State.FAILED, "internal", now=clock.wall_ms())
            break
        if sender.jobs.get(key) is not job:
            return
        sender.reading.discard(key)
        if isinstance(prepared, Outcome):
            self.ended(sender, key, prepared, now=clock.wall_ms())
        else:
            # The client's `in_doubt` does not apply, and receivers recognise events by their ids in any case.
            called = msgspec.structs.replace(claim, row=prepared, redelivery=False)
            self._dispatcher.submit([Job(sender, called, job.due, job.over_quota)])

    async def _called(self, claim: Claim) -> Row | Outcome:
        """The row as a call of the client, or the outcome of one that is not to be called. Raises Undecodable,
        StoreUnavailable."""
        content = decode_notice(claim.row.body)
        if isinstance(content, EventContent):
            if not await self._has_feed(content.client_id):
                return self._skipped(claim, Looked.NO_FEED)
            await self._append(poller_of(claim.row.schedule_id), content.client_id, content.event)
            return _end(claim, State.DELIVERED, None, now=self._runtime.clock.wall_ms())
        if isinstance(content, DeadlineContent):
            return await self._looked(claim, content)
        client = self._clients.get(content.client_id)
        if client is None:
            stored = await self._stored.read_client(content.client_id)
            if stored is None or stored.state is ClientState.DELETED:
                return self._skipped(claim, SUBSCRIPTION_OVER)
            return self._later(claim, CLIENT_INACTIVE, UNKNOWN_MS)
        if not client.active:
            return self._later(claim, CLIENT_INACTIVE, HELD_MS)
        if isinstance(content, EndNotice):
            return await self._end_notice(claim, client, content)
        return await self._events_notice(claim, client, content)

    async def _looked(self, claim: Claim, content: DeadlineContent) -> Outcome:
        # A look that finds no schedule counts as an attempt, which the row of the next one names.
        again = bool(claim.row.attempt_base)
        looked = await self._deadlines.look(poller_of(claim.row.schedule_id), content, again=again)
        now = self._runtime.clock.wall_ms()
        if looked is Looked.AGAIN:
            deferred = defer(claim, at=UnixMillis(now + LOOK_AGAIN_MS), in_doubt=False, reason=looked)
            return msgspec.structs.replace(deferred, attempts=deferred.attempts + 1)
        return _end(claim, State.DELIVERED if looked is Looked.TOLD else State.SKIPPED, looked, now=now)

    async def _end_notice(self, claim: Claim, client: ServedClient, content: EndNotice) -> Row | Outcome:
        """The end of a schedule, for the receiver that it names."""
        named = read_named_url(content.url)
        if named is not None and await self._is_unknown(client, named.name):
            return self._later(claim, DESTINATION_UNKNOWN, UNKNOWN_MS)
        return self._request(claim, client, content.url, end_notice_body(content))

    async def _events_notice(self, claim: Claim, client: ServedClient, content: NoticeContent) -> Row | Outcome:
        """Events of the feed, for a subscription."""
        subscription = await self._subscription(client, content.subscription)
        if subscription is None or not subscription.enabled:
            return self._skipped(claim, SUBSCRIPTION_OVER)
        if await self._is_unknown(client, subscription.destination):
            return self._later(claim, DESTINATION_UNKNOWN, UNKNOWN_MS)
        found = await self._events.read_events(
            content.client_id, content.place, after=content.first - 1, limit=content.last - content.first + 1
        )
        if not found:
            return _end(claim, State.FAILED, EVENTS_GONE, now=self._runtime.clock.wall_ms())
        wanted = [event for _, event in found if wants(subscription, event)]
        if not wanted:
            return self._skipped(claim, UNWANTED)
        url = named_url(subscription.destination, "")
        return self._request(claim, client, url, notice_body(content.client_id, content.subscription, wanted))

    async def _has_feed(self, client_id: ClientId) -> bool:
        """Whether events are kept for the client. What this node does not know may have been switched on a moment
        ago. Raises StoreUnavailable."""
        if self._clients.has_feed(client_id):
            return True
        stored = await self._stored.read_client(client_id)
        return stored is not None and stored.state is not ClientState.DELETED and stored.settings.event_feed

    def _request(self, claim: Claim, client: ServedClient, url: str, body: bytes) -> Row:
        """The row as the client's own call. It is none of its long calls: there may be a notice for each of its ends,
        and nothing holds them back from the places of long calls."""
        longest = self._dispatcher.long_calls.longest_other_seconds
        options = _options(claim, client, url, longest_seconds=longest)
        return msgspec.structs.replace(
            claim.row, method="POST", url=url, headers=_HEADERS, body=body, options=options, label=None
        )

    async def _subscription(self, client: ServedClient, name: str) -> Subscription | None:
        """As this node knows it; one that it does not know may have been made a moment ago."""
        if (known := client.subscriptions.get(name)) is not None:
            return known
        stored = await self._subscriptions.read_subscription(client.client_id, name)
        return None if stored is None else decode_subscription(stored.document)

    async def _is_unknown(self, client: ServedClient, destination: str) -> bool:
        """Whether this node will know the destination in a moment. One that does not exist fails as any call to it."""
        if destination in client.destinations:
            return False
        return await self._destinations.read_destination(client.client_id, destination) is not None

    def _skipped(self, claim: Claim, why: str) -> Outcome:
        return _end(claim, State.SKIPPED, why, now=self._runtime.clock.wall_ms())

    def _later(self, claim: Claim, why: str, after_ms: int) -> Outcome:
        """Look again after so many milliseconds to twice of them, unless that is too late."""
        now = self._runtime.clock.wall_ms()
        begins, tried_ms = tried_for_ms(decode_options(claim.row.options), due=due_of(claim.row.schedule_id))
        at = now + round(after_ms * (1 + self._runtime.randomness.fraction()))
        if at > begins + tried_ms:
            return _end(claim, State.FAILED, "deadline", now=now)
        return defer(claim, at=UnixMillis(at), in_doubt=False, reason=why)


def _options(claim: Claim, client: ServedClient, url: str, *, longest_seconds: float) -> str:
    """Those of a call that is retried as its destination says, for a day at most, and is never skipped. A redelivery
    begins its retries again. Raises Undecodable."""
    stored = decode_options(claim.row.options)
    _, tried_ms = tried_for_ms(stored, due=due_of(claim.row.schedule_id))
    settings = client.settings_for(url)
    seconds = min(settings.retry.deadline_seconds, tried_ms / 1000.0)
    timeout = client.attempt_seconds(None, settings)
    options = ScheduleOptions(
        retry=RetryOverride(deadline_seconds=seconds),
        timeout_seconds=longest_seconds if timeout > longest_seconds else None,
        skip_after_seconds=30.0 * DAY_MS / 1000.0,
        notice=True,
        redelivery=stored.redelivery,
    )
    return encode_options(options)


def _end(claim: Claim, state: State, reason: str | None, *, now: int) -> Outcome:
    """The end of a row without another attempt."""
    return Outcome(
        state=state,
        attempts=claim.row.attempt_base or 0,
        first_attempt_at=claim.first_attempt_at,
        finished_at=UnixMillis(max(now, claim.row.due)),
        reason=reason,
        last_status=claim.last_status,
        last_error=claim.last_error,
    )
