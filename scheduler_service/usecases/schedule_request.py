"""The request for a schedule, and every rule that it must satisfy. Pure.

Requests are decoded into `ScheduleRequest`; `draft` turns one into the columns of a row, or raises with every fault.
API and bulk loads share both, so a row is judged by the same rules wherever it comes from.
"""

import base64
import binascii
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, ClassVar, Final, NamedTuple, Protocol, TypeAlias

import msgspec
from msgspec import Meta

from scheduler_service.domain.acknowledgements import Ack
from scheduler_service.domain.callback_rules import (
    HEADER_NAME_PATTERN,
    HEADER_VALUE_PATTERN,
    MAX_HEADERS,
    METHODS,
    body_fault,
    check_headers,
    check_method,
)
from scheduler_service.domain.client_bounds import UNBOUND, ClientBounds
from scheduler_service.domain.clients import AttemptSeconds, ClientSettings
from scheduler_service.domain.crons import load_zone
from scheduler_service.domain.crons.dst import Gap
from scheduler_service.domain.destinations import DESTINATION_PATTERN, MAX_PATH_LENGTH, named_url, path_fault
from scheduler_service.domain.errors import FieldError, Invalid, InvalidRule
from scheduler_service.domain.flows import Flow, FlowKey, FlowParallelism, FlowRate
from scheduler_service.domain.ids import DAY_MS, ClientId, UnixMillis
from scheduler_service.domain.instants import format_instant, parse_instant
from scheduler_service.domain.local_times import Fold, instant_of, parse_local
from scheduler_service.domain.network import MAX_URL_LENGTH, NetworkPolicy, Refusal
from scheduler_service.domain.options import (
    NO_HEADERS,
    NO_OPTIONS_TEXT,
    RUN_KEY_PREFIX,
    Headers,
    LocalDue,
    RetryOverride,
    ScheduleOptions,
    encode_headers,
    encode_options,
    is_run_key,
)
from scheduler_service.domain.ports import SecretEncryption
from scheduler_service.domain.schedule_keys import KEY_PATTERN
from scheduler_service.domain.spread import MAX_SPREAD_SECONDS, offset_ms
from scheduler_service.domain.success_deadlines import MAX_WITHIN_SECONDS
from scheduler_service.domain.targets import NO_KINDS, TargetKinds
from scheduler_service.usecases.deadline_request import faults_of_deadline, faults_of_succeed_by, stored_deadline
from scheduler_service.usecases.end_receivers import EndReceivers, named_destinations, stored_receiver
from scheduler_service.usecases.named_destinations import (
    CheckDestination,
    ListedDestinations,
    NamedDestinations,
    no_such_destination,
)

MAX_TEXT = 256
"""Characters of a label or an ordering key."""
REMEMBERED_URLS = 4096
"""Callers send the same URLs again and again; judging one costs more than all other rules together."""

_UNJUDGED: Final = ClientSettings(horizon_days=36_500)

CheckUrl: TypeAlias = Callable[[str], Refusal | None]
"""`NetworkPolicy.check_url`, or a cache of its answers."""
CheckAck: TypeAlias = Callable[[Ack, str | None], str | None]
"""Why a callback to this destination (None: to a URL) may not have this `ack`; None: it may. Raises Conflict
(older-nodes)."""
Name = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT)]
Instant = Annotated[str, Meta(description="RFC 3339 with an offset", extra_json_schema={"format": "date-time"})]
EndReceiver = Annotated[str, Meta(min_length=1, max_length=MAX_URL_LENGTH)]
"""The name of a destination, or a URL."""
TimeoutSeconds = AttemptSeconds
SkipAfterSeconds = Annotated[float, Meta(ge=0, le=604_800)]
SucceedWithinSeconds = Annotated[float, Meta(ge=1, le=MAX_WITHIN_SECONDS)]
Method = Annotated[str, Meta(extra_json_schema={"enum": sorted(METHODS)})]
CallbackPath = Annotated[
    str, Meta(max_length=MAX_PATH_LENGTH, description="Begins with a slash; may have a query, but no fragment.")
]
Base64 = Annotated[str, Meta(extra_json_schema={"contentEncoding": "base64"})]
HeaderValue = Annotated[str, Meta(extra_json_schema={"pattern": HEADER_VALUE_PATTERN})]
"""The patterns are for the document only: `check_headers` reports every fault."""
BOUND_OF_HEADERS = Meta(max_length=MAX_HEADERS, extra_json_schema={"propertyNames": {"pattern": HEADER_NAME_PATTERN}})
CallbackHeaders = Annotated[dict[str, HeaderValue], BOUND_OF_HEADERS]


class CallbackRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, gc=False):
    """The request to make: to `url`, or to a `destination` of the client's, with a `path` below its URL. Of a
    destination's callback, what is left out is as the destination says: the method, and headers by other names. Without
    a destination the method is POST.

    Its body is `body` (text, sent as UTF-8), `json` (sent byte for byte as written here, with a
    JSON content type unless the headers say otherwise) or `body_base64`; at most one of them. Without any of them,
    methods that may have a body carry `schedule_id`, `key` (if there is one), `due` and `attempt` as JSON. An empty
    `body` stays empty.

    Calls with the same `flow_key` share a rate (`flow_rate` calls a second, may be below 1) and a parallelism
    (`flow_parallelism` calls at a time), over all nodes. What is left out is as the client's setting `flows` says.

    With `ack` the receiver may answer 202 and say later, at the address in `Minutehand-Ack-Url`, what became of the
    call; until then the schedule is `awaiting`. No word within `ack.within_seconds` is a failed attempt.
    """

    url: str | None = None
    destination: Annotated[str, Meta(pattern=DESTINATION_PATTERN)] | None = None
    path: CallbackPath | None = None
    method: Method | None = None
    headers: CallbackHeaders = {}
    body: str | None = None
    json: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    body_base64: Base64 | None = None
    flow_key: FlowKey | None = None
    flow_rate: FlowRate | None = None
    flow_parallelism: FlowParallelism | None = None
    ack: Ack | None = None
    wire: ClassVar[str | None] = None
    """Of subclasses: the other scheduler's wire by which the callback came (see `domain.wires`)."""

    @property
    def stored_call(self) -> tuple[str, str]:
        """Method and URL of its row. An empty method: its destination's."""
        if self.destination is None:
            return self.method or "POST", self.url or ""
        return self.method or "", named_url(self.destination, self.path or "")


class LocalTime(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, gc=False):
    """The instant at which clocks in `timezone` (an IANA name) show `local`, such as 2027-03-28T02:30. If a change of
    clocks skips it, `gap` shift is the instant right after the change, and skip refuses it; if it is repeated, `fold`
    says which of the two."""

    local: str
    timezone: str
    gap: Gap = "shift"
    fold: Fold = "first"


class ScheduleRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, gc=False):
    """One call to make, at `due` (RFC 3339 with an offset, or a local time) or `delay_seconds` from now: exactly one of
    them. `window_seconds`: at some instant less than this later, so that many calls are spread.

    Schedules with the same `ordering_key` are called one at a time, in order of due; with a `flow_key` only if they
    have the same. `skip_after_seconds`: skip the
    call if the first attempt would start later than this after the due; `late_policy` says what counts as late.

    `key`: the client's own name for it. Of the schedules put under one key, only the last is called. `latest`: however
    often it is replaced while it waits, it is due then at the latest; the first one's counts.

    `on_success` and `on_failure`: who is told of its delivery, or of its failure, with the receiver's answer: the name
    of a destination, or a URL.

    `succeed_within_seconds`: if it has not been delivered so long after its due, or by the instant `succeed_by`,
    whatever the reason, the event `schedule.overdue` tells it. At most one of both; it is still called.
    """

    callback: CallbackRequest
    due: Instant | LocalTime | None = None
    delay_seconds: float | None = None
    window_seconds: Annotated[int, Meta(ge=0, le=MAX_SPREAD_SECONDS)] = 0
    label: Name | None = None
    ordering_key: Name | None = None
    retry: RetryOverride | None = None
    timeout_seconds: TimeoutSeconds | None = None
    skip_after_seconds: SkipAfterSeconds | None = None
    key: Annotated[str, Meta(pattern=KEY_PATTERN)] | None = None
    latest: Instant | None = None
    on_success: EndReceiver | None = None
    on_failure: EndReceiver | None = None
    succeed_within_seconds: SucceedWithinSeconds | None = None
    succeed_by: Instant | None = None

    @property
    def destinations(self) -> list[str]:
        """The names of destinations in it."""
        return named_destinations(self.callback.destination, self.on_success, self.on_failure)

    @property
    def has_deadline(self) -> bool:
        return self.succeed_within_seconds is not None or self.succeed_by is not None


