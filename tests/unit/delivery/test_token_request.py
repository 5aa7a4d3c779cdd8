"""The requests that get a token, and every answer that is none."""

import json
from base64 import b64decode, urlsafe_b64encode
from typing import Any
from urllib.parse import parse_qs

import pytest

from poller_cluster.delivery.result import AttemptResult
from poller_cluster.delivery.token_request import (
    DEFAULT_LIFETIME_SECONDS,
    LONGEST_LIFETIME_SECONDS,
    MAX_SAID_LENGTH,
    MAX_TOKEN_LENGTH,
    Grant,
    TokenFailure,
    discovery_request,
    read_endpoint,
    read_token,
    token_request,
)
from scheduler_service.domain.destinations import TokenSource
from scheduler_service.domain.ids import ClientId

ISSUER = "https://issuer.test/realm"
SOURCE = TokenSource(client_id="shop&co", client_secret="s3:cr et", token_url="https://tokens.test/token")
ID_TOKENS = TokenSource(client_id="shop", client_secret="secret", issuer=ISSUER, id_token=True)


def answered(body: object, status: int | None = 200, **differing: Any) -> AttemptResult:
    text = body if isinstance(body, str) else json.dumps(body)
    return AttemptResult(status=status, error=None, started_at_ms=0, duration_seconds=0.1, excerpt=text, **differing)


def granted(**fields: object) -> AttemptResult:
    return answered({"access_token": "abc.def-1_~+/==", "token_type": "Bearer", "expires_in": 3600} | fields)


def jwt(**claims: object) -> str:
    payload = urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{payload}.c2ln"


def asked(source: TokenSource) -> tuple[dict[str, str], dict[str, list[str]]]:
    request = token_request(
        source, "https://tokens.test/token", client_id=ClientId("shop"), timeout_seconds=3.0, version="9"
    )
    assert (request.method, request.url, request.timeout_seconds) == ("POST", "https://tokens.test/token", 3.0)
    assert request.client_id == "shop"
    return dict(request.headers), parse_qs(request.body.decode(), strict_parsing=True)


def test_the_secret_goes_into_basic_authentication() -> None:
    """Both halves are encoded as in a form, so that a colon in one is no separator."""
    headers, form = asked(SOURCE)
    assert form == {"grant_type": ["client_credentials"]}
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"
    scheme, value = headers["Authorization"].split()
    assert (scheme, b64decode(value)) == ("Basic", b"shop%26co:s3%3Acr+et")


def test_the_secret_goes_into_the_form_if_the_source_asks_for_it() -> None:
    source = TokenSource(
        client_id="shop&co",
        client_secret="s3:cr et",
        token_url="https://tokens.test/token",
        scope="call read",
        audience="https://api.test/?a=b",
        authentication="post",
    )
    headers, form = asked(source)
    assert "Authorization" not in headers
    assert form == {
        "grant_type": ["client_credentials"],
        "client_id": ["shop&co"],
        "client_secret": ["s3:cr et"],
        "scope": ["call read"],
        "audience": ["https://api.test/?a=b"],
    }


@pytest.mark.parametrize("issuer", [ISSUER, ISSUER + "/"])
def test_the_issuers_document_is_below_its_path(issuer: str) -> None:
    request = discovery_request(issuer, client_id=ClientId("shop"), timeout_seconds=3.0, version="9")
    assert (request.method, request.url) == ("GET", "https://issuer.test/realm/.well-known/openid-configuration")


def test_the_endpoint_is_the_documents() -> None:
    document = {"issuer": ISSUER, "token_endpoint": "https://elsewhere.test/t", "jwks_uri": 1, "more": [{}]}
    assert read_endpoint(ISSUER, answered(document)) == "https://elsewhere.test/t"


