"""Targets: where the calls of a destination go if that is no URL, such as a topic of Kafka. Pure.

A destination of another kind than http has a *target*: a JSON object whose meaning its kind alone knows. Kinds are
found by name (`poller_cluster.delivery.targets.kinds`), and the operator's settings switch them on. API processes judge
a target when it is put, nodes again when they serve it, each by its own settings: a target that a node's settings do
not admit is locked there, so its calls wait and none is sent elsewhere.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import msgspec

from scheduler_service.domain.destination_access import Unsaid
from scheduler_service.domain.ids import ClientId

HTTP: Final = "http"
"""The kind of destinations that have a URL."""
KIND_PATTERN: Final = r"^[a-z][a-z0-9-]{0,31}$"


class Target(Unsaid, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """As it is stored. `document` is what the client gave; `address` says in one line where calls go, such as
    kafka://main/orders, without secrets; `hidden` names the fields of the document whose values are never shown."""

    kind: str
    document: dict[str, Any]
    address: str
    hidden: tuple[str, ...] = ()


class JudgedTarget(NamedTuple):
    """What a kind says of a document: `address` and `hidden` as of a `Target`, and `means`, which is given to the
    kind's own target with every call."""

    address: str
    means: Any = None
    hidden: tuple[str, ...] = ()


class TargetRules(Protocol):
    """What a kind says of its documents."""

    def judge(self, document: Mapping[str, Any], *, client_id: ClientId) -> JudgedTarget:
        """Pure, and quick: it is asked on the event loop. Raises Invalid with every fault, each with a JSON pointer
        within the document, such as /topic; no fault quotes a secret."""


TargetKinds: TypeAlias = Mapping[str, TargetRules]
"""The kinds that this process knows, by name."""
NO_KINDS: Final[TargetKinds] = MappingProxyType({})


def unknown_kind(kind: str, kinds: TargetKinds) -> str:
    """The sentence for a kind that this process does not know."""
    offered = ", ".join((HTTP, *sorted(kinds)))
    return f"there is no kind {kind!r} here: use one of {offered}; the operator adds kinds by targets.file"