class Draft(NamedTuple):
    """A valid request, as the columns of a row that don't depend on its poller and id. `nominal_due`: the instant that
    was asked for, if the call is due later. `pin`: the name that decides the poller, if one does."""

    due: UnixMillis
    nominal_due: UnixMillis | None
    method: str
    url: str
    headers: str
    body: bytes
    options: str
    label: str | None
    ordering_key: str | None
    pin: str | None


def no_ack(ack: Ack, destination: str | None = None) -> str | None:
    """`CheckAck` where receivers can't acknowledge work later."""
    return "is not possible here: the operator has configured no address for receivers' words"


def refuse_acks(why: str) -> CheckAck:
    """`CheckAck` where a callback may never have an `ack`; `why` completes a sentence that begins with it."""
    return lambda ack, destination: why


class CallbackPolicy:
    """What the operator demands of every callback before it is stored, beside the settings of its client: the network
    policy, the `bounds` of retries and timeouts, the `encryption` of its headers, which `destinations` there are, and
    which `kinds` of targets, and whether receivers may acknowledge work later (`check_ack`). `admit_ends()` raises
    Conflict (older-nodes) while nodes run that don't tell ends to receivers of their own, `admit_deadline()` while some
    know no success deadlines.
    `check_url` and `check_proxy` are the network policy's.
    """

    def __init__(
        self,
        *,
        network: NetworkPolicy,
        encryption: SecretEncryption,
        bounds: ClientBounds = UNBOUND,
        destinations: NamedDestinations | None = None,
        kinds: TargetKinds = NO_KINDS,
        check_ack: Callable[[Ack], str | None] = no_ack,
        admit_ends: Callable[[], None] = lambda: None,
        admit_deadline: Callable[[], None] = lambda: None,
    ) -> None:
        self.admit_deadline = admit_deadline
        check = network.check_url
        remembered = lru_cache(maxsize=REMEMBERED_URLS)(check)
        self._admit_ends = admit_ends
        # A URL too long to be stored is not cached.
        self.check_url: CheckUrl = lambda url: (remembered if len(url) <= MAX_URL_LENGTH else check)(url)
        self.check_proxy = network.check_proxy
        self.bounds = bounds
        self.encryption = encryption
        self.kinds = kinds
        self.destinations: NamedDestinations = destinations or ListedDestinations()
        self._check_ack = check_ack

    def check_ack(self, client_id: ClientId) -> CheckAck:
        """The rule for the `ack` of a client's callbacks."""

        def check(ack: Ack, destination: str | None) -> str | None:
            wrong = self._check_ack(ack)
            if wrong is None and destination is not None and not self.destinations.answers_http(client_id, destination):
                return f"is only for receivers that answer by HTTP: {destination!r} is a target of another kind"
            return wrong

        return check

    def admit_ends(self, request: EndReceivers) -> None:
        """Raises Conflict (older-nodes) for a request that names a receiver of an end which some nodes would not
        tell."""
        if request.on_success is not None or request.on_failure is not None:
            self._admit_ends()


