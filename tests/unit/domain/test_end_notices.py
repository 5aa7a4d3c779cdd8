"""What a notice of a schedule's end shows of the receiver's answer."""

import pytest

from scheduler_service.domain.end_notices import ANSWER_BYTES, HEADER_BYTES, KeptAnswer, answer_view, kept_headers


def view(body: bytes, *, cut: bool = False) -> dict[str, object]:
    shown = answer_view(KeptAnswer(status=200, headers=(), body=body, cut=cut))
    assert shown is not None
    return shown


def test_a_body_is_text_or_else_base64() -> None:
    assert view("né".encode()) == {"status": 200, "headers": (), "body": "né", "cut": False}
    assert view(b"\xff\x00") == {"status": 200, "headers": (), "body_base64": "/wA=", "cut": False}
    assert answer_view(None) is None


def test_a_character_that_the_cut_has_parted_does_not_make_text_binary() -> None:
    whole = "€" * ANSWER_BYTES
    assert view(whole.encode()[:ANSWER_BYTES], cut=True)["body"] == "€" * (ANSWER_BYTES // 3)
    assert "body_base64" in view(whole.encode()[:ANSWER_BYTES]), "nothing was cut: it is no text"
    assert "body_base64" in view(b"\xe2\x82 and more", cut=True)


@pytest.mark.parametrize(
    "name", ["Set-Cookie", "set-cookie2", "WWW-Authenticate", "Proxy-Authenticate", "Authorization"]
)
def test_credentials_are_not_sent_on(name: str) -> None:
    assert kept_headers([("X-A", "1"), (name, "secret"), ("X-B", "2")]) == (("X-A", "1"), ("X-B", "2"))


def test_headers_are_sent_on_as_far_as_they_fit() -> None:
    many = [(f"x-{number}", "v" * 1_000) for number in range(20)]
    kept = kept_headers(many)
    assert kept == tuple(many[: len(kept)])
    assert 0 < sum(len(name) + len(value) for name, value in kept) <= HEADER_BYTES
