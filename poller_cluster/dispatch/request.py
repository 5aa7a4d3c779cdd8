"""From a claimed row to its HTTP request, or to the outcome that it gets without an attempt. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import msgspec

from poller_cluster.clients import ServedClient
from poller_cluster.delivery.headers import callback_headers, sign, user_agent
from poller_cluster.delivery.request import CallbackRequest, TargetCall
from poller_cluster.destinations import ServedDestination
from poller_cluster.dispatch.attempt_traces import UNTRACED, AttemptTrace, AttemptTraces
from poller_cluster.dispatch.cloudevents import cloudevents_headers
from poller_cluster.dispatch.job import Claim
from poller_cluster.dispatch.named_rows import gone
from scheduler_service.domain.acknowledgements import PATH, AckSettings, Address, address_token
from scheduler_service.domain.callback_rules import METHODS_WITHOUT_BODY
from scheduler_service.domain.clients import ClientSettings
from scheduler_service.domain.destinations import TokenSource, names_destination, resolved_url
from scheduler_service.domain.errors import SecretLocked
from scheduler_service.domain.ids import ClientId, UnixMillis, due_of
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.options import Headers, ScheduleOptions, Undecodable, decode_headers, decode_options
from scheduler_service.domain.schedules import Outcome, Row, State
from scheduler_service.domain.wires import wire_headers

OpenHeaders: TypeAlias = Callable[[ClientId, str], str]
"""Decrypts a client's stored headers. Raises SecretLocked."""


Bearer: TypeAlias = Callable[[ClientId, TokenSource], str]
"""The token to send now. Raises TokenAwaited and TokenUnavailable (`dispatch.tokens`)."""


def no_bearer(client_id: ClientId, source: TokenSource) -> str:
    """`Bearer` where no row has a destination with a token source."""
    raise LookupError("tokens are not fetched here")


def as_stored(client_id: ClientId, headers: str) -> str:
    """`OpenHeaders` for rows that were never stored, whose headers are not encrypted."""
    return headers


_NOT_OFFERED = AckSettings()


@dataclass(frozen=True, slots=True)
class Sender:
    """The caller: its incarnation as text, the program's version, and how receivers acknowledge work."""

    incarnation: str
    version: str
    acknowledgements: AckSettings = _NOT_OFFERED


class SentToken(NamedTuple):
    """Whose token was sent, where it came from, and the token."""

    client_id: ClientId
    source: TokenSource
    token: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


class Prepared(msgspec.Struct, frozen=True, gc=False):
    """A request, with the options and settings by which its result is judged, and the token and the trace in it."""

    request: CallbackRequest
    options: ScheduleOptions
    settings: ClientSettings
    sent: SentToken | None = None
    trace: AttemptTrace | None = None