def test_an_issuer_over_https_names_no_endpoint_over_http_however_it_is_written() -> None:
    issuer = ISSUER.replace("https:", "HTTPS:")
    for endpoint, taken in {"http://a.test/t": False, "Https://a.test/t": True}.items():
        found = read_endpoint(issuer, answered({"issuer": issuer, "token_endpoint": endpoint}))
        assert (found == endpoint) == taken


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (answered({"issuer": ISSUER + "/", "token_endpoint": "https://elsewhere.test/t"}), "bad-answer"),
        (answered({"issuer": "https://evil.test", "token_endpoint": "https://elsewhere.test/t"}), "bad-answer"),
        (answered({"issuer": ISSUER, "token_endpoint": "http://elsewhere.test/t"}), "bad-answer"),
        (answered({"issuer": ISSUER, "token_endpoint": 7}), "bad-answer"),
        (answered({"issuer": ISSUER}), "bad-answer"),
        (answered("[" * 60_000), "bad-answer"),
        (answered("{"), "bad-answer"),
        (answered({"issuer": ISSUER, "token_endpoint": "https://elsewhere.test/t"}, status=302), "refused"),
        (answered("", status=None, detail="no answer within 3 s"), "no-answer"),
    ],
)
def test_other_documents_have_no_endpoint(result: AttemptResult, code: str) -> None:
    failure = read_endpoint(ISSUER, result)
    assert isinstance(failure, TokenFailure)
    assert failure.code == code


@pytest.mark.parametrize("token_type", ["Bearer", "bearer", "BEARER"])
def test_a_token(token_type: str) -> None:
    grant = read_token(SOURCE, granted(token_type=token_type, scope="x", refresh_token="y"))
    assert grant == Grant(token="abc.def-1_~+/==", lifetime_seconds=3600.0)
    assert "abc" not in repr(grant)


@pytest.mark.parametrize(
    ("expires_in", "seconds"),
    [
        (None, DEFAULT_LIFETIME_SECONDS),
        ("1800", 1800.0),
        (59.5, 59.5),
        (5, 5.0),
        (10**9, LONGEST_LIFETIME_SECONDS),
        ("9" * 40, LONGEST_LIFETIME_SECONDS),
        (10**25, LONGEST_LIFETIME_SECONDS),
    ],
)
def test_how_long_it_is_valid(expires_in: object, seconds: float) -> None:
    grant = read_token(SOURCE, granted(expires_in=expires_in))
    assert isinstance(grant, Grant)
    assert grant.lifetime_seconds == seconds


@pytest.mark.parametrize("expires_in", [0, -1, 4.9, -(10**25), "0", "soon", "-5", "", "१२३", "1e3", True, [], {}])
def test_a_token_that_expires_too_soon_is_refused(expires_in: object) -> None:
    failure = read_token(SOURCE, granted(expires_in=expires_in))
    assert isinstance(failure, TokenFailure)
    assert failure.code == "bad-answer"


@pytest.mark.parametrize("number", ["1e400", "-1e400", "NaN", "Infinity"])
def test_an_invalid_expires_in_is_refused(number: str) -> None:
    body = '{"access_token": "abc", "token_type": "Bearer", "expires_in": ' + number + "}"
    assert isinstance(read_token(SOURCE, answered(body)), TokenFailure)


@pytest.mark.parametrize(
    "fields",
    [
        {"token_type": "mac"},
        {"token_type": "DPoP"},
        {"token_type": None},
        {"token_type": 7},
        {"access_token": None},
        {"access_token": ""},
        {"access_token": "a b"},
        {"access_token": "abc\r\nX-Evil: 1"},
        {"access_token": "abc\n"},
        {"access_token": "=abc"},
        {"access_token": "tökén"},
        {"access_token": "x" * (MAX_TOKEN_LENGTH + 1)},
    ],
)
def test_what_is_no_bearer_token(fields: dict[str, object]) -> None:
    failure = read_token(SOURCE, granted(**fields))
    assert isinstance(failure, TokenFailure)
    assert failure.code == "bad-answer"
    assert "abc" not in repr(failure)


