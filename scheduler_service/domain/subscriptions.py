"""Subscriptions: which of a client's events are sent to which of its destinations. Pure.

A subscription has a name of the client's own. Every node holds all subscriptions, so their number is bounded.
"""

from typing import Final

import msgspec

from scheduler_service.domain.ids import ClientId, CronId, UnixMillis
from scheduler_service.domain.options import Undecodable

SUBSCRIPTION_PATTERN: Final = r"^[a-z0-9][a-z0-9._-]{0,62}$"
MAX_SUBSCRIPTIONS: Final = 20
"""Of one client. Each places rows of its own for the client's events."""
NOTICES_SINCE: Final = 30
"""The migration whose programs send notices: older nodes would end their rows without sending anything."""


class EventFilter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which events of the wanted types are meant: all parts must hold. `key_prefix`: how the schedule's own key
    begins. None: any, also events that have no such part."""

    label: str | None = None
    key_prefix: str | None = None
    cron_id: CronId | None = None
    destination: str | None = None


ANY_EVENT: Final = EventFilter()


class Subscription(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The document. `destination`: the name of the one that notices go to. `events`: the types that are wanted; empty:
    all. `enabled` False: nothing is sent, and what happens meanwhile is not sent later either."""

    destination: str
    events: tuple[str, ...] = ()
    filter: EventFilter = ANY_EVENT
    enabled: bool = True


class StoredSubscription(msgspec.Struct, frozen=True, kw_only=True):
    """One row. `document` is JSON of a `Subscription`; `revision` grows with every change."""

    client_id: ClientId
    name: str
    document: str
    revision: int
    created_at: UnixMillis
    changed_at: UnixMillis


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Subscription).decode


def encode_subscription(subscription: Subscription) -> str:
    return _encode(subscription).decode()


def decode_subscription(document: str) -> Subscription:
    """Raises Undecodable."""
    try:
        return _decode(document)
    except (msgspec.DecodeError, RecursionError):
        raise Undecodable("the subscription can't be decoded") from None