class DefaultBody(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The body of a call that was asked for without one: libraries for webhooks verify bodies that are JSON. `due` and
    `attempt` are those of the headers, `key` is the client's own."""

    schedule_id: str
    due: str
    attempt: int
    key: str | None = None


_encode = msgspec.json.Encoder().encode


def prepare(
    claim: Claim,
    *,
    client: ServedClient,
    epoch: int,
    sender: Sender,
    now: int,
    judged_at: int | None = None,
    open_headers: OpenHeaders = as_stored,
    bearer: Bearer = no_bearer,
    traces: AttemptTraces = UNTRACED,
) -> Prepared | Outcome:
    """The request for one attempt starting at `now` (Unix ms), or the outcome of a row that is not to be sent.

    A row that names a destination takes from it what it doesn't say itself; its own headers win by name.

    Not sent: rows that can't be decoded or whose destination does not exist (failed), rows in doubt of a client that
    wants at most one call (failed), first attempts later than the late policy allows (skipped) unless they are in
    doubt, since those may have been made in time. Lateness is judged at `judged_at` (Unix ms, `now` unless given), and
    counts from the due, or from when the row was found if the delay was ours.

    Raises SecretLocked as `open_headers` does, and for a locked destination, and what `bearer` raises: the row must be
    sent, but can't be yet.
    """
    row, settings = claim.row, client.settings
    destination, path = None, ""
    if names_destination(row.url):
        destination, path = client.named(row.url)
        if destination is None:
            return gone(claim, now=now)
        settings = destination.settings
    try:
        options = decode_options(row.options)
    except Undecodable:
        return unsent(claim, State.FAILED, "undecodable", now, epoch, sender)
    in_doubt = claim.redelivery or options.in_doubt
    if in_doubt and options.at_most_once(settings):
        return unsent(claim, State.FAILED, "in-doubt", now, epoch, sender)
    attempts_before = row.attempt_base or 0
    due = due_of(row.schedule_id)
    if not in_doubt and _is_too_late(claim, options, settings, judged_at=now if judged_at is None else judged_at):
        return unsent(claim, State.SKIPPED, "late", now, epoch, sender)
    try:
        headers = decode_headers(open_headers(client.client_id, row.headers or ""))
    except Undecodable:
        return unsent(claim, State.FAILED, "undecodable", now, epoch, sender)
    method, body, url = row.method or "POST", row.body or b"", row.url or ""
    channel = target = None
    if destination is not None:
        if destination.locked is not None:
            raise SecretLocked(destination.locked, key_id="")
        headers = _over(destination.headers, headers)
        method, url, target = _called(destination, row, path)
        channel = destination.channel
    if method in METHODS_WITHOUT_BODY:
        # It was given for another method, which the destination had then, or to another scheduler's wire.
        body = b""
    timeout_seconds = client.attempt_seconds(options.timeout_seconds, settings)
    options, ack_url = _offered(
        claim, options, client, seconds=timeout_seconds, epoch=epoch, sender=sender, now=now, by_http=target is None
    )
    webhook_id = str(row.schedule_id)
    timestamp = now // 1000
    nominal = row.nominal_due if row.nominal_due is not None else due
    key = None if options.key is None else options.key.name
    if not body and not options.empty_body and method not in METHODS_WITHOUT_BODY:
        body = _encode(DefaultBody(webhook_id, format_instant(nominal), attempts_before + 1, key))
        headers = _as_json(headers)
    headers = wire_headers(options.wire, headers, schedule_id=webhook_id, cron_id=row.cron_id)
    sent = None
    if destination is not None:
        if destination.cloudevents is not None:
            headers = cloudevents_headers(
                headers, destination.cloudevents, event_id=webhook_id, due_ms=nominal, key=key
            )
        if destination.token is not None and not _has_authorization(headers):
            sent = SentToken(client.client_id, destination.token, bearer(client.client_id, destination.token))
            headers = (*headers, ("Authorization", f"Bearer {sent.token}"))
    trace = traces.begin(client.client_id, claim, options)
    headers = headers if trace is None else trace.over(headers)
    request = CallbackRequest(
        method=method,
        url=url,
        headers=callback_headers(
            headers,
            timestamp=timestamp,
            signature=sign(client.secrets, webhook_id, timestamp, body, client.private_keys),
            client_id=client.client_id,
            schedule_id=webhook_id,
            cron_id=row.cron_id,
            due_ms=nominal,
            attempt=attempts_before + 1,
            fence=epoch,
            in_doubt=in_doubt,
            user_agent=user_agent(sender.version),
            key=key,
            path=path if target else "",
            ack_url=ack_url,
        ),
        body=body,
        timeout_seconds=timeout_seconds,
        at_most_once=options.at_most_once(settings),
        client_id=client.client_id,
        channel=channel,
        target=target,
        keeps_answer=options.on_success is not None or options.on_failure is not None,
    )
    return Prepared(request, options, settings, sent, trace)


def _offered(
    claim: Claim,
    options: ScheduleOptions,
    client: ServedClient,
    *,
    seconds: float,
    epoch: int,
    sender: Sender,
    now: int,
    by_http: bool,
) -> tuple[ScheduleOptions, str | None]:
    """The options, and where the receiver of this attempt of at most `seconds` may send its word. If there is no such
    address, nobody could say what became of the call: the options are then without `ack`, so that 202 is an end as
    every 2xx is."""
    if options.ack is None:
        return options, None
    offered, secrets = sender.acknowledgements, client.secrets or client.private_keys
    if offered.base_url is None or not secrets or not by_http:
        return msgspec.structs.replace(options, ack=None), None
    address = Address(
        client_id=client.client_id,
        schedule_id=claim.row.schedule_id,
        attempt=(claim.row.attempt_base or 0) + 1,
        fence=epoch,
        expires_at=UnixMillis(now + round((offered.longest_seconds + seconds) * 1000)),
    )
    return options, offered.base_url.rstrip("/") + PATH + address_token(address, secrets[-1])


def _called(destination: ServedDestination, row: Row, path: str) -> tuple[str, str, TargetCall | None]:
    """Method, URL and target of a call to this destination."""
    target = destination.target
    if target is None:
        return row.method or destination.method, resolved_url(destination.url, path), None
    call = TargetCall(
        kind=target.kind,
        means=target.means,
        schedule_id=str(row.schedule_id),
        ordering_key=row.ordering_key,
        cloudevents=destination.cloudevents is not None,
    )
    return "POST", destination.url, call


def _is_too_late(claim: Claim, options: ScheduleOptions, settings: ClientSettings, *, judged_at: int) -> bool:
    """Whether a row that is not in doubt is skipped by its late policy."""
    skip_after = options.skip_after_ms(settings.late_policy)
    if skip_after is None or claim.row.attempt_base:
        return False
    return judged_at - max(due_of(claim.row.schedule_id), claim.found_at) > skip_after


def will_be_skipped(claim: Claim, client: ServedClient, *, judged_at: int) -> bool:
    """Whether the row, if it is prepared now, is skipped by its late policy. `judged_at` as in `prepare`."""
    try:
        options = decode_options(claim.row.options)
    except Undecodable:
        return False
    settings = client.settings_for(claim.row.url)
    if claim.redelivery or options.in_doubt:
        return False
    return _is_too_late(claim, options, settings, judged_at=judged_at)


def _over(shared: Headers, own: Headers) -> Headers:
    """A destination's headers, but those of the callback by the same names."""
    if not own:
        return shared
    named = {name.lower() for name, _ in own}
    return (*[header for header in shared if header[0].lower() not in named], *own)


def _has_authorization(headers: Headers) -> bool:
    return any(name.lower() == "authorization" for name, _ in headers)


def _as_json(headers: Headers) -> Headers:
    """The headers with a JSON content type, unless they have one."""
    if any(name.lower() == "content-type" for name, _ in headers):
        return headers
    return (*headers, ("content-type", "application/json"))


def unsent(claim: Claim, state: State, reason: str, now: int, epoch: int, sender: Sender) -> Outcome:
    """The outcome of a row that ends without an attempt."""
    return Outcome(
        state=state,
        attempts=claim.row.attempt_base or 0,
        first_attempt_at=claim.first_attempt_at,
        finished_at=UnixMillis(now),
        reason=reason,
        fired_by=sender.incarnation,
        fired_epoch=epoch,
    )
