"""The views of destinations: what they are, without their secrets."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from scheduler_service.api.resources.schedule_views import MASK
from scheduler_service.api.schemas import Instant
from scheduler_service.domain.destination_access import ClientCertificate
from scheduler_service.domain.destinations import CloudEvents, TokenSource
from scheduler_service.domain.instants import format_instant, format_instant_or_none
from scheduler_service.domain.options import RetryOverride
from scheduler_service.usecases.client_certificates import certificate_facts
from scheduler_service.usecases.destinations import ShownDestination


class CertificateView(msgspec.Struct, frozen=True, kw_only=True):
    """A client certificate: whose it is, and until when it is good."""

    subject: str
    expires_at: Instant


class TokenView(msgspec.Struct, frozen=True, kw_only=True):
    """Where the bearer token of calls comes from."""

    client_id: str
    token_url: str | None
    issuer: str | None
    scope: str | None
    audience: str | None
    authentication: Literal["basic", "post"]
    id_token: bool


class ProxyView(msgspec.Struct, frozen=True, kw_only=True):
    """A forward proxy, and the name that is used there; null: none."""

    url: str
    username: str | None


class CloudEventsView(msgspec.Struct, frozen=True, kw_only=True):
    """Calls are CloudEvents of this type, from this source."""

    type: str
    source: str


class DestinationView(msgspec.Struct, frozen=True, kw_only=True):
    """A destination. Its secrets are never shown: of headers only the names, of a certificate only whose it is.
    `retry` and `timeout_seconds` null: as the client's settings say. `paused_at`: since when its calls wait; null: they
    are made. `changed_at`: when this `revision` was made."""

    name: str
    client_id: str
    url: str
    method: str
    headers: Annotated[dict[str, str], Meta(description=f'The value of each is "{MASK}".')]
    timeout_seconds: float | None
    retry: RetryOverride | None
    max_per_second: float | None
    max_in_flight: int | None
    certificate: CertificateView | None
    token: TokenView | None
    proxy: ProxyView | None
    cloudevents: CloudEventsView | None
    paused_at: Instant | None
    revision: int
    created_at: Instant
    changed_at: Instant


def destination_view(shown: ShownDestination) -> DestinationView:
    stored, document = shown
    proxy = document.proxy
    return DestinationView(
        name=stored.name,
        client_id=stored.client_id,
        url=document.url,
        method=document.method,
        headers={name: MASK for name, _ in document.headers},
        timeout_seconds=document.timeout_seconds,
        retry=document.retry,
        max_per_second=document.max_per_second,
        max_in_flight=document.max_in_flight,
        certificate=_certificate_view(document.certificate),
        token=_token_view(document.token),
        proxy=None if proxy is None else ProxyView(url=proxy.url, username=proxy.username),
        cloudevents=_cloudevents_view(document.cloudevents),
        paused_at=format_instant_or_none(stored.paused_at),
        revision=stored.revision,
        created_at=format_instant(stored.created_at),
        changed_at=format_instant(stored.changed_at),
    )


def _certificate_view(certificate: ClientCertificate | None) -> CertificateView | None:
    if certificate is None:
        return None
    facts = certificate_facts(certificate)
    return CertificateView(subject=facts.subject, expires_at=format_instant(facts.expires_at))


def _token_view(token: TokenSource | None) -> TokenView | None:
    if token is None:
        return None
    return TokenView(
        client_id=token.client_id,
        token_url=token.token_url,
        issuer=token.issuer,
        scope=token.scope,
        audience=token.audience,
        authentication=token.authentication,
        id_token=token.id_token,
    )


def _cloudevents_view(events: CloudEvents | None) -> CloudEventsView | None:
    return None if events is None else CloudEventsView(type=events.type, source=events.source)