@pytest.mark.parametrize("body", ["", "null", "[]", "<html>", "[" * 60_000, '{"access_token": "abc"'])
def test_what_is_no_answer(body: str) -> None:
    assert isinstance(read_token(SOURCE, answered(body)), TokenFailure)


def test_the_longest_token_is_one() -> None:
    assert isinstance(read_token(SOURCE, granted(access_token="x" * MAX_TOKEN_LENGTH)), Grant)


def test_an_id_token_is_valid_as_long_as_it_says_itself() -> None:
    token = jwt(iat=1_000, exp=1_900)
    assert read_token(ID_TOKENS, granted(id_token=token)) == Grant(token=token, lifetime_seconds=900.0)


@pytest.mark.parametrize("token", ["opaque", "a.b.c", "e30.e30.c2ln", jwt(iat="now", exp=5), jwt(exp=5), "a.%.b"])
def test_an_id_token_without_claims_lives_as_long_as_the_answer_says(token: str) -> None:
    result = read_token(ID_TOKENS, granted(id_token=token))
    if token == "a.%.b":
        assert isinstance(result, TokenFailure)
    else:
        assert result == Grant(token=token, lifetime_seconds=3600.0)


def test_claims_that_are_no_instants_are_as_none() -> None:
    """Numbers that no float can hold must not break the reader, whose caller waits for its answer."""
    payload = urlsafe_b64encode(b'{"iat": 0.5, "exp": 1' + b"0" * 400 + b"}").decode().rstrip("=")
    found = read_token(ID_TOKENS, granted(id_token=f"e30.{payload}.x", expires_in=60))
    assert isinstance(found, Grant)
    assert found.lifetime_seconds == 60


def test_an_id_token_that_is_not_there_or_expired() -> None:
    missing, expired = read_token(ID_TOKENS, granted()), read_token(ID_TOKENS, granted(id_token=jwt(iat=10, exp=5)))
    assert isinstance(missing, TokenFailure)
    assert isinstance(expired, TokenFailure)
    assert "id_token" in missing.detail


def test_what_the_token_endpoint_says_is_shown() -> None:
    body = {"error": "invalid_client", "error_description": 'no "such"\nclient\x00 \u202e'}
    failure = read_token(SOURCE, answered(body, status=401, retry_after_seconds=7.0))
    assert failure == TokenFailure(
        code="refused",
        detail="the token endpoint answered 401",
        said="invalid_client: no  such  client",
        retry_after_seconds=7.0,
    )


def test_each_part_of_a_token_endpoints_error_is_cut() -> None:
    failure = read_token(SOURCE, answered({"error": "e" * 5_000, "error_description": "d" * 5_000}, status=400))
    assert isinstance(failure, TokenFailure)
    assert failure.said == "e" * MAX_SAID_LENGTH + ": " + "d" * MAX_SAID_LENGTH


@pytest.mark.parametrize("secret", ["s3:cr et", "s3%3Acr+et", "c2hvcCUyNmNvOnMzJTNBY3IrZXQ="])
@pytest.mark.parametrize("field", ["error", "error_description"])
def test_an_error_that_repeats_the_secret_is_not_shown(secret: str, field: str) -> None:
    failure = read_token(SOURCE, answered({field: f"I got {secret}, really"}, status=400))
    assert isinstance(failure, TokenFailure)
    assert failure.said == ""


@pytest.mark.parametrize("body", ["", "<h1>500</h1>", "[" * 60_000, {"error": 7}, {"error": ["s"]}, []])
def test_a_failure_may_say_nothing(body: object) -> None:
    failure = read_token(SOURCE, answered(body, status=500))
    assert failure == TokenFailure(code="refused", detail="the token endpoint answered 500")


@pytest.mark.parametrize("status", [201, 204, 302, 307])
def test_only_200_is_a_grant(status: int) -> None:
    body = {"access_token": "abc", "token_type": "Bearer"}
    failure = read_token(SOURCE, answered(body, status=status))
    assert isinstance(failure, TokenFailure)
    assert failure.code == "refused"
