"""Verify a callback in one line.

    callback = verify(body, headers, secret)

Callbacks are signed as in Standard Webhooks (https://www.standardwebhooks.com): the header `webhook-signature` holds,
for every active secret, `v1,` and the base64 of HMAC-SHA256 over `webhook-id`.`webhook-timestamp`.body. `body` must be
the bytes as received, before any parsing.

Delivery is at least once: the same callback may come again, with the same `webhook_id`. Remember the ids you have
handled.
"""

import base64
import binascii
import hashlib
import hmac
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = [
    "BadSignatureError",
    "Headers",
    "MalformedHeaderError",
    "MissingHeaderError",
    "TimestampError",
    "VerificationError",
    "VerifiedCallback",
    "verify",
]

_PREFIX = "whsec_"
_KEY_BYTES = 24
"""The minimum of Standard Webhooks; Minutehand's keys have 32 bytes."""
# Bounds the work that a hostile header can cause.
_MAX_SIGNATURES = 32


class Headers(Protocol):
    """Header names and values: a dict, or a web framework's headers, which need not be a Mapping."""

    def items(self) -> Iterable[tuple[str, str]]: ...


class VerificationError(Exception):
    """The callback can't be trusted. Answer 401 and do nothing else."""


class MissingHeaderError(VerificationError):
    """`webhook-id`, `webhook-timestamp` or `webhook-signature` is missing: no callback, or a proxy removed it."""


class MalformedHeaderError(VerificationError):
    """`webhook-timestamp` is not a number of seconds."""


class TimestampError(VerificationError):
    """Signed too long ago (a replay, or this machine's clock is wrong), or in the future."""


class BadSignatureError(VerificationError):
    """No signature matches: the secret is another one, or the body is not what was signed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedCallback:
    """The content of a verified callback's headers.

    `webhook_id` (the schedule's id, the same for all attempts), `timestamp` (Unix seconds) and the body are covered by
    the signature. The rest is as received, and only as trustworthy as the connection; None where the header is absent.
    `due` is RFC 3339, the nominal instant. `attempt` counts from 1. `fence` never decreases for one schedule while its
    sender is legitimate: refuse a lower one than you have seen. `redelivery`: this call may have been made before.
    `trial`: a trial call, which belongs to no schedule.
    """

    webhook_id: str
    timestamp: int
    client_id: str | None
    cron_id: str | None
    due: str | None
    attempt: int | None
    fence: int | None
    redelivery: bool
    trial: bool = False


def verify(
    body: bytes,
    headers: Headers,
    secret: str | Sequence[str],
    *,
    tolerance_seconds: float = 300,
    now: float | None = None,
) -> VerifiedCallback:
    """Check signature and age of a callback.

    `headers` may have names in any case. `secret` is the client's `whsec_…`, or several while they are
    rotated. `now` (Unix seconds) is the system's time unless given. Raises a VerificationError saying what is wrong,
    and ValueError when a secret is not one (empty and short keys included: anybody could sign with them) or
    `tolerance_seconds` is no number of at least 0.
    """
    if not tolerance_seconds >= 0:  # NaN compares false with everything
        raise ValueError(f"tolerance_seconds must be a number of at least 0, not {tolerance_seconds}")
    current = time.time() if now is None else now
    if math.isnan(current):
        raise ValueError("now must be a number of seconds, not NaN")
    keys = [_key(text) for text in ([secret] if isinstance(secret, str) else secret)]
    if not keys:
        raise ValueError("give at least one signing secret")
    found = {name.lower(): value for name, value in headers.items()}
    webhook_id = _required(found, "webhook-id")
    timestamp_text = _required(found, "webhook-timestamp")
    signatures = _required(found, "webhook-signature")
    timestamp = _whole(timestamp_text)
    if timestamp is None:
        raise MalformedHeaderError("webhook-timestamp is not a number of seconds")
    age = current - timestamp
    if age > tolerance_seconds:
        raise TimestampError(f"the callback was signed {age:.0f} s ago; at most {tolerance_seconds:g} s are tolerated")
    if age < -tolerance_seconds:
        raise TimestampError(f"the callback was signed {-age:.0f} s in the future; check this machine's clock")
    signed = b"%b.%b.%b" % (_bytes(webhook_id), _bytes(timestamp_text), body)
    if not _matches(signed, keys, signatures):
        raise BadSignatureError("no signature matches; check the secret, and pass the raw bytes of the body")
    return VerifiedCallback(
        webhook_id=webhook_id,
        timestamp=timestamp,
        client_id=found.get("minutehand-client"),
        cron_id=found.get("minutehand-cron-id"),
        due=found.get("minutehand-due"),
        attempt=_whole(found.get("minutehand-attempt", "")),
        fence=_whole(found.get("minutehand-fence", "")),
        redelivery=found.get("minutehand-redelivery", "").lower() == "true",
        trial=found.get("minutehand-trial", "").lower() == "true",
    )


def _matches(signed: bytes, keys: Sequence[bytes], signatures: str) -> bool:
    """Compares every pair in constant time, whether or not one has matched."""
    expected = [base64.b64encode(hmac.digest(key, signed, hashlib.sha256)) for key in keys]
    matched = False
    for item in signatures.split(" ")[:_MAX_SIGNATURES]:
        version, _, given = item.partition(",")
        if version == "v1":
            for own in expected:
                matched |= hmac.compare_digest(own, _bytes(given))
    return matched


def _key(text: str) -> bytes:
    if not text.startswith(_PREFIX):
        raise ValueError(f"a signing secret begins with {_PREFIX}")
    try:
        key = base64.b64decode(text[len(_PREFIX) :], validate=True)
    except binascii.Error:
        raise ValueError(f"a signing secret is {_PREFIX} followed by base64") from None
    if len(key) < _KEY_BYTES:
        raise ValueError(f"a signing secret has a key of at least {_KEY_BYTES} bytes; this one has {len(key)}")
    return key


def _required(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(name)
    if not value:
        raise MissingHeaderError(f"the header {name} is missing")
    return value


def _bytes(text: str) -> bytes:
    """Encodes what a server made of hostile header bytes: they must not raise, only not match."""
    return text.encode(errors="backslashreplace")


def _whole(text: str) -> int | None:
    """A non-negative decimal number as Minutehand writes it, else None."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 19 else None
