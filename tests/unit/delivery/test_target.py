"""How the engine reads URLs."""

import pytest

from poller_cluster.delivery.target import endpoint_of


@pytest.mark.parametrize(
    ("url", "host", "addresses"),
    [
        ("http://Example.test/x", "example.test", None),
        ("https://example.test.:8443", "example.test.", None),
        ("http://LOCALHOST/", "localhost", ("::1", "127.0.0.1")),
        ("http://a.localhost./", "a.localhost.", ("::1", "127.0.0.1")),
        ("http://0x7f.1/", "0x7f.1", ("127.0.0.1",)),
        ("http://[2001:DB8::1]:81/", "[2001:db8::1]", ("2001:db8::1",)),
    ],
)
def test_hosts_of_urls(url: str, host: str, addresses: tuple[str, ...] | None) -> None:
    endpoint = endpoint_of(url)
    assert endpoint is not None
    assert (endpoint.target.host, endpoint.target.addresses) == (host, addresses)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://",
        "http://u@h/",
        "ftp://h/",
        "http://a b/",
        "http://%41/",
        "http://[::1/",
        "http://h:0/",
        "http://h:65536/",
        "http://h:/",
        "http://h/a\\b c",
        "http://h/\x7f",
    ],
)
def test_urls_that_nothing_is_sent_to(url: str) -> None:
    assert endpoint_of(url) is None


@pytest.mark.parametrize(
    ("url", "authority", "resource"),
    [
        ("http://h", "h", "/"),
        ("HTTP://H:80/a/../b?c=%20d#e", "H", "/a/../b?c=%20d"),
        ("https://h:80?q=/", "h:80", "/?q=/"),
        ("https://h:443/#", "h", "/"),
        ("http://2130706433:81/", "127.0.0.1:81", "/"),
        ("http://[0:0::1]/", "[::1]", "/"),
        ("http://localhost./", "localhost.", "/"),
        ("http://h//other/x", "h", "//other/x"),
    ],
)
def test_target_and_host_of_a_url(url: str, authority: str, resource: str) -> None:
    endpoint = endpoint_of(url)
    assert endpoint is not None
    assert (endpoint.authority, endpoint.resource) == (authority, resource)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://Receiver.test./", "receiver.test"),
        ("https://0x7f.1/", "127.0.0.1"),
        ("https://[::1]/", "::1"),
        ("https://localhost/", "localhost"),
    ],
)
def test_the_name_that_the_certificate_must_have(url: str, name: str) -> None:
    endpoint = endpoint_of(url)
    assert endpoint is not None
    assert endpoint.target.server_name == name
