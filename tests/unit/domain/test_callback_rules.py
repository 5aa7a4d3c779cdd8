"""Which callbacks a client may store."""

import pytest

from scheduler_service.domain.callback_rules import (
    MAX_HEADERS,
    METHODS,
    Problem,
    body_fault,
    check_headers,
    check_method,
    is_ours,
)


def header_problems(*headers: tuple[str, str], max_bytes: int = 8192) -> list[Problem]:
    return check_headers(headers, max_bytes=max_bytes, pointer="/callback/headers")


def test_ordinary_headers_pass() -> None:
    assert (
        header_problems(("content-type", "application/json"), ("X-Empty", ""), ("Accept", "a,\tb c"), ("!#$%&", "v"))
        == []
    )


@pytest.mark.parametrize("name", ["", "a b", "a:", "a\r\nb", "a\0", "ü", "(x)", "a\n", ":authority"])
def test_names_must_be_tokens(name: str) -> None:
    (problem,) = header_problems((name, "v"))
    assert "not a valid header name" in problem.detail


@pytest.mark.parametrize(
    "value", ["a\r\nX-Other: 1", "a\nb", "a\r", "a\0b", " a", "a ", "\ta", "ü", "a\x7f", "\x1b[0m", "a\n"]
)
def test_values_hold_no_line_breaks_or_control_characters(value: str) -> None:
    (problem,) = header_problems(("X-Thing", value))
    assert problem.pointer == "/callback/headers/X-Thing"
    assert "line breaks" in problem.detail


@pytest.mark.parametrize(
    "name",
    [
        "webhook-id",
        "Webhook-Signature",
        "webhook-anything",
        "Minutehand-Fence",
        "minutehand-x",
        "User-Agent",
        "USER-AGENT",
        "webhook_id",
        "Minutehand_Client",
        "User_Agent",
    ],
)
def test_ours_cannot_be_given(name: str) -> None:
    assert is_ours(name)
    assert [problem.detail for problem in header_problems((name, "v"))] == ["this header is set by Minutehand"]


@pytest.mark.parametrize(
    "name",
    [
        "Connection",
        "Content-Length",
        "Expect",
        "HOST",
        "HTTP2-Settings",
        "Keep-Alive",
        "Proxy-Authorization",
        "Proxy-Connection",
        "TE",
        "Trailer",
        "Transfer-Encoding",
        "Transfer_Encoding",
        "content_length",
        "Upgrade",
    ],
)
def test_headers_of_the_connection_cannot_be_given(name: str) -> None:
    (problem,) = header_problems((name, "v"))
    assert "belongs to the connection" in problem.detail


def test_every_problem_is_listed_with_a_pointer_to_it() -> None:
    problems = header_problems(("a/b~c", "v"), ("Host", "x\n"), ("X", "1"), ("x", "2"))
    assert [problem.pointer for problem in problems] == [
        "/callback/headers/a~1b~0c",
        "/callback/headers/Host",
        "/callback/headers/Host",
        "/callback/headers/x",
    ]


def test_headers_are_bounded_together() -> None:
    assert header_problems(("abc", "de"), max_bytes=9) == []
    (problem,) = header_problems(("abc", "de"), max_bytes=8)
    assert problem == Problem("/callback/headers", "the headers have 9 bytes; at most 8 are allowed")


def test_headers_are_bounded_in_number() -> None:
    many = [(f"x-{number}", "") for number in range(MAX_HEADERS + 1)]
    assert header_problems(*many[:-1]) == []
    (problem,) = header_problems(*many)
    assert f"at most {MAX_HEADERS}" in problem.detail


@pytest.mark.parametrize("method", ["", "get", "TRACE", "CONNECT", "PURGE", "GET /x HTTP/1.1\r\nHost: y\r\n\r\n"])
def test_unknown_methods(method: str) -> None:
    (problem,) = check_method(method, pointer="/callback/method")
    assert "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT" in problem.detail


@pytest.mark.parametrize("method", sorted(METHODS))
def test_bodies_by_method(method: str) -> None:
    assert body_fault(method, 0, max_bytes=10) is None
    assert (body_fault(method, 10, max_bytes=10) is not None) is (method in {"GET", "HEAD"})
