"""Requests for destinations: what becomes of them, and every rule with its pointer."""

from typing import Any

import msgspec
import pytest

from scheduler_service.domain.client_bounds import ClientBounds
from scheduler_service.domain.clients import ClientSettings
from scheduler_service.domain.destination_access import ClientCertificate, ForwardProxy
from scheduler_service.domain.destinations import CloudEvents, Destination, TokenSource
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.network import NetworkPolicy
from scheduler_service.domain.options import RetryOverride
from scheduler_service.domain.targets import NO_KINDS, JudgedTarget, Target, TargetKinds
from scheduler_service.usecases.destination_request import DestinationRequest, draft_destination
from scheduler_service.usecases.schedule_request import CallbackPolicy
from scheduler_service.usecases.secret_encryption import NoEncryption
from tests.support.api import NOW
from tests.support.client_pems import pair

URL = "https://warehouse.example/hooks?of=7"
TOKEN = {"client_id": "shop", "client_secret": "canary7f3a", "token_url": "https://login.example/token?x=1"}
PROXY = {"url": "http://proxy.internal:3128", "username": "shop", "password": "canary7f3a"}
PAIR = pair()


def decoded(request: dict[str, Any]) -> DestinationRequest:
    whole = request if "kind" in request else {"url": URL, **request}
    return msgspec.json.decode(msgspec.json.encode(whole), type=DestinationRequest)


def drafted(
    request: dict[str, Any],
    *,
    settings: ClientSettings | None = None,
    bounds: ClientBounds | None = None,
    kinds: TargetKinds = NO_KINDS,
    **policy: Any,
) -> Destination:
    network = NetworkPolicy.parse(**{"proxies": ["proxy.internal:3128"], **policy})
    return draft_destination(
        decoded(request),
        client_id=ClientId("shop"),
        settings=settings or ClientSettings(),
        policy=CallbackPolicy(network=network, encryption=NoEncryption(), bounds=bounds or ClientBounds(), kinds=kinds),
        now=NOW,
    )


def faults(request: dict[str, Any], **other: Any) -> dict[str, str]:
    with pytest.raises(Invalid) as caught:
        drafted(request, **other)
    return {error.pointer: error.detail for error in caught.value.errors}


def test_a_url_alone_is_a_destination() -> None:
    assert drafted({}) == Destination(url=URL)


def test_everything_that_is_asked_is_stored() -> None:
    request = {
        "method": "PUT",
        "headers": {"X-Source": "shop"},
        "timeout_seconds": 2.5,
        "retry": {"max_attempts": 3},
        "max_per_second": 0.5,
        "max_in_flight": 7,
        "certificate": PAIR,
        "token": {**TOKEN, "scope": "a b", "audience": "urn:x", "authentication": "post", "id_token": True},
        "proxy": PROXY,
        "cloudevents": {"type": "shop.paid", "source": "/shop"},
    }
    assert drafted(request) == Destination(
        url=URL,
        method="PUT",
        headers=(("X-Source", "shop"),),
        timeout_seconds=2.5,
        retry=RetryOverride(max_attempts=3),
        max_per_second=0.5,
        max_in_flight=7,
        certificate=ClientCertificate(**PAIR),
        token=TokenSource(
            client_id="shop",
            client_secret="canary7f3a",
            token_url="https://login.example/token?x=1",
            scope="a b",
            audience="urn:x",
            authentication="post",
            id_token=True,
        ),
        proxy=ForwardProxy(url="http://proxy.internal:3128", username="shop", password="canary7f3a"),
        cloudevents=CloudEvents(type="shop.paid", source="/shop"),
    )
    assert "canary" not in repr(decoded(request)) + repr(decoded(request).token) + repr(decoded(request).proxy)


def test_all_faults_are_named_at_once() -> None:
    request = {
        "url": "https://10.0.0.1/",
        "method": "TRACE",
        "headers": {"host": "x"},
        "timeout_seconds": 9,
        "retry": {"max_attempts": 50},
        "certificate": {"chain": "x", "key": "y"},
        "token": {"client_id": "a", "client_secret": "b"},
        "proxy": {"url": "http://other.internal:3128", "password": "x"},
        "cloudevents": {"type": "a", "source": "with space"},
    }
    bounds = ClientBounds(timeout_seconds=5, retry_max_attempts=10)
    assert faults(request, bounds=bounds).keys() == {
        "/url",
        "/method",
        "/headers/host",
        "/timeout_seconds",
        "/retry/max_attempts",
        "/certificate/chain",
        "/certificate/key",
        "/token/token_url",
        "/proxy/url",
        "/proxy/username",
        "/cloudevents/source",
    }


