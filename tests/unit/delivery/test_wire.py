"""Requests as bytes, and fields that are refused."""

from typing import Any

import pytest

from poller_cluster.delivery.request import BadRequest, head_of
from poller_cluster.delivery.target import endpoint_of
from tests.support.delivery import post


def written(**differing: Any) -> bytes:
    request = post("http://h:81/a?b", **differing)
    endpoint = endpoint_of(request.url)
    assert endpoint is not None
    return head_of(request, endpoint)


def test_as_given_and_in_order() -> None:
    given = (("x-B", "2"), ("A", ""), ("content-type", "a; b"))
    assert written(body=b"abc", headers=given) == (
        b"POST /a?b HTTP/1.1\r\nHost: h:81\r\nx-B: 2\r\nA:\r\ncontent-type: a; b\r\nContent-Length: 3\r\n\r\n"
    )
    assert written(method="GET", body=b"", headers=()) == b"GET /a?b HTTP/1.1\r\nHost: h:81\r\n\r\n"


@pytest.mark.parametrize("character", ["\r", "\n", "\0", "\r\n", "\u010a", "\u560a", "\x85"])
@pytest.mark.parametrize("place", ["name", "value", "method"])
def test_control_characters_are_refused_in_every_field(place: str, character: str) -> None:
    text = f"a{character}b"
    differing: dict[str, Any] = {
        "name": {"headers": ((text, "1"),)},
        "value": {"headers": (("X", text),)},
        "method": {"method": text},
    }[place]
    for _ in range(2):
        with pytest.raises(BadRequest):
            written(**differing)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a b",
        "a:",
        "CONNECTION",
        "Content_Length",
        "content-length",
        "Expect",
        "Host",
        "HTTP2-Settings",
        "Keep-Alive",
        "Proxy-Authorization",
        "te",
        "Trailer",
        "Transfer-Encoding",
        "Transfer_Encoding",
        "Upgrade",
    ],
)
def test_headers_that_are_not_the_caller_s(name: str) -> None:
    for _ in range(2):
        with pytest.raises(BadRequest):
            written(headers=((name, "1"),))


def test_mixed_line_breaks_in_a_header_are_refused() -> None:
    with pytest.raises(BadRequest):
        written(headers=(("X", "a\rb\nc"),))
