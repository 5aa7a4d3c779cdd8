"""A client's destinations as a node calls them: opened, and with the client's settings as far as they say nothing.

Each stored row is opened once, and again after it has changed. A destination whose document this node's key ring can't
decrypt, that this version can't decode, or whose target this node does not admit, is *locked*: its calls wait, and
those of other destinations are made.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec

from poller_cluster.delivery.channel import Channel
from scheduler_service.domain.clients import ClientSettings, HostLimit
from scheduler_service.domain.destinations import (
    CloudEvents,
    Destination,
    StoredDestination,
    TokenSource,
    decode_destination,
)
from scheduler_service.domain.errors import FieldError, Invalid, SecretLocked
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.domain.options import Headers, Undecodable
from scheduler_service.domain.ports import SecretEncryption
from scheduler_service.domain.targets import NO_KINDS, TargetKinds, unknown_kind

_NO_LIMIT: Final = HostLimit()


@dataclass(frozen=True, slots=True)
class OpenedDestination:
    """A stored row, and what its document says; None: it is `locked`, for this reason."""

    stored: StoredDestination = field(repr=False)
    called: Destination | None
    channel: Channel | None = None
    locked: str | None = None
    target: "ServedTarget | None" = None


@dataclass(frozen=True, slots=True)
class ServedTarget:
    """A target, and what its kind made of its document."""

    kind: str
    means: Any = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedDestination:
    """See the module. `settings` are the client's, with the time-out and the retries of this destination. `channel`:
    how its calls connect, None: as others. `target`: its calls go there, and `url` is only shown. `paused_at`: since
    when its calls wait. `locked`: why it can't be called."""

    name: str
    url: str
    method: str
    headers: Headers
    settings: ClientSettings
    limit: HostLimit
    channel: Channel | None = None
    token: TokenSource | None = None
    cloudevents: CloudEvents | None = None
    target: ServedTarget | None = None
    paused_at: UnixMillis | None = None
    locked: str | None = None
    revision: int = 0

    @property
    def callable(self) -> bool:
        """Whether its calls may be made."""
        return self.paused_at is None and self.locked is None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, revision {self.revision})"


Destinations: TypeAlias = Mapping[str, ServedDestination]
"""The destinations of one client, by name."""
NO_DESTINATIONS: Final[Destinations] = MappingProxyType({})


def open_all(
    stored: Sequence[StoredDestination],
    known: Mapping[str, OpenedDestination],
    encryption: SecretEncryption,
    kinds: TargetKinds = NO_KINDS,
) -> dict[str, OpenedDestination]:
    """All of a client's destinations; those that are `known` are opened again if they have changed, or were locked."""
    opened: dict[str, OpenedDestination] = {}
    for one in stored:
        before = known.get(one.name)
        if before is None or before.locked is not None or before.stored != one:
            before = _open(one, encryption, kinds)
        opened[one.name] = before
    return opened


def _open(stored: StoredDestination, encryption: SecretEncryption, kinds: TargetKinds) -> OpenedDestination:
    try:
        called = decode_destination(encryption.open_destination(stored.client_id, stored.name, stored.document))
    except (SecretLocked, Undecodable) as error:
        return OpenedDestination(stored, None, locked=str(error))
    try:
        target = target_of(called, kinds, stored.client_id)
    except Invalid as error:
        return OpenedDestination(stored, None, locked=f"its target is not admitted here: {error}")
    return OpenedDestination(stored, called, channel_of(called), target=target)


def target_of(called: Destination, kinds: TargetKinds, client_id: ClientId) -> ServedTarget | None:
    """Its target, as this process admits it; None: it has a URL. Raises Invalid."""
    target = called.target
    if target is None:
        return None
    rules = kinds.get(target.kind)
    if rules is None:
        raise Invalid([FieldError("/kind", unknown_kind(target.kind, kinds))])
    return ServedTarget(target.kind, rules.judge(target.document, client_id=client_id).means)


def channel_of(called: Destination) -> Channel | None:
    """How connections to it are made; None: as to any URL."""
    if called.certificate is None and called.proxy is None:
        return None
    return Channel(certificate=called.certificate, proxy=called.proxy)


def serve(opened: OpenedDestination, settings: ClientSettings) -> ServedDestination:
    """A destination of a client with these effective settings."""
    stored, called = opened.stored, opened.called
    if called is None:
        return ServedDestination(
            name=stored.name,
            url="",
            method="POST",
            headers=(),
            settings=settings,
            limit=_NO_LIMIT,
            paused_at=stored.paused_at,
            locked=opened.locked,
            revision=stored.revision,
        )
    return served(
        stored.name,
        called,
        settings,
        channel=opened.channel,
        target=opened.target,
        paused_at=stored.paused_at,
        revision=stored.revision,
    )


def served(
    name: str,
    called: Destination,
    settings: ClientSettings,
    *,
    channel: Channel | None,
    target: ServedTarget | None = None,
    paused_at: UnixMillis | None = None,
    revision: int = 0,
) -> ServedDestination:
    """A destination with this document."""
    own = msgspec.structs.replace(
        settings,
        timeout_seconds=called.timeout_seconds or settings.timeout_seconds,
        retry=settings.retry if called.retry is None else called.retry.over(settings.retry),
    )
    return ServedDestination(
        name=name,
        url=called.address,
        method=called.method,
        headers=called.headers,
        settings=own,
        limit=HostLimit(max_in_flight=called.max_in_flight, max_per_second=called.max_per_second),
        channel=channel,
        target=target,
        token=called.token,
        cloudevents=called.cloudevents,
        paused_at=paused_at,
        revision=revision,
    )
