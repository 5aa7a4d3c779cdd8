"""What the text of a URL shows, before anything is resolved."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.domain.network import MAX_URL_LENGTH, NetworkPolicy

DEFAULT = NetworkPolicy()


def refused(url: str, policy: NetworkPolicy = DEFAULT) -> str | None:
    refusal = policy.check_url(url)
    return None if refusal is None else refusal.code


@pytest.mark.parametrize(
    "url",
    [
        "https://shop.example/hooks/expire",
        "http://shop.example:8080/a?b=c&d=%20#part",
        "HTTPS://Shop.Example.",
        "https://shop.example?x=1",
        "https://xn--bcher-kva.example/",
        "https://under_score.example/",
        "https://8.8.8.8/",
        "https://[2606:4700::1111]:8443/",
        "https://a.1b/",
        "https://shop.example/a/../b/./c",
    ],
)
def test_good_urls(url: str) -> None:
    assert refused(url) is None


@pytest.mark.parametrize(
    "url",
    [
        "",
        "shop.example/x",
        "//shop.example/x",
        "/x",
        "ftp://shop.example/",
        "file:///etc/passwd",
        "gopher://shop.example/",
        "http:shop.example",
        "https://",
        "https:///x",
        "https://?x",
        "https://user@shop.example/",
        "https://user:password@shop.example/",
        "https://shop.example@10.0.0.1/",
        "https://shop.example\\@10.0.0.1/",
        "https://shop.example:0/",
        "https://shop.example:65536/",
        "https://shop.example:/",
        "https://shop.example:8a/",
        "https://shop.example:+80/",
        "https://shop.example:123456/",
        "https://shop..example/",
        "https://.shop.example/",
        "https://-shop.example/",
        "https://shop-.example/",
        "https://sh%6fp.example/",
        f"https://{'a' * 64}.example/",
        f"https://{'a.' * 130}example/",
        "https://shop.example/a b",
        "https://shop.example/\r\nHost: x",
        "https://shop.example/\0",
        "https://shop.example/\t",
        "https://shop.example/\x7f",
        "https://bücher.example/",
        "https://shop.example/ü",
        "https://１２７.0.0.1/",
        "https://[::1",
        "https://[::1]x/",
        "https://[fe80::1%25eth0]/",
        "https://[nonsense]/",
        "https://[]/",
        "https://1.2.3.4.5/",
        "https://256.1.1.1/",
        "https://1.2.3.256/",
        "https://0x100000000/",
        "https://4294967296/",
        "https://shop.08/",
        "https://08.0.0.1/",
        "https://shop.example/" + "a" * MAX_URL_LENGTH,
    ],
)
def test_malformed_urls(url: str) -> None:
    assert refused(url) == "bad-url"


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "0",
        "2130706433",
        "0x7f000001",
        "0X7F.1",
        "0x7f.0.0.0x1",
        "017700000001",
        "0177.0.0.01",
        "10.0.0.1",
        "169.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "localhost",
        "LocalHost.",
        "printer.localhost",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[fd00::1]",
    ],
)
def test_spelled_out_addresses_are_judged(host: str) -> None:
    assert refused(f"http://{host}/") == "forbidden-address"
    assert refused(f"http://{host}:8080/x") == "forbidden-address"


def test_credentials_have_a_better_place() -> None:
    refusal = DEFAULT.check_url("https://user:password@shop.example/")
    assert refusal is not None
    assert refusal.detail == "the URL carries credentials; send them in an Authorization header"


def test_an_operator_can_allow_loopback() -> None:
    policy = NetworkPolicy.parse(allow=["127.0.0.0/8"])
    for host in ("127.0.0.1", "localhost", "2130706433", "[::ffff:127.0.0.1]"):
        assert refused(f"http://{host}:9000/", policy) is None


def test_ports_and_schemes_of_the_operator() -> None:
    policy = NetworkPolicy.parse(allow_ports=[443], schemes=["https"])
    assert refused("https://shop.example/", policy) is None
    assert refused("https://shop.example:443/", policy) is None
    assert refused("https://shop.example:8443/", policy) == "forbidden-port"
    assert refused("http://shop.example:443/", policy) == "bad-url"


@given(st.text(max_size=200))
def test_any_text_gets_an_answer(text: str) -> None:
    for url in (text, f"http://{text}", f"http://[{text}]:80/"):
        refusal = DEFAULT.check_url(url)
        assert refusal is None or refusal.detail


@given(st.integers(0, 2**32 - 1))
def test_every_spelling_of_an_ipv4_address_is_judged_alike(value: int) -> None:
    first, last = value >> 24, value & 0xFFFFFF
    dotted = ".".join(str(value >> shift & 255) for shift in (24, 16, 8, 0))
    expected = refused(f"http://{dotted}/")
    for spelling in (str(value), hex(value), f"0{value:o}", f"{first}.{last}", f"{first:#x}.0{last:o}"):
        assert refused(f"http://{spelling}/") == expected
