"""The complete headers of a callback: the user's, then ours with the signature, which the user's can't override."""

import hashlib
from binascii import b2a_base64
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from scheduler_service.domain.callback_rules import is_ours
from scheduler_service.domain.instants import format_instant

_BLOCK = 64
_INNER = bytes(byte ^ 0x36 for byte in range(256))
_OUTER = bytes(byte ^ 0x5C for byte in range(256))


def callback_headers(
    user: Sequence[tuple[str, str]],
    *,
    timestamp: int,
    signature: str,
    client_id: str,
    schedule_id: str,
    cron_id: str | None,
    due_ms: int,
    attempt: int,
    fence: int,
    in_doubt: bool,
    user_agent: str,
    key: str | None = None,
) -> tuple[tuple[str, str], ...]:
    """All headers of one attempt. An empty `signature` (a client without secrets) leaves that header out.

    `due_ms` is the nominal instant (Unix milliseconds), `attempt` counts from 1, `fence` is the lease epoch under which
    the call is made: a receiver may refuse a caller with a lower fence than it has seen for the same schedule's poller.
    `in_doubt`: an earlier owner may have made this call. `key`: the client's own name of the schedule.
    """
    ours = [
        ("webhook-id", schedule_id),
        ("webhook-timestamp", str(timestamp)),
        ("Minutehand-Client", client_id),
        ("Minutehand-Schedule-Id", schedule_id),
        ("Minutehand-Due", format_instant(due_ms)),
        ("Minutehand-Attempt", str(attempt)),
        ("Minutehand-Fence", str(fence)),
        ("User-Agent", user_agent),
    ]
    if signature:
        ours.append(("webhook-signature", signature))
    if cron_id is not None:
        ours.append(("Minutehand-Cron-Id", cron_id))
    if key is not None:
        ours.append(("Minutehand-Key", key))
    if in_doubt:
        ours.append(("Minutehand-Redelivery", "true"))
    return (*[header for header in user if not is_ours(header[0])], *ours)


def user_agent(version: str) -> str:
    return f"Minutehand/{version}"


def sign(secrets: Sequence[bytes], webhook_id: str, timestamp: int, body: bytes) -> str:
    """The value of `webhook-signature`, with one signature per secret in the order given; empty without secrets.

    `timestamp` is in Unix seconds, the value of `webhook-timestamp`.

    Signatures follow Standard Webhooks (https://www.standardwebhooks.com): `v1,` + base64(HMAC-SHA256(secret, signed)),
    where signed = id.timestamp.body. One per active secret, separated by a space, so that secrets rotate with overlap.

    HMAC (RFC 2104) is computed from the two hash states that depend only on the secret, which are cached: 0.7 us a
    signature against 1.8 us with `hmac.digest`.
    """
    signed = b"%b.%d.%b" % (webhook_id.encode(), timestamp, body)
    if len(secrets) == 1:
        return _signature(secrets[0], signed)
    return " ".join([_signature(secret, signed) for secret in secrets])


def _signature(secret: bytes, signed: bytes) -> str:
    inner, outer = _states(secret)
    first = inner.copy()
    first.update(signed)
    second = outer.copy()
    second.update(first.digest())
    return "v1," + b2a_base64(second.digest(), newline=False).decode()


@lru_cache(maxsize=8192)
def _states(secret: bytes) -> tuple[Any, Any]:
    key = (hashlib.sha256(secret).digest() if len(secret) > _BLOCK else secret).ljust(_BLOCK, b"\0")
    return hashlib.sha256(key.translate(_INNER)), hashlib.sha256(key.translate(_OUTER))
