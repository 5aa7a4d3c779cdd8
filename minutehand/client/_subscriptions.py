"""Subscriptions: which events are sent where. Requests and answers."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from minutehand.client._calls import Operation, client_path, precondition, segment
from minutehand.client._models import Page


class EventFilter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Only events that match all that is given: the label, the beginning of the own key, the cron and the destination
    of the schedule."""

    label: str | None = None
    key_prefix: str | None = None
    cron_id: str | None = None
    destination: str | None = None


class NewSubscription(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A subscription as it is put: always a whole. `destination`: the name of the one that notices go to; `events`:
    only these types, such as schedule.failed; left out: all."""

    destination: str
    events: Sequence[str] | UnsetType = UNSET
    filter: EventFilter | UnsetType | None = UNSET
    enabled: bool | UnsetType = UNSET


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription. `events` empty: all types. `revision` grows with every change."""

    name: str
    client_id: str
    destination: str
    events: tuple[str, ...]
    filter: EventFilter
    enabled: bool
    revision: int
    created_at: datetime
    changed_at: datetime


def put_subscription(
    client_id: str,
    name: str,
    subscription: NewSubscription | Mapping[str, Any],
    *,
    revision: int | None,
    absent: bool,
) -> Operation[Subscription]:
    body, headers = msgspec.json.encode(subscription), precondition(revision, absent=absent)
    return Operation(method="PUT", path=_path(client_id, name), answer=Subscription, body=body, headers=headers)


def get_subscription(client_id: str, name: str) -> Operation[Subscription]:
    return Operation(method="GET", path=_path(client_id, name), answer=Subscription)


def list_subscriptions(client_id: str) -> Operation[Page[Subscription]]:
    return Operation(method="GET", path=_path(client_id), answer=Page[Subscription])


def delete_subscription(client_id: str, name: str, *, revision: int | None) -> Operation[None]:
    return Operation(method="DELETE", path=_path(client_id, name), answer=None, headers=precondition(revision))


def _path(client_id: str, name: str | None = None) -> str:
    path = f"{client_path(client_id)}/subscriptions"
    return path if name is None else f"{path}/{segment(name)}"
