"""Header blocks of requests over HTTP/2."""

import pytest

from poller_cluster.delivery.http2.header_block import block_of, headers_of
from poller_cluster.delivery.target import endpoint_of
from tests.support.delivery import post


def written(url: str = "https://Example.com:8443/a?b", body: bytes = b"", **differing: object) -> list[tuple[str, str]]:
    endpoint = endpoint_of(url)
    assert endpoint is not None
    return list(headers_of(block_of(post(url, body, **differing), endpoint)))


def test_pseudo_headers_come_first_and_names_are_small() -> None:
    assert written(headers=(("X-One", "As Given"), ("accept", "a")), body=b"{}") == [
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", "Example.com:8443"),
        (":path", "/a?b"),
        ("x-one", "As Given"),
        ("accept", "a"),
        ("content-length", "2"),
    ]


def test_a_length_is_sent_where_one_is_expected() -> None:
    assert ("content-length", "0") in written(method="PUT")
    assert "content-length" not in dict(written(method="GET"))


def test_values_have_no_space_around_them() -> None:
    assert written(headers=(("X", " \ta b\t "), ("Y", "")), method="GET")[4:] == [("x", "a b"), ("y", "")]


@pytest.mark.parametrize("length", [0, 1, 126, 127, 128, 254, 255, 256, 16_510, 16_511, 100_000])
def test_lengths(length: int) -> None:
    value, name = "v" * length, "n" * max(length, 1)
    assert written(headers=((name, value),), method="GET")[4:] == [(name, value)]


def test_secret_headers_are_never_indexed() -> None:
    """The header enters no table, neither the receiver's nor an intermediary's (RFC 7541, 6.2.3)."""
    endpoint = endpoint_of("https://h/")
    assert endpoint is not None
    block = block_of(post("https://h/", b"", method="GET", headers=(("authorization", "secret"),)), endpoint)
    assert b"\x10\x0dauthorization\x06secret" in block
    assert block.count(b"\x10") == 5