def test_a_url_has_no_fragment_and_no_credentials() -> None:
    assert "fragment" in faults({"url": "https://a.example/x#y"})["/url"]
    assert "credentials" in faults({"url": "https://me:canary@a.example/"})["/url"]
    assert "scheme" in faults({"url": "destination://other/x"})["/url"]


def test_headers_are_bounded_by_the_client() -> None:
    settings = ClientSettings(header_bytes=20)
    assert drafted({"headers": {"x-a": "b" * 13}}, settings=settings).headers == (("x-a", "b" * 13),)
    assert "at most 20" in faults({"headers": {"x-a": "b" * 14}}, settings=settings)["/headers"]


def test_headers_that_others_set_are_refused() -> None:
    assert "token" in faults({"headers": {"Authorization": "x"}, "token": TOKEN})["/headers/Authorization"]
    assert drafted({"headers": {"Authorization": "x"}}).headers == (("Authorization", "x"),)
    events = {"type": "a", "source": "b"}
    assert "cloudevents" in faults({"headers": {"CE-Type": "x"}, "cloudevents": events})["/headers/CE-Type"]


@pytest.mark.parametrize(
    ("token", "pointer", "detail"),
    [
        ({"token_url": None}, "/token/token_url", "neither is given"),
        ({"issuer": "https://login.example"}, "/token/token_url", "both are given"),
        ({"token_url": "http://login.example/token"}, "/token/token_url", "must be an https URL"),
        ({"token_url": "https://127.0.0.1/token"}, "/token/token_url", "network policy"),
        ({"token_url": "https://login.example/token#x"}, "/token/token_url", "fragment"),
        ({"token_url": None, "issuer": "https://192.168.0.1/"}, "/token/issuer", "network policy"),
        ({"token_url": None, "issuer": "https://login.example?x"}, "/token/issuer", "query"),
    ],
)
def test_where_tokens_come_from_is_judged(token: dict[str, Any], pointer: str, detail: str) -> None:
    assert detail in faults({"token": {**TOKEN, **token}})[pointer]


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "[::1]:8000", "localhost", "127.1"])
def test_tokens_may_come_from_this_machine_over_http_if_the_policy_allows_it(host: str) -> None:
    url = f"http://{host}/token"
    request = {"token": {**TOKEN, "token_url": url}}
    allow = ["127.0.0.0/8", "::1/128"]
    token = drafted(request, allow=allow).token
    assert token is not None
    assert token.token_url == url
    assert "network policy" in faults(request)["/token/token_url"]
    elsewhere = {"token": {**TOKEN, "token_url": "http://10.0.0.1/token"}}
    assert "must be an https URL" in faults(elsewhere, allow=["10.0.0.0/8"])["/token/token_url"]