def draft(
    request: ScheduleRequest,
    *,
    settings: ClientSettings,
    check_url: CheckUrl,
    now: int,
    point: int = 0,
    bounds: ClientBounds = UNBOUND,
    check_destination: CheckDestination = no_such_destination,
    check_ack: CheckAck = no_ack,
) -> Draft:
    """The columns to store for a request made at `now` (Unix milliseconds) by a client with `settings` in force.
    `point`: where in its window the call is due (`domain.spread`). Raises Invalid with every fault."""
    faults: list[FieldError] = []
    asked = due = asked_instant(request, now=now, settings=settings, faults=faults)
    if request.window_seconds:
        faults += _faults_of_window(request, asked, now=now, settings=settings)
        due = _within_window(request, asked, point)
    headers, body = draft_callback(
        request.callback,
        settings=settings,
        check_url=check_url,
        faults=faults,
        check_destination=check_destination,
        check_ack=check_ack,
    )
    if request.retry is not None or request.timeout_seconds is not None:
        faults += bounds.faults_of_schedule(request.retry, request.timeout_seconds)
    if request.on_success is not None or request.on_failure is not None:
        faults += faults_of_ends(request, check_url, check_destination)
    if request.has_deadline:
        faults += faults_of_deadline(settings, request.succeed_within_seconds)
        faults += faults_of_succeed_by(settings, request, max(due, now))
    if request.latest is not None:
        faults += _faults_of_latest(request)
    if request.ordering_key is not None and is_run_key(request.ordering_key):
        faults.append(reserved_key())
    if faults:
        raise Invalid(faults)
    return _drawn(request, asked, due if due > now else UnixMillis(now), headers, body)


def faults_of_ends(request: EndReceivers, check_url: CheckUrl, check_destination: CheckDestination) -> list[FieldError]:
    """What is wrong with the receivers of the ends."""
    faults = []
    for name, asked in (("on_success", request.on_success), ("on_failure", request.on_failure)):
        if asked is None:
            continue
        if "://" in asked:
            refusal = check_url(asked)
            wrong = None if refusal is None else refusal.detail
        else:
            wrong = check_destination(asked)
        if wrong is not None:
            faults.append(FieldError(f"/{name}", wrong))
    return faults


def reserved_key() -> FieldError:
    return FieldError("/ordering_key", f"must not begin with {RUN_KEY_PREFIX!r}, as those of crons do")


def redraft(request: ScheduleRequest, *, due: UnixMillis, now: int) -> Draft:
    """The draft of a request that was judged valid before, as of `now`: nothing is judged again."""
    asked = asked_instant(request, now=now, settings=_UNJUDGED, faults=[])
    return _drawn(request, asked, due, *accepted_content(request.callback))


def _drawn(request: ScheduleRequest, asked: UnixMillis, due: UnixMillis, headers: Headers, body: bytes) -> Draft:
    callback = request.callback
    method, url = callback.stored_call
    return Draft(
        due,
        asked if asked < due else None,
        method,
        url,
        encode_headers(headers) if headers else NO_HEADERS,
        body,
        _options(request, due),
        request.label,
        request.ordering_key,
        request.ordering_key if callback.flow_key is None else callback.flow_key,
    )


def draft_callback(
    callback: CallbackRequest,
    *,
    settings: ClientSettings,
    check_url: CheckUrl,
    faults: list[FieldError],
    check_destination: CheckDestination = no_such_destination,
    check_ack: CheckAck = no_ack,
) -> tuple[Headers, bytes]:
    """The headers and bytes to send. Faults of the callback are added to `faults`, under `/callback`."""
    headers, body = _content(callback, faults)
    method = callback.method or "POST"
    if callback.destination is not None or callback.url is None:
        faults += _faults_of_destination(callback, check_destination)
    elif (refusal := check_url(callback.url)) is not None:
        faults.append(FieldError("/callback/url", refusal.detail))
    if callback.ack is not None and (wrong := check_ack(callback.ack, callback.destination)) is not None:
        faults.append(FieldError("/callback/ack", wrong))
    if callback.path is not None and callback.destination is None:
        faults.append(FieldError("/callback/path", "is only for callbacks with a destination"))
    if callback.flow_key is None and (callback.flow_rate is not None or callback.flow_parallelism is not None):
        faults += _faults_of_flow(callback)
    problems = check_method(method, pointer="/callback/method")
    if headers:
        problems += check_headers(headers, max_bytes=settings.header_bytes, pointer="/callback/headers")
    if problems:
        faults += [FieldError(*problem) for problem in problems]
    # Other schedulers take a body with every method; one that is not sent is stored, to be shown.
    sendable = method if callback.wire is None else "POST"
    if body and (wrong := body_fault(sendable, len(body), max_bytes=settings.payload_bytes)) is not None:
        faults.append(FieldError(f"/callback/{_body_field(callback)}", wrong))
    return headers, body


