"""The engine's calls, verified by the library that Standard Webhooks publishes for receivers."""

import base64
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from standardwebhooks import Webhook, WebhookVerificationError

from minutehand.webhooks import verify
from poller_cluster.delivery.engine import DeliveryEngine
from poller_cluster.dispatch.request import Prepared, prepare
from scheduler_service.domain.options import ScheduleOptions, encode_options
from tests.support.delivery import CLOCK, attempt
from tests.support.raw_receiver import RawReceiver
from tests.unit.poller_cluster.claimed import EPOCH, SENDER, claim, client

KEY = b"0123456789abcdef0123456789abcdef"
SECRET = f"whsec_{base64.b64encode(KEY).decode()}"


class Received:
    """A call as a receiver got it."""

    def __init__(self, body: bytes, headers: dict[str, str]) -> None:
        self.body, self.headers = body, headers


async def called(
    engine: DeliveryEngine, receiver: RawReceiver, private_keys: tuple[bytes, ...] = (), **row: Any
) -> Received:
    """The call for a row due now, signed with two secrets."""
    now = CLOCK.wall_ms()
    of = claim(due=now, url=receiver.url("/hook"), **{"method": "POST", "headers": "[]", **row})
    signing = client(secrets=(b"another one, rotated", KEY), private_keys=private_keys)
    made = prepare(of, client=signing, epoch=EPOCH, sender=SENDER, now=now)
    assert isinstance(made, Prepared)
    assert (await attempt(engine, made.request)).status == 200
    (request,) = receiver.requests
    return Received(request.body, dict(request.headers))


async def test_json_verifies(engine: DeliveryEngine, receiver: RawReceiver) -> None:
    call = await called(engine, receiver, body=b'{"order": 17, "to": "J\xc3\xb6rg"}')
    assert Webhook(SECRET).verify(call.body, call.headers) == {"order": 17, "to": "Jörg"}


async def test_a_key_pair_beside_a_secret_disturbs_no_library(engine: DeliveryEngine, receiver: RawReceiver) -> None:
    """The published libraries know v1 only, and ignore signatures of other versions."""
    private = Ed25519PrivateKey.from_private_bytes(KEY)
    public = "whpk_" + base64.b64encode(private.public_key().public_bytes_raw()).decode()
    call = await called(engine, receiver, body=b"{}", private_keys=(KEY,))
    assert call.headers["webhook-signature"].split()[-1].startswith("v1a,")
    assert Webhook(SECRET).verify(call.body, call.headers) == {}
    assert verify(call.body, call.headers, public).webhook_id == call.headers["webhook-id"]


async def test_null_verifies(engine: DeliveryEngine, receiver: RawReceiver) -> None:
    call = await called(engine, receiver, body=b"null")
    assert Webhook(SECRET).verify(call.body, call.headers) is None


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_a_call_without_a_body_verifies(engine: DeliveryEngine, receiver: RawReceiver, method: str) -> None:
    call = await called(engine, receiver, body=b"", method=method)
    assert Webhook(SECRET).verify(call.body, call.headers) == {
        "schedule_id": call.headers["webhook-id"],
        "due": call.headers["Minutehand-Due"],
        "attempt": 1,
    }
    assert call.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "row",
    [
        {"body": "grüße".encode()},
        {"body": b"", "method": "GET"},
        {"body": b"", "options": encode_options(ScheduleOptions(empty_body=True))},
    ],
    ids=["text", "get", "empty"],
)
async def test_what_is_no_json_verifies_unparsed(
    engine: DeliveryEngine, receiver: RawReceiver, row: dict[str, Any]
) -> None:
    call = await called(engine, receiver, **row)
    Webhook(SECRET).verify(call.body, call.headers, json_parse=False)
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(call.body)


async def test_bytes_that_are_no_text_are_for_our_own_check(engine: DeliveryEngine, receiver: RawReceiver) -> None:
    call = await called(engine, receiver, body=bytes(range(256)))
    with pytest.raises(UnicodeDecodeError):
        Webhook(SECRET).verify(call.body, call.headers, json_parse=False)
    assert verify(call.body, call.headers, SECRET).webhook_id == call.headers["webhook-id"]


async def test_anything_else_is_refused(engine: DeliveryEngine, receiver: RawReceiver) -> None:
    call = await called(engine, receiver, body=b"")
    with pytest.raises(WebhookVerificationError, match="No matching"):
        Webhook(SECRET).verify(call.body + b" ", call.headers)
    with pytest.raises(WebhookVerificationError, match="No matching"):
        Webhook(base64.b64encode(b"some other secret").decode()).verify(call.body, call.headers)
