"""The views of destinations: what they are, without their secrets."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from scheduler_service.api.resources.schedule_views import MASK
from scheduler_service.api.schemas import Instant
from scheduler_service.domain.destination_access import ClientCertificate
from scheduler_service.domain.destination_figures import BreakerState, Count, percentile
from scheduler_service.domain.destinations import CloudEvents, TokenSource
from scheduler_service.domain.instants import format_instant, format_instant_or_none
from scheduler_service.domain.options import RetryOverride
from scheduler_service.domain.targets import Target
from scheduler_service.usecases.client_certificates import certificate_facts
from scheduler_service.usecases.destination_figures import DestinationFigures
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


class FiguresView(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a destination's calls in the last hour, as the nodes that run now have counted. `failures`: calls
    without a 2xx answer. `answer_p50_seconds`, `answer_p99_seconds`: half, and 99 of 100, of the answers took no
    longer, at most 19 % too high; null: there were none. `in_flight`: calls under way; `waiting`: calls read and not
    begun; `deferred`: calls that come back later, because the destination is paused, its breaker is open or it has no
    token. `token_failures`: fetches of a token that got none; destinations with the same `token` share them. `breaker`:
    the worst that a node has. `silent_nodes`: how many nodes did not answer."""

    calls: Count
    failures: Count
    answer_p50_seconds: float | None
    answer_p99_seconds: float | None
    in_flight: Count
    waiting: Count
    deferred: Count
    token_failures: Count
    breaker: BreakerState
    silent_nodes: Count


class DestinationView(msgspec.Struct, frozen=True, kw_only=True):
    """A destination. Its secrets are never shown: of headers only the names, of a certificate only whose it is.
    `retry` and `timeout_seconds` null: as the client's settings say. `paused_at`: since when its calls wait; null: they
    are made. `changed_at`: when this `revision` was made. `figures`: where one destination is shown, else null.
    `url` of another `kind` than http: its `target` in one line, such as kafka://main/orders."""

    name: str
    client_id: str
    url: str
    kind: str
    target: Annotated[dict[str, Any], Meta(description=f'Secret fields are "{MASK}". Null for http.')] | None
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
    figures: FiguresView | None


def destination_view(shown: ShownDestination, figures: DestinationFigures | None = None) -> DestinationView:
    stored, document = shown
    proxy = document.proxy
    return DestinationView(
        name=stored.name,
        client_id=stored.client_id,
        url=document.address,
        kind=document.kind,
        target=_target_view(document.target),
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
        figures=None if figures is None else _figures_view(figures),
    )


def _target_view(target: Target | None) -> dict[str, Any] | None:
    if target is None:
        return None
    return {name: MASK if name in target.hidden else value for name, value in target.document.items()}


def _figures_view(shown: DestinationFigures) -> FiguresView:
    figures, silent = shown
    return FiguresView(
        calls=figures.calls,
        failures=figures.failures,
        answer_p50_seconds=_rounded(percentile(figures.answers, 0.5)),
        answer_p99_seconds=_rounded(percentile(figures.answers, 0.99)),
        in_flight=figures.in_flight,
        waiting=figures.waiting,
        deferred=figures.deferred,
        token_failures=figures.token_failures,
        breaker=figures.breaker,
        silent_nodes=len(silent),
    )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)


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
