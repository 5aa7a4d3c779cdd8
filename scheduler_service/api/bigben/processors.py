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

from scheduler_service.api.resources.schedule_views import MASK
from scheduler_service.domain.destinations import Destination
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.options import RetryOverride
from scheduler_service.usecases.destination_request import DestinationRequest
from scheduler_service.usecases.destinations import ShownDestination

MAX_NAME: Final = 256
"""Characters of a tenant's name or an event's id."""
TENANT_HEADER: Final = "BigBen-Tenant"
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


def read_config(config: ProcessorConfig) -> tuple[str, DestinationRequest]:
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
            faults.append(FieldError("/type", "MESSAGING is not possible here: register the tenant with the type HTTP"))
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
        headers={**given, **_SENT, TENANT_HEADER: quote(tenant, safe="/:@+,=")},
        retry=RetryOverride(final_statuses=_FINAL),
    )


def registered(shown: Iterable[ShownDestination]) -> dict[str, dict[str, Any]]:
    """The configurations by tenant, as BigBen lists them; header values are masked, because they may be secrets."""
    found: dict[str, dict[str, Any]] = {}
    for stored, document in shown:
        tenant = tenant_of(document)
        if tenant is not None and destination_name(tenant) == stored.name:
            found[tenant] = {"tenant": tenant, "type": "HTTP", "props": _props(document)}
    return found


def tenant_of(document: Destination) -> str | None:
    """The tenant whose destination this is; None: it is that of none."""
    return next((unquote(value) for name, value in document.headers if name.lower() == TENANT_HEADER.lower()), None)


def _props(document: Destination) -> dict[str, Any]:
    headers = {name: MASK for name, _ in document.headers if name.lower() not in _OWN}
    return {"url": document.url, **({"headers": headers} if headers else {})}
