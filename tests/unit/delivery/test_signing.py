"""Signatures, on our side and on the receiver's."""

import base64
import hashlib
import hmac
import math
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from minutehand.webhooks import (
    NOT_AGAIN,
    STOP_CRON,
    BadSignatureError,
    MalformedHeaderError,
    MissingHeaderError,
    TimestampError,
    VerificationError,
    VerifiedCallback,
    call_at,
    verify,
)
from poller_cluster.delivery.headers import sign
from scheduler_service.domain.verbs import Asked, read_asked

SECRET_TEXT = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SECRET = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
# From the tests of Svix's server, whose authors wrote the specification; its example of a header has this signature.
PRIVATE_KEY = base64.b64decode("6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbc=")
PUBLIC_KEY_TEXT = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="
PUBLISHED = "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="
OTHER_TEXT = "whsec_" + base64.b64encode(b"another secret of some length").decode()
NOW = 1_614_265_330
BODY = b'{"test": 2432232314}'
ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"


def signed_headers(*secrets: str, body: bytes = BODY, **more: str) -> dict[str, str]:
    signature = sign(
        [base64.b64decode(text.removeprefix("whsec_")) for text in secrets or (SECRET_TEXT,)], ID, NOW, body
    )
    return {"webhook-id": ID, "webhook-timestamp": str(NOW), "webhook-signature": signature} | more


def test_the_published_example_of_standard_webhooks() -> None:
    assert sign([SECRET], ID, NOW, BODY) == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_published_example_of_a_key_pair() -> None:
    assert sign([], ID, NOW, BODY, [PRIVATE_KEY]) == PUBLISHED
    headers = {"webhook-id": ID, "webhook-timestamp": str(NOW), "webhook-signature": PUBLISHED}
    assert verify(BODY, headers, PUBLIC_KEY_TEXT, now=NOW).webhook_id == ID


def test_secrets_sign_before_key_pairs() -> None:
    signatures = sign([SECRET, b"second"], ID, NOW, BODY, [PRIVATE_KEY, bytes(32)]).split(" ")
    assert signatures[:2] == [sign([one], ID, NOW, BODY) for one in (SECRET, b"second")]
    assert signatures[2:] == [PUBLISHED, sign([], ID, NOW, BODY, [bytes(32)])]


def pair_headers(*private_keys: bytes, secrets: Sequence[bytes] = ()) -> dict[str, str]:
    signature = sign(secrets, ID, NOW, BODY, private_keys)
    return {"webhook-id": ID, "webhook-timestamp": str(NOW), "webhook-signature": signature}


def public_key_of(private_key: bytes) -> str:
    public = Ed25519PrivateKey.from_private_bytes(private_key).public_key().public_bytes_raw()
    return "whpk_" + base64.b64encode(public).decode()


def test_both_kinds_verify_side_by_side_and_while_pairs_rotate() -> None:
    new = bytes(range(32))
    headers = pair_headers(PRIVATE_KEY, new, secrets=[SECRET])
    for known in (SECRET_TEXT, PUBLIC_KEY_TEXT, public_key_of(new), [OTHER_TEXT, public_key_of(new)]):
        assert verify(BODY, headers, known, now=NOW).webhook_id == ID
    assert verify(BODY, pair_headers(new), [PUBLIC_KEY_TEXT, public_key_of(new)], now=NOW).webhook_id == ID