def _faults_of_destination(callback: CallbackRequest, check: CheckDestination) -> list[FieldError]:
    """Of a callback with a destination, or without a URL."""
    if callback.destination is None:
        return [FieldError("/callback/url", "give exactly one of url and destination; neither is given")]
    faults = []
    if callback.url is not None:
        faults.append(FieldError("/callback/url", "give exactly one of url and destination; both are given"))
    if (wrong := check(callback.destination)) is not None:
        faults.append(FieldError("/callback/destination", wrong))
    if callback.path and (wrong := path_fault(callback.path)) is not None:
        faults.append(FieldError("/callback/path", wrong))
    return faults


def accepted_content(callback: CallbackRequest) -> tuple[Headers, bytes]:
    """The same for a callback that was judged valid before: nothing is judged again."""
    return _content(callback, [])


def asks_for_empty_body(callback: CallbackRequest) -> bool:
    """Whether the body is to be empty, instead of the default one."""
    return callback.body == "" or callback.body_base64 == ""


def asked_flow(callback: CallbackRequest) -> Flow | None:
    """The flow key of a callback, with the limits given there."""
    key = callback.flow_key
    return None if key is None else Flow(key, callback.flow_rate, callback.flow_parallelism)


def _faults_of_flow(callback: CallbackRequest) -> list[FieldError]:
    """Of a callback with limits of a flow key and without one."""
    given = {"flow_rate": callback.flow_rate, "flow_parallelism": callback.flow_parallelism}
    return [
        FieldError(f"/callback/{name}", "is only for callbacks with a flow_key")
        for name, value in given.items()
        if value is not None
    ]


def asked_retry(retry: RetryOverride | None) -> RetryOverride | None:
    """None for an override that sets nothing."""
    return None if retry is None or retry == RetryOverride() else retry


class AsksWhen(Protocol):
    """A request that says when to call."""

    @property
    def due(self) -> str | LocalTime | None: ...

    @property
    def delay_seconds(self) -> float | None: ...


def asked_instant(request: AsksWhen, *, now: int, settings: ClientSettings, faults: list[FieldError]) -> UnixMillis:
    """The instant that a request names, which may have passed. Without one, which is a fault, it is `now`."""
    if (request.due is None) == (request.delay_seconds is None):
        wrong = "neither is given" if request.due is None else "both are given"
        faults.append(FieldError("/due", f"give exactly one of due and delay_seconds; {wrong}"))
        return UnixMillis(now)
    horizon_days = settings.horizon_days
    if request.due is None:
        assert request.delay_seconds is not None
        if not 0 <= request.delay_seconds <= horizon_days * 86_400:
            faults.append(
                FieldError("/delay_seconds", f"must be from 0 to {horizon_days * 86_400} ({horizon_days} days)")
            )
            return UnixMillis(now)
        return UnixMillis(now + math.ceil(round(request.delay_seconds * 1000, 6)))
    due = named_instant(request.due, faults)
    if due is None:
        return UnixMillis(now)
    if due > now + horizon_days * DAY_MS:
        latest = format_instant(now + horizon_days * DAY_MS)
        faults.append(FieldError("/due", f"is more than {horizon_days} days ahead; the latest is {latest}"))
    elif due < now - settings.accept_past_seconds * 1000:
        most = f"{settings.accept_past_seconds:.12g} seconds"
        faults.append(FieldError("/due", f"is more than {most} in the past; it is {format_instant(now)} now"))
    return due


def named_instant(due: str | LocalTime, faults: list[FieldError]) -> UnixMillis | None:
    """The instant that a `due` names; None where it names none, for which there is a fault each."""
    if isinstance(due, str):
        try:
            return parse_instant(due)
        except ValueError as error:
            faults.append(FieldError("/due", str(error)))
            return None
    local = zone = None
    try:
        local = parse_local(due.local)
    except ValueError as error:
        faults.append(FieldError("/due/local", str(error)))
    try:
        zone = load_zone(due.timezone)
    except InvalidRule as error:
        faults.append(FieldError("/due/timezone", error.reason))
    if local is None or zone is None:
        return None
    instant = instant_of(local, zone, gap=due.gap, fold=due.fold)
    if instant is None:
        faults.append(FieldError("/due/local", f"is skipped by a change of clocks in {due.timezone}"))
    return instant


