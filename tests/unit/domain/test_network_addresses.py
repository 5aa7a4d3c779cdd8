"""Which addresses a callback may reach."""

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poller_cluster.delivery.target import judge_socket_address
from scheduler_service.domain.network import NetworkPolicy, carried_addresses

DEFAULT = NetworkPolicy()


def refused(address: str, policy: NetworkPolicy = DEFAULT, port: int = 443) -> str | None:
    refusal = policy.judge(address, port)
    return None if refusal is None else refusal.code


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "100.127.255.255",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.255.254",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
    ],
)
def test_no_ipv4_address_that_is_not_plainly_public(address: str) -> None:
    assert refused(address) == "forbidden-address"


@pytest.mark.parametrize(
    "address",
    [
        "::",
        "::1",
        "::7f00:1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:0:10.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::808:808",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "2001:0:7f00:1::f7f7:f7f7",
        "2001:0:808:808::80ff:fffe",
        "2001:10::1",
        "2001:db8::1",
        "2600::200:5efe:a00:1",
        "2600::5efe:a00:1",
        "3fff::1",
        "100::1",
        "4000::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
    ],
)
def test_no_ipv6_address_that_is_not_plainly_public(address: str) -> None:
    assert refused(address) == "forbidden-address"


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8",
        "172.32.0.1",
        "100.128.0.1",
        "2606:4700::1111",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2002:808:808::1",
    ],
)
def test_public_addresses_in_any_form(address: str) -> None:
    assert refused(address) is None


@pytest.mark.parametrize("address", ["", "localhost", "1.2.3", "127.0.0.1:80", "/run/receiver.sock"])
def test_what_is_no_address_is_refused(address: str) -> None:
    assert refused(address) == "forbidden-address"


@given(st.ip_addresses(v=4))
def test_agrees_with_the_registries_on_ipv4(address: IPv4Address) -> None:
    if not address.is_global:
        assert refused(str(address)) == "forbidden-address"


@given(st.ip_addresses(v=6))
def test_agrees_with_the_registries_on_ipv6(address: IPv6Address) -> None:
    if not address.is_global and not carried_addresses(address):
        assert refused(str(address)) == "forbidden-address"


@given(st.ip_addresses(v=4), st.sampled_from(["::", "::ffff:0:0", "::ffff:0:0:0", "64:ff9b::"]))
def test_a_carried_address_is_as_good_as_itself(address: IPv4Address, prefix: str) -> None:
    carrier = IPv6Address(int(IPv6Address(prefix)) | int(address))
    assert refused(str(carrier)) == refused(str(address))


def test_the_operator_allows_and_denies() -> None:
    policy = NetworkPolicy.parse(allow=["127.0.0.0/8", "::1/128"], deny=["127.0.0.9/32", "8.8.8.0/24"])
    assert refused("127.0.0.1", policy) is None
    assert refused("::1", policy) is None
    assert refused("::ffff:127.0.0.1", policy) is None
    assert refused("127.0.0.9", policy) == "forbidden-address"
    assert refused("::ffff:127.0.0.9", policy) == "forbidden-address"
    assert refused("8.8.8.8", policy) == "forbidden-address"
    assert refused("64:ff9b::8.8.8.8", policy) == "forbidden-address"
    assert refused("10.0.0.1", policy) == "forbidden-address"


def test_allowed_ports() -> None:
    policy = NetworkPolicy.parse(allow_ports=[443, 8443])
    assert refused("8.8.8.8", policy, port=8443) is None
    assert refused("8.8.8.8", policy, port=25) == "forbidden-port"


def test_a_refusal_says_why() -> None:
    refusal = DEFAULT.judge("::ffff:169.254.169.254", 80)
    assert refusal is not None
    assert refusal.detail == "the network policy refuses 169.254.169.254 (metadata)"


@pytest.mark.parametrize("schemes", [(), ("ftp",), ("http", "gopher")])
def test_only_http_and_https_can_be_configured(schemes: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="http, https or both"):
        NetworkPolicy.parse(schemes=schemes)


@pytest.mark.parametrize(
    "address", [("127.0.0.1", 80), ("::1", 80, 0, 0), "/run/receiver.sock", b"\0abstract", (), None]
)
def test_socket_addresses(address: object) -> None:
    refusal = judge_socket_address(DEFAULT, address)
    assert refusal is not None
    assert refusal.code == "forbidden-address"


def test_a_public_socket_address() -> None:
    assert judge_socket_address(DEFAULT, ("2606:4700::1111", 443, 0, 0)) is None


def test_proxies_of_the_operator() -> None:
    policy = NetworkPolicy.parse(proxies=["proxy.internal:3128", "10.0.0.1:80", "[fd00::1]:3128"])
    for url in (
        "http://proxy.internal:3128",
        "HTTP://Proxy.Internal:3128/",
        "http://10.0.0.1:80",
        "http://[fd00::1]:3128",
    ):
        assert policy.check_proxy(url) is None
        assert DEFAULT.check_proxy(url) is not None
    for url in (
        "https://proxy.internal:3128", "proxy.internal:3128", "http://proxy.internal", "http://proxy.internal:3129",
        "http://a:b@proxy.internal:3128", "http://proxy.internal:3128/path", "http://proxy.internal:3128?a",
        "http://proxy.internal.:3128", "http://" + "x" * 5_000, "",
    ):  # fmt: skip
        refusal = policy.check_proxy(url)
        assert refusal is not None, url
        assert "x" * 100 not in refusal.detail


@pytest.mark.parametrize(
    "proxy", ["proxy.internal", "Proxy:80", "proxy:0", "proxy:65536", "proxy:x", "http://p:80", ":80", ""]
)
def test_what_names_no_proxy(proxy: str) -> None:
    with pytest.raises(ValueError, match="proxies"):
        NetworkPolicy.parse(proxies=[proxy])
