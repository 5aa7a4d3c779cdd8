"""Updates of a waiting schedule: the request, and the call that results. Pure.

An update is a JSON merge patch (RFC 7396) of what a create takes: what is left out stays, and null takes away.
`reschedule_schedule` carries it out, in place or as a reschedule. Old and new are decided by one conditional write
against the owner's claim, so exactly one of the two contents is called, and never a mixture.
"""

import base64
from collections.abc import Mapping
from typing import Annotated, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from scheduler_service.domain.destinations import DESTINATION_PATTERN, read_named_url
from scheduler_service.domain.flows import FlowKey, FlowParallelism, FlowRate
from scheduler_service.domain.options import Headers, RetryOverride, ScheduleOptions
from scheduler_service.domain.schedules import Row
from scheduler_service.usecases.schedule_request import (
    BOUND_OF_HEADERS,
    Base64,
    CallbackPath,
    CallbackRequest,
    HeaderValue,
    Instant,
    LocalTime,
    Method,
    Name,
    SkipAfterSeconds,
    SucceedWithinSeconds,
    TimeoutSeconds,
    asked_retry,
)

T = TypeVar("T")
_CONTENT_TYPE = "content-type"


class CallbackUpdate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What changes of the request to make. `headers` are merged by name, in any case; null takes one away. A new body
    is `body`, `json` or `body_base64`, one of them, and removes the old content type; `"body": null` means the default
    body, `"json": null` the text `null`. A `url` removes the destination and its path, a `destination` the URL;
    `"method": null` means the destination's, or POST."""

    url: str | UnsetType = UNSET
    destination: Annotated[str, Meta(pattern=DESTINATION_PATTERN)] | UnsetType = UNSET
    path: CallbackPath | UnsetType | None = UNSET
    method: Method | UnsetType | None = UNSET
    headers: Annotated[dict[str, HeaderValue | None], BOUND_OF_HEADERS] | UnsetType = UNSET
    body: str | UnsetType | None = UNSET
    json: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    body_base64: Base64 | UnsetType = UNSET
    flow_key: FlowKey | UnsetType | None = UNSET
    flow_rate: FlowRate | UnsetType | None = UNSET
    flow_parallelism: FlowParallelism | UnsetType | None = UNSET

    @property
    def has_body(self) -> bool:
        return self.body is not UNSET or bool(bytes(self.json)) or self.body_base64 is not UNSET


class UpdateRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What changes of a waiting schedule; null takes a label, retry policy, time-out, `skip_after_seconds` or
    `succeed_within_seconds` away. The instant stays unless `due` or `delay_seconds` is given; of a schedule that is
    retried or deferred that is its next attempt, and its attempts are counted from the start."""

    due: Instant | LocalTime | None = None
    delay_seconds: float | None = None
    callback: CallbackUpdate | None = None
    label: Name | UnsetType | None = UNSET
    retry: RetryOverride | UnsetType | None = UNSET
    timeout_seconds: TimeoutSeconds | UnsetType | None = UNSET
    skip_after_seconds: SkipAfterSeconds | UnsetType | None = UNSET
    succeed_within_seconds: SucceedWithinSeconds | UnsetType | None = UNSET

    @property
    def keeps_instant(self) -> bool:
        return self.due is None and self.delay_seconds is None

    def options(self) -> Mapping[str, object]:
        """The options to set, by name; None: to take away."""
        asked: dict[str, object] = {}
        if self.retry is not UNSET:
            retry = asked_retry(self.retry)
            asked["retry"] = None if retry is None else msgspec.to_builtins(retry)
        if self.timeout_seconds is not UNSET:
            asked["timeout_seconds"] = self.timeout_seconds
        if self.skip_after_seconds is not UNSET:
            asked["skip_after_seconds"] = self.skip_after_seconds
        if self.succeed_within_seconds is not UNSET:
            asked["succeed_within_seconds"] = self.succeed_within_seconds
        return asked


def updated_callback(
    update: CallbackUpdate, row: Row, *, headers: Headers, options: ScheduleOptions
) -> CallbackRequest:
    """The whole callback as a create would ask for it. `headers` and `options` are the row's, in the clear. A flow key
    that is taken away takes its limits with it."""
    kept = {name: value for name, value in headers if not (update.has_body and name.lower() == _CONTENT_TYPE)}
    if update.headers is not UNSET:
        kept = _merged(kept, update.headers)
    body: str | None = None
    encoded: str | None = None
    if update.has_body:
        body = None if update.body is UNSET else update.body
        encoded = None if update.body_base64 is UNSET else update.body_base64
    elif row.body:
        encoded = base64.b64encode(row.body).decode()
    elif options.empty_body:
        body = ""
    flow = None if update.flow_key is None else options.flow
    url, destination, path = _receiver(update, row.url or "")
    return CallbackRequest(
        url=url,
        destination=destination,
        path=path,
        method=_either(update.method, row.method or None),
        headers=kept,
        body=body,
        json=update.json,
        body_base64=encoded,
        flow_key=_either(update.flow_key, None if flow is None else flow.key),
        flow_rate=_either(update.flow_rate, None if flow is None else flow.rate),
        flow_parallelism=_either(update.flow_parallelism, None if flow is None else flow.parallelism),
    )


def _receiver(update: CallbackUpdate, url: str) -> tuple[str | None, str | None, str | None]:
    """URL, destination and path, of a row with this URL."""
    named = read_named_url(url)
    asked = None if update.destination is UNSET else update.destination
    if update.url is not UNSET:
        return update.url, asked, None if update.path is UNSET else update.path
    if asked is None and named is None:
        return url, None, None if update.path is UNSET else update.path
    kept = None if named is None else named.path or None
    return None, asked or (None if named is None else named.name), _either(update.path, kept)


def _either(asked: T | UnsetType, kept: T) -> T:
    return kept if asked is UNSET else asked


def _merged(kept: Mapping[str, str], asked: Mapping[str, str | None]) -> dict[str, str]:
    """The headers with those asked for in the place of their namesakes, or behind all others; None: taken away."""
    named = {name.lower(): (name, value) for name, value in asked.items()}
    merged = [named.pop(name.lower(), (name, value)) for name, value in kept.items()]
    return {name: value for name, value in (*merged, *named.values()) if value is not None}