def asked_local_due(due: str | LocalTime | None) -> LocalDue | None:
    """The local time to store beside the instant; None where an instant was asked for."""
    if not isinstance(due, LocalTime):
        return None
    return LocalDue(due.local, due.timezone, due.gap, due.fold)


def _within_window(request: ScheduleRequest, asked: int, point: int) -> UnixMillis:
    return UnixMillis(asked + offset_ms(point, request.window_seconds))


def _faults_of_window(request: ScheduleRequest, asked: int, *, now: int, settings: ClientSettings) -> list[FieldError]:
    last = now + settings.horizon_days * DAY_MS
    if asked <= last < asked + request.window_seconds * 1000:
        return [FieldError("/window_seconds", f"reaches more than {settings.horizon_days} days ahead")]
    return []


def asked_latest(request: ScheduleRequest) -> UnixMillis | None:
    """The `latest` of a request that was judged valid."""
    return None if request.latest is None else parse_instant(request.latest)


def _faults_of_latest(request: ScheduleRequest) -> list[FieldError]:
    if request.key is None:
        return [FieldError("/latest", "is only for schedules with a key")]
    try:
        asked_latest(request)
    except ValueError as error:
        return [FieldError("/latest", str(error))]
    return []


def unjudged_due(request: ScheduleRequest, *, now: int, point: int) -> tuple[UnixMillis, UnixMillis]:
    """The instant that a request names, and its due, where there is no fault; needs no settings of the client."""
    asked = asked_instant(request, now=now, settings=_UNJUDGED, faults=[])
    return asked, UnixMillis(max(_within_window(request, asked, point), now))


def _content(callback: CallbackRequest, faults: list[FieldError]) -> tuple[Headers, bytes]:
    """The headers and bytes to send. After a fault the body is empty."""
    headers: Headers = tuple(callback.headers.items()) if callback.headers else ()
    json = bytes(callback.json)
    if callback.body is not None and not json and callback.body_base64 is None:
        return headers, callback.body.encode()
    given = [
        name
        for name, present in (
            ("body", callback.body is not None),
            ("json", bool(json)),
            ("body_base64", callback.body_base64 is not None),
        )
        if present
    ]
    if len(given) > 1:
        faults.extend(
            FieldError(f"/callback/{name}", f"give at most one of body, json and body_base64; {given[0]} is given too")
            for name in given[1:]
        )
        return headers, b""
    if json:
        if not any(name.lower() == "content-type" for name in callback.headers):
            headers = (*headers, ("content-type", "application/json"))
        return headers, json
    if callback.body_base64 is not None:
        try:
            return headers, base64.b64decode(callback.body_base64, validate=True)
        except (binascii.Error, ValueError):
            faults.append(FieldError("/callback/body_base64", "is not valid base64 (RFC 4648, with padding)"))
    return headers, b""


def _body_field(callback: CallbackRequest) -> str:
    if callback.body_base64 is not None:
        return "body_base64"
    return "json" if bytes(callback.json) else "body"


def _options(request: ScheduleRequest, due_at: UnixMillis) -> str:
    callback, retry, due = request.callback, request.retry, request.due
    timeout, skip_after, wire = request.timeout_seconds, request.skip_after_seconds, callback.wire
    plain = retry is None and timeout is None and skip_after is None and callback.flow_key is None and wire is None
    plain = plain and callback.ack is None and request.on_success is None and request.on_failure is None
    plain = plain and not request.has_deadline
    if plain and callback.body and not isinstance(due, LocalTime):
        return NO_OPTIONS_TEXT
    return encode_options(
        ScheduleOptions(
            retry=asked_retry(retry),
            timeout_seconds=timeout,
            skip_after_seconds=skip_after,
            empty_body=asks_for_empty_body(callback),
            flow=asked_flow(callback),
            wire=wire,
            local_due=asked_local_due(due),
            ack=callback.ack,
            on_success=stored_receiver(request.on_success),
            on_failure=stored_receiver(request.on_failure),
            succeed_within_seconds=stored_deadline(request, due_at),
        )
    )
