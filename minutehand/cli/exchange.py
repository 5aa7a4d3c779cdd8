"""Shows a trial call in a terminal: both messages, then the outcome."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from minutehand.cli.output import print_fields, say, show

if TYPE_CHECKING:
    from minutehand.client import Exchange, SentCallback

_TIMES = (
    ("resolved", "resolved_seconds"),
    ("connected", "connected_seconds"),
    ("TLS", "secured_seconds"),
    ("first byte", "first_byte_seconds"),
    ("over", "ended_seconds"),
)


def show_exchange(exchange: "Exchange") -> None:
    """Sent lines begin with `>`, received ones with `<`."""
    for line in _lines(exchange):
        say(line)
    say("")
    times = ((name, getattr(exchange.times, field)) for name, field in _TIMES)
    print_fields(
        [
            ("outcome", _outcome(exchange)),
            ("addresses", ", ".join(exchange.addresses) or None),
            ("connected to", exchange.connected_to),
            ("seconds until", ", ".join(f"{name} {value:.3f}" for name, value in times if value is not None)),
            ("started", show(exchange.started_at)),
            ("webhook-id", f"{exchange.schedule_id} (a trial call: there is no such schedule)"),
        ]
    )


def show_request(request: "SentCallback") -> None:
    """A request that is not sent."""
    for line in _request_lines(request):
        say(line)


def _request_lines(request: "SentCallback") -> Iterator[str]:
    yield f"> {request.method} {request.url}"
    for name, value in (request.headers or {}).items():
        yield f"> {name}: {value}"
    yield ">"
    if request.body_base64 is not None:
        yield f"> ({len(request.body_base64)} bytes that are not text)"
    for line in (request.body or "").splitlines():
        yield f"> {line}"


def _lines(exchange: "Exchange") -> Iterator[str]:
    yield from _request_lines(exchange.request)
    if exchange.status is not None:
        yield f"< HTTP/{exchange.http_version or '?'} {exchange.status}"
        for name, value in exchange.response_headers.items():
            yield f"< {name}: {value}"
        yield "<"
        for line in exchange.excerpt.splitlines():
            yield f"< {line}"


def _outcome(exchange: "Exchange") -> str:
    if exchange.delivered and exchange.status is None:
        return f"delivered to {exchange.request.url}"
    if exchange.verb is not None and exchange.verb_ignored is None:
        return f"{exchange.verb}: the receiver answered {exchange.status}"
    if exchange.delivered:
        return f"delivered: the receiver answered {exchange.status}"
    if exchange.status is not None:
        return f"not delivered: the receiver answered {exchange.status}, and only 2xx is success"
    sent = "" if exchange.sent else "; nothing was sent"
    return f"not delivered: {exchange.error} ({exchange.detail or 'no answer'}){sent}"