@pytest.mark.parametrize(
    "change",
    [
        {"webhook-id": "msg_other"},
        {"webhook-timestamp": str(NOW + 1)},
        {"webhook-signature": PUBLISHED.replace("v1a,", "v1,")},
        {"webhook-signature": PUBLISHED.replace("v1a,", "V1A,")},
        {"webhook-signature": PUBLISHED[:-4]},
        {"webhook-signature": "v1a,"},
        {"webhook-signature": "v1a,\udcff\ud800ü"},
        {"webhook-signature": PUBLISHED.replace("hnO3", "hnO2")},
        {"webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
    ],
)
def test_what_a_pair_did_not_sign_is_noticed(change: dict[str, str]) -> None:
    headers = pair_headers(PRIVATE_KEY)
    with pytest.raises(BadSignatureError):
        verify(BODY, headers | change, PUBLIC_KEY_TEXT, now=NOW)
    with pytest.raises(BadSignatureError):
        verify(BODY + b" ", headers, PUBLIC_KEY_TEXT, now=NOW)
    with pytest.raises(BadSignatureError):
        verify(BODY, headers, [public_key_of(bytes(32)), SECRET_TEXT], now=NOW)


def test_who_has_the_public_key_can_t_sign_with_it() -> None:
    """A signature of v1 with the public key as its secret, which anybody may read."""
    public = base64.b64decode(PUBLIC_KEY_TEXT.removeprefix("whpk_"))
    forged = {"webhook-id": ID, "webhook-timestamp": str(NOW), "webhook-signature": sign([public], ID, NOW, BODY)}
    with pytest.raises(BadSignatureError):
        verify(BODY, forged, PUBLIC_KEY_TEXT, now=NOW)


@pytest.mark.parametrize("text", ["whpk_", "whpk_*", "whpk_abc", PUBLIC_KEY_TEXT[:-4], PUBLIC_KEY_TEXT + "AAAA"])
def test_texts_that_are_no_public_key(text: str) -> None:
    with pytest.raises(ValueError, match="a public key"):
        verify(BODY, pair_headers(PRIVATE_KEY), text, now=NOW)


def test_a_private_key_is_no_key_to_verify_by() -> None:
    with pytest.raises(ValueError, match="begins with whsec_, a public key with whpk_") as caught:
        verify(BODY, pair_headers(PRIVATE_KEY), "whsk_" + base64.b64encode(PRIVATE_KEY).decode(), now=NOW)
    assert "6Xb" not in str(caught.value)


def test_without_the_package_a_public_key_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.ed25519", None)
    with pytest.raises(ValueError, match=r"install minutehand\[ed25519\]"):
        verify(BODY, pair_headers(PRIVATE_KEY), PUBLIC_KEY_TEXT, now=NOW)
    assert verify(BODY, pair_headers(secrets=[SECRET]), SECRET_TEXT, now=NOW).webhook_id == ID


def test_one_signature_per_secret() -> None:
    both = sign([SECRET, b"second"], ID, NOW, BODY)
    assert both == f"{sign([SECRET], ID, NOW, BODY)} {sign([b'second'], ID, NOW, BODY)}"
    assert sign([], ID, NOW, BODY) == ""


@given(secret=st.binary(min_size=1, max_size=200), body=st.binary(max_size=300), timestamp=st.integers(0, 2**40))
def test_signatures_equal_the_standard_librarys_hmac(secret: bytes, body: bytes, timestamp: int) -> None:
    digest = hmac.digest(secret, f"id-1.{timestamp}.".encode() + body, hashlib.sha256)
    assert sign([secret], "id-1", timestamp, body) == "v1," + base64.b64encode(digest).decode()


SHORT_TEXT = "whsec_" + base64.b64encode(b"x" * 23).decode()


@pytest.mark.parametrize(
    "text", ["", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_*", "whsec_abc", "WHSEC_MfKQ", "whsec_", SHORT_TEXT]
)
def test_texts_that_are_no_secret(text: str) -> None:
    with pytest.raises(ValueError, match="a signing secret") as caught:
        verify(BODY, signed_headers(), text, now=NOW)
    assert "MfKQ" not in str(caught.value)


@pytest.mark.parametrize("key", [b"", b"x" * 23])
def test_a_signature_under_a_short_key_is_no_proof(key: bytes) -> None:
    forged = {"webhook-id": ID, "webhook-timestamp": str(NOW), "webhook-signature": sign([key], ID, NOW, BODY)}
    with pytest.raises(ValueError, match="at least 24 bytes"):
        verify(BODY, forged, "whsec_" + base64.b64encode(key).decode(), now=NOW)


@pytest.mark.parametrize("tolerance", [math.nan, -1, -math.inf])
def test_a_tolerance_that_is_no_span_is_refused(tolerance: float) -> None:
    """NaN would accept every age."""
    with pytest.raises(ValueError, match="tolerance_seconds"):
        verify(BODY, signed_headers(), SECRET_TEXT, tolerance_seconds=tolerance, now=NOW + 10**6)
    with pytest.raises(ValueError, match="now"):
        verify(BODY, signed_headers(), SECRET_TEXT, now=math.nan)


def test_a_verified_callback_tells_about_itself() -> None:
    headers = signed_headers() | {
        "Minutehand-Client": "shop",
        "Minutehand-Cron-Id": "nightly",
        "Minutehand-Due": "2026-11-21T09:30:00.250Z",
        "Minutehand-Attempt": "3",
        "Minutehand-Fence": "17",
        "Minutehand-Redelivery": "true",
        "Minutehand-Key": "cart-17",
    }
    assert verify(BODY, headers, SECRET_TEXT, now=NOW) == VerifiedCallback(
        webhook_id=ID,
        timestamp=NOW,
        client_id="shop",
        cron_id="nightly",
        due="2026-11-21T09:30:00.250Z",
        attempt=3,
        fence=17,
        redelivery=True,
        key="cart-17",
    )


def test_absent_headers_are_none() -> None:
    callback = verify(BODY, signed_headers(), SECRET_TEXT, now=NOW)
    assert (callback.client_id, callback.cron_id, callback.due, callback.attempt, callback.fence) == (None,) * 5
    assert callback.key is None
    assert callback.redelivery is False


def test_names_in_any_case() -> None:
    headers = {name.title(): value for name, value in signed_headers().items()}
    assert verify(BODY, headers, SECRET_TEXT, now=NOW).webhook_id == ID


def test_rotation_with_overlap() -> None:
    assert verify(BODY, signed_headers(OTHER_TEXT, SECRET_TEXT), SECRET_TEXT, now=NOW).webhook_id == ID
    assert verify(BODY, signed_headers(SECRET_TEXT), [OTHER_TEXT, SECRET_TEXT], now=NOW).webhook_id == ID


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_missing_headers(name: str) -> None:
    headers = signed_headers()
    del headers[name]
    with pytest.raises(MissingHeaderError, match=name):
        verify(BODY, headers, SECRET_TEXT, now=NOW)
    with pytest.raises(MissingHeaderError, match=name):
        verify(BODY, headers | {name: ""}, SECRET_TEXT, now=NOW)


@pytest.mark.parametrize("text", ["now", "-5", "1.5", "1_0", "٣", " 1614265330", "9" * 30])
def test_timestamps_that_are_no_number(text: str) -> None:
    with pytest.raises(MalformedHeaderError):
        verify(BODY, signed_headers() | {"webhook-timestamp": text}, SECRET_TEXT, now=NOW)


@pytest.mark.parametrize("seconds", [-300, 0, 300])
def test_tolerated_ages(seconds: int) -> None:
    assert verify(BODY, signed_headers(), SECRET_TEXT, now=NOW + seconds).timestamp == NOW


@pytest.mark.parametrize("seconds", [-301, 301, 10**9])
def test_too_old_or_from_the_future(seconds: int) -> None:
    with pytest.raises(TimestampError):
        verify(BODY, signed_headers(), SECRET_TEXT, now=NOW + seconds)


def test_the_system_clock_is_the_default() -> None:
    with pytest.raises(TimestampError, match="ago"):
        verify(BODY, signed_headers(), SECRET_TEXT)


@pytest.mark.parametrize(
    "change",
    [
        {"webhook-id": "msg_other"},
        {"webhook-timestamp": str(NOW + 1)},
        {"webhook-signature": "v1,"},
        {"webhook-signature": "v1,AAAA"},
        {"webhook-signature": "v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
        {"webhook-signature": "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
        {"webhook-signature": "v1,\udcff\ud800ü"},
        {"webhook-id": "\udcff\ud800ü"},
    ],
)
def test_whatever_was_changed_is_noticed(change: dict[str, str]) -> None:
    with pytest.raises(BadSignatureError):
        verify(BODY, signed_headers() | change, SECRET_TEXT, now=NOW)


def test_another_body_or_secret() -> None:
    with pytest.raises(BadSignatureError):
        verify(BODY + b" ", signed_headers(), SECRET_TEXT, now=NOW)
    with pytest.raises(VerificationError):
        verify(BODY, signed_headers(), OTHER_TEXT, now=NOW)


def test_no_secret_at_all_is_the_caller_s_mistake() -> None:
    with pytest.raises(ValueError, match="at least one"):
        verify(BODY, signed_headers(), [], now=NOW)


def test_the_headers_of_an_answer_are_read_as_they_are_meant() -> None:
    due = datetime(2026, 11, 21, 18, 30, tzinfo=timezone(timedelta(hours=1)))
    assert call_at(due) == {"Minutehand-Call-At": "2026-11-21T17:30:00.000Z"}
    asked = read_asked(503, [*call_at(due).items(), *NOT_AGAIN.items(), *STOP_CRON.items()], wall_ms=0)
    assert asked == Asked(not_again=True, call_at=round(due.timestamp() * 1000), stop_cron=True)
    with pytest.raises(ValueError, match="time zone"):
        call_at(due.replace(tzinfo=None))
