"""One HTTP request to a receiver, complete and signed, and its bytes over HTTP/1.1. Refuses anything that a receiver
could parse as another header or another request.
"""

from typing import Any, Final

import msgspec

from poller_cluster.delivery.channel import Channel
from poller_cluster.delivery.target import Endpoint
from scheduler_service.domain.callback_rules import belongs_to_connection, is_token

_LENGTH_EXPECTED: Final = frozenset({"POST", "PUT", "PATCH"})
"""Methods that send Content-Length: 0 when there is no body (RFC 9110, 8.6)."""
_REMEMBERED: Final = 4_096
_known_names: set[str] = set()


class TargetCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a call to a target has instead of a URL: the target's kind, what the kind made of its document (`means`),
    and what may decide the order of calls there. `cloudevents`: the headers are those of a CloudEvent in the HTTP
    binding's binary mode, which a target with a binding of its own translates."""

    kind: str
    means: Any
    schedule_id: str
    ordering_key: str | None = None
    cloudevents: bool = False


class CallbackRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What goes on the wire: `headers` are all headers, the user's and ours, in order.

    `client_id`: whose share of look-ups it uses, and whose connections. `channel`: how these are made, None: directly
    and without a client certificate.

    `at_most_once`: never repeat the request if something of it may have been sent, not even when a kept connection
    turned out to be dead.

    `keeps_answer`: its result has the whole answer (`domain.end_notices`), as far as that is kept.

    `target`: it is no HTTP request; `url` is only shown then, and `method` means nothing (`delivery.targets`).
    """

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    timeout_seconds: float
    at_most_once: bool = False
    client_id: str = ""
    channel: Channel | None = None
    target: TargetCall | None = None
    keeps_answer: bool = False


class BadRequest(Exception):
    """The request can't be written safely."""


def sends_body(request: CallbackRequest) -> bool:
    """Whether it has a body, possibly an empty one."""
    return bool(request.body) or request.method in _LENGTH_EXPECTED


def head_of(request: CallbackRequest, endpoint: Endpoint) -> bytes:
    """Everything up to the body. Raises BadRequest."""
    method, headers = request.method, request.headers
    if method not in _known_names:
        _judge_name(method, "the method is not a valid one")
    lines = [f"{method} {endpoint.resource} HTTP/1.1\r\nHost: {endpoint.authority}"]
    for name, value in headers:
        if name not in _known_names:
            _judge_name(name, "a header's name is not a valid one")
        lines.append(f"{name}: {value}" if value else f"{name}:")
    if sends_body(request):
        lines.append(f"Content-Length: {len(request.body)}")
    lines.append("\r\n")
    text = "\r\n".join(lines)
    # Breaks: one between two elements each, one within the first, and the last element is one. Counting them over the
    # whole head is cheaper than searching each value.
    breaks = len(lines) + 1
    if text.count("\n") != breaks or text.count("\r") != breaks or "\0" in text:
        raise BadRequest("a header has a line break")
    try:
        return text.encode("ascii")
    except UnicodeEncodeError:
        raise BadRequest("a header has characters beside ASCII") from None


def _judge_name(name: str, wrong: str) -> None:
    if not is_token(name) or belongs_to_connection(name):
        raise BadRequest(wrong)
    if len(_known_names) >= _REMEMBERED:
        _known_names.clear()
    _known_names.add(name)
