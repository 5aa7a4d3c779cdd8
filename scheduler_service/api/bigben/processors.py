"""Tenants: what BigBen calls the configuration of a processor, as destinations and back. Pure.

A tenant's name may be any text, a destination's may not, so a destination is named after a digest of it, with what can
be read of it in front. The tenant's own name is a header of the destination, `BigBen-Tenant`, which its receivers get.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import Annotated, Any, Final
from urllib.parse import quote, unquote

import msgspec
from msgspec import UNSET, Meta, UnsetType

from scheduler_service.api.bigben.settings import BigBenSettings
from scheduler_service.api.resources.schedule_views import MASK
from scheduler_service.domain.destinations import Destination
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.options import RetryOverride
from scheduler_service.usecases.destination_request import DestinationRequest
from scheduler_service.usecases.destinations import ShownDestination

MAX_NAME: Final = 256
"""Characters of a tenant's name or an event's id."""
TENANT_HEADER: Final = "BigBen-Tenant"
EVENT_HEADER: Final = "BigBen-Event"
"""Of each call: the event's id, which a record of Kafka has for a key."""
_NAME_PREFIX: Final = "bb-"
_DIGEST_CHARACTERS: Final = 24
_READABLE_CHARACTERS: Final = 32
_UNREADABLE: Final = re.compile(r"[^a-z0-9]+")
_SENT: Final = {"Accept": "*/*", "Content-Type": "application/json; charset=utf-8"}
"""Headers that BigBen sends whatever the tenant says."""
_OWN: Final = frozenset({TENANT_HEADER.lower(), *(name.lower() for name in _SENT)})
_FINAL: Final = tuple(range(400, 500))
"""Answers after which BigBen doesn't call again."""
_PROPS_TYPES: Final = "HTTP, MESSAGING"
KAFKA: Final = "kafka"
"""The kind of destinations of MESSAGING processors."""

Props = Annotated[dict[str, Any], Meta(max_length=100)]


class ProcessorConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The body of a registration. `type`: HTTP, MESSAGING or CUSTOM_CLASS; `props` depend on it."""

    tenant: Annotated[str, Meta(max_length=MAX_NAME)] | None = None
    type: str | None = None
    props: Props | None = None


class _HttpProps(msgspec.Struct, frozen=True):
    """What an HTTP processor heeds; BigBen ignores other properties."""

    url: str | UnsetType | None = UNSET
    headers: dict[str, str] | None = None


def destination_name(tenant: str) -> str:
    """The name of a tenant's destination; two tenants never share one."""
    digest = hashlib.sha256(tenant.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    readable = _UNREADABLE.sub("-", tenant.lower()).strip("-")[:_READABLE_CHARACTERS].strip("-")
    return f"{_NAME_PREFIX}{readable}-{digest}" if readable else f"{_NAME_PREFIX}{digest}"


class _MessagingProps(msgspec.Struct, frozen=True):
    """What a MESSAGING processor heeds. Settings of BigBen's producer are the cluster's operator's here."""

    topic: str | None = None
    brokers: str | None = msgspec.field(default=None, name="bootstrap.servers")


def read_config(config: ProcessorConfig, settings: BigBenSettings) -> tuple[str, DestinationRequest]:
    """The tenant, and the destination that it asks for. Raises Invalid with every fault."""
    faults: list[FieldError] = []
    if config.tenant is None or not config.tenant.strip():
        faults.append(FieldError("/tenant", "is required"))
    request = None
    if config.props is None or not config.props:
        faults.append(FieldError("/props", "is required, with the processor's properties"))
    match config.type:
        case None:
            faults.append(FieldError("/type", f"is required; it may be {_PROPS_TYPES}"))
        case "HTTP":
            if config.props:
                request = _http(config.tenant or "", config.props, faults)
        case "MESSAGING":
            if config.props:
                request = _messaging(config.tenant or "", config.props, settings, faults)
        case "CUSTOM_CLASS":
            faults.append(
                FieldError(
                    "/type",
                    "CUSTOM_CLASS names a class to be run inside BigBen. Nothing of a tenant's is run here: serve the "
                    "class behind a URL, and register the tenant with the type HTTP",
                )
            )
        case _:
            faults.append(FieldError("/type", f"is not known; it may be {_PROPS_TYPES}"))
    if faults:
        raise Invalid(faults)
    assert config.tenant is not None
    assert request is not None
    return config.tenant, request


def _http(tenant: str, props: Props, faults: list[FieldError]) -> DestinationRequest | None:
    try:
        read = msgspec.convert(props, _HttpProps)
    except msgspec.ValidationError as error:
        faults.append(FieldError("/props", str(error)))
        return None
    if read.url is UNSET or read.url is None:
        faults.append(FieldError("/props/url", "is required"))
        return None
    given = {name: value for name, value in (read.headers or {}).items() if name.lower() not in _OWN}
    faults += [
        FieldError(f"/props/headers/{name[:128]}", f'is "{MASK}", which stands for a value that is not shown: give it')
        for name, value in given.items()
        if value == MASK
    ]
    return DestinationRequest(
        url=read.url,
        headers={**given, **_SENT, **_tenant_header(tenant)},
        retry=RetryOverride(final_statuses=_FINAL),
    )


def _messaging(
    tenant: str, props: Props, settings: BigBenSettings, faults: list[FieldError]
) -> DestinationRequest | None:
    try:
        read = msgspec.convert(props, _MessagingProps)
    except msgspec.ValidationError as error:
        faults.append(FieldError("/props", str(error)))
        return None
    if not read.topic:
        faults.append(FieldError("/props/topic", "is required"))
    cluster = None if read.brokers is None else settings.cluster_of(read.brokers)
    if read.brokers is None:
        faults.append(FieldError("/props/bootstrap.servers", "is required"))
    elif cluster is None:
        faults.append(
            FieldError(
                "/props/bootstrap.servers",
                "names brokers of no cluster that is open here: its operator must list each of them in the setting "
                "bigben.clusters",
            )
        )
    if not read.topic or cluster is None:
        return None
    headers = {name: value for name, value in _SENT.items() if name == "Content-Type"} | _tenant_header(tenant)
    target = {"cluster": cluster, "topic": read.topic, "key_header": EVENT_HEADER}
    return DestinationRequest(kind=KAFKA, target=target, headers=headers)


def _tenant_header(tenant: str) -> dict[str, str]:
    return {TENANT_HEADER: quoted(tenant)}


def quoted(name: str) -> str:
    """A name as the value of a header."""
    return quote(name, safe="/:@+,=")


def registered(shown: Iterable[ShownDestination], settings: BigBenSettings) -> dict[str, dict[str, Any]]:
    """The configurations by tenant, as BigBen lists them; header values are masked, because they may be secrets."""
    found: dict[str, dict[str, Any]] = {}
    for stored, document in shown:
        tenant = tenant_of(document)
        if tenant is not None and destination_name(tenant) == stored.name:
            kind, props = _processor(document, settings)
            found[tenant] = {"tenant": tenant, "type": kind, "props": props}
    return found


def tenant_of(document: Destination) -> str | None:
    """The tenant whose destination this is; None: it is that of none."""
    return next((unquote(value) for name, value in document.headers if name.lower() == TENANT_HEADER.lower()), None)


def _processor(document: Destination, settings: BigBenSettings) -> tuple[str, dict[str, Any]]:
    if (target := document.target) is not None:
        brokers = settings.brokers_of(str(target.document.get("cluster")))
        return "MESSAGING", {"topic": target.document.get("topic"), "bootstrap.servers": brokers}
    headers = {name: MASK for name, _ in document.headers if name.lower() not in _OWN}
    return "HTTP", {"url": document.url, **({"headers": headers} if headers else {})}