@pytest.mark.parametrize(
    "request_",
    [
        {"unknown": 1},
        {"max_per_second": 0},
        {"max_per_second": 100_001},
        {"max_in_flight": 0},
        {"max_in_flight": 10_001},
        {"timeout_seconds": 601},
        {"retry": {"max_attempts": 101}},
        {"certificate": {"chain": PAIR["chain"]}},
        {"token": {**TOKEN, "client_id": ""}},
        {"token": {**TOKEN, "client_secret": ""}},
        {"token": {**TOKEN, "client_secret": "x" * 2049}},
        {"token": {**TOKEN, "scope": 'a "b"'}},
        {"token": {**TOKEN, "scope": "a\nb"}},
        {"token": {**TOKEN, "audience": "a\r\nb"}},
        {"token": {**TOKEN, "authentication": "none"}},
        {"proxy": {**PROXY, "username": "a:b"}},
        {"proxy": {**PROXY, "password": "a\r\nb"}},
        {"cloudevents": {"type": "", "source": "/a"}},
        {"cloudevents": {"type": "a", "source": ""}},
        {"cloudevents": {"type": "a\nb", "source": "/a"}},
        {"headers": {f"x-{number}": "" for number in range(65)}},
    ],
)
def test_values_beyond_their_bounds_are_refused_when_they_are_read(request_: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        decoded(request_)


def test_a_proxy_is_one_that_the_operator_lists() -> None:
    assert drafted({"proxy": {"url": PROXY["url"]}}).proxy == ForwardProxy(url=PROXY["url"])
    assert "does not allow" in faults({"proxy": PROXY}, proxies=[])["/proxy/url"]
    assert faults({"proxy": {"url": PROXY["url"], "username": "a"}}).keys() == {"/proxy/password"}


@pytest.mark.parametrize("source", ["/shop", "urn:example:shop", "https://a.example/x?y=%20#z", "shop"])
def test_a_cloudevents_source_must_be_a_uri_reference(source: str) -> None:
    events = drafted({"cloudevents": {"type": "a", "source": source}}).cloudevents
    assert events == CloudEvents(type="a", source=source)
    assert "/cloudevents/source" in faults({"cloudevents": {"type": "a", "source": f"{source}%zz"}})


@pytest.mark.parametrize("rate", [5e-324, 1e-320, 0.00009])
def test_a_rate_that_never_lets_a_call_start_is_refused(rate: float) -> None:
    with pytest.raises(msgspec.ValidationError, match="max_per_second"):
        decoded({"max_per_second": rate})


@pytest.mark.parametrize(
    "request_",
    [
        {"cloudevents": {"type": "a\n", "source": "/a"}},
        {"token": {**TOKEN, "scope": "a\n"}},
        {"proxy": {**PROXY, "username": "shop\n"}},
        {"proxy": {**PROXY, "password": "secret\n"}},
    ],
)
def test_a_line_break_at_the_end_is_not_admitted(request_: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError, match="regex"):
        decoded(request_)


class Box:
    """A kind whose targets have a name and a password."""

    def judge(self, document: Any, *, client_id: ClientId) -> JudgedTarget:
        if wrong := [FieldError(f"/{name}", "is not known") for name in document if name not in ("name", "password")]:
            raise Invalid(wrong)
        return JudgedTarget(f"box://{client_id}/{document['name']}", hidden=("password",))


KINDS = {"box": Box()}


def test_another_kind_judges_its_target() -> None:
    target = {"name": "a", "password": "canary7f3a"}
    made = drafted({"kind": "box", "target": target, "headers": {"x": "1"}, "max_in_flight": 3}, kinds=KINDS)
    assert (made.url, made.kind, made.address, made.max_in_flight) == ("", "box", "box://shop/a", 3)
    assert made.target == Target(kind="box", document=target, address="box://shop/a", hidden=("password",))
    assert "canary7f3a" not in repr(made)


def test_faults_of_a_target_are_named_below_it() -> None:
    assert faults({"kind": "box", "target": {"size": 3, "colour": 1}}, kinds=KINDS) == {
        "/target/size": "is not known",
        "/target/colour": "is not known",
    }


def test_what_is_for_http_alone_is_refused_by_name() -> None:
    http = {"url": URL, "method": "PUT", "token": TOKEN, "proxy": PROXY, "certificate": {"chain": "c", "key": "k"}}
    wrong = faults({"kind": "box", "target": {"name": "a"}, **http}, kinds=KINDS)
    assert {pointer for pointer, detail in wrong.items() if "only for kind http, not for box" in detail} == {
        "/url",
        "/method",
        "/token",
        "/proxy",
        "/certificate",
    }


@pytest.mark.parametrize(
    ("request_", "pointer", "said"),
    [
        (
            {"kind": "bus", "target": {}},
            "/kind",
            "there is no kind 'bus' here: use one of http, box; the operator adds kinds by targets.file",
        ),
        ({"kind": "box"}, "/target", "is required for kind box"),
        ({"kind": "box", "target": {"name": "a" * 16_384}}, "/target", "is longer than 16384 bytes"),
        ({"kind": "http", "target": {"name": "a"}, "url": URL}, "/target", "is only for other kinds than http"),
        ({"kind": "http"}, "/url", "is required: say where calls go"),
    ],
)
def test_a_kind_that_can_not_be_is_a_fault(request_: dict[str, Any], pointer: str, said: str) -> None:
    assert faults(request_, kinds=KINDS)[pointer] == said
