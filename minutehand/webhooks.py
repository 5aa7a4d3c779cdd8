"""Verify a callback in one line.

    callback = verify(body, headers, secret)

Callbacks are signed as in Standard Webhooks (https://www.standardwebhooks.com): the header `webhook-signature` holds,
for every active secret (`whsec_…`), `v1,` and the base64 of HMAC-SHA256 over `webhook-id`.`webhook-timestamp`.body, and
for every key pair `v1a,` and the base64 of an Ed25519 signature of the same, which is checked by the pair's public key
(`whpk_…`). `body` must be the bytes as received, before any parsing. Public keys need the package `cryptography`
(`minutehand[ed25519]`).

Delivery is at least once: the same callback may come again, with the same `webhook_id`. Remember the ids you have
handled.

An answer may say more than its status, by these headers, where the client's settings allow it (`receiver_verbs`):

    NOT_AGAIN     with status 489 or any other failure: no further attempt
    call_at(due)  the schedule is called again at that instant, under the same id, and has not failed
    STOP_CRON     the cron of this run is paused

Work that takes longer than a request: if the callback has an `ack_url`, answer 202, and say later what became of it.

    say_done(callback.ack_url, {"frames": 4812})
"""

import base64
import binascii
import hashlib
import hmac
import json
import math
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NoReturn, Protocol

__all__ = [
    "NOT_AGAIN",
    "STOP_CRON",
    "AcknowledgementError",
    "BadSignatureError",
    "Headers",
    "MalformedHeaderError",
    "MissingHeaderError",
    "StaleWordError",
    "TimestampError",
    "VerificationError",
    "VerifiedCallback",
    "ask_for_time",
    "call_at",
    "say_done",
    "say_failed",
    "verify",
]

NOT_AGAIN: Final[Mapping[str, str]] = {"webhook-delivery": "abort-message"}
STOP_CRON: Final[Mapping[str, str]] = {"Minutehand-Stop-Cron": "true"}
"""Headers of an answer; see the module."""

_PREFIX = "whsec_"
_PUBLIC_PREFIX = "whpk_"
_KEY_BYTES = 24
"""The minimum of Standard Webhooks; Minutehand's keys have 32 bytes."""
_PUBLIC_KEY_BYTES = 32
# Bounds the work that a hostile header can cause.
_MAX_SIGNATURES = 32
_REPEATED = frozenset((425, 429, 502, 503, 504))
"""Statuses of answers to a word after which it is sent again."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0


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


class AcknowledgementError(Exception):
    """It is not known whether the word counts, or it was refused. Say it again."""


class StaleWordError(AcknowledgementError):
    """No word about this call is awaited any more: it was called again, its deadline has passed, or it has ended. Stop
    the work: another call may be doing it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedCallback:
    """The content of a verified callback's headers.

    `webhook_id` (the schedule's id, the same for all attempts), `timestamp` (Unix seconds) and the body are covered by
    the signature. The rest is as received, and only as trustworthy as the connection; None where the header is absent.
    `due` is RFC 3339, the nominal instant. `attempt` counts from 1. `fence` never decreases for one schedule while its
    sender is legitimate: refuse a lower one than you have seen. `redelivery`: this call may have been made before.
    `trial`: a trial call, which belongs to no schedule. `key`: your own name for the schedule. `ack_url`: where to say
    later what became of the call, if it is answered 202.
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
    key: str | None = None
    ack_url: str | None = None


def call_at(due: datetime) -> dict[str, str]:
    """The header of an answer that asks to be called again at `due`. Raises ValueError for a datetime without zone."""
    if due.tzinfo is None:
        raise ValueError("due must have a time zone")
    return {"Minutehand-Call-At": due.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")}


def verify(
    body: bytes,
    headers: Headers,
    secret: str | Sequence[str],
    *,
    tolerance_seconds: float = 300,
    now: float | None = None,
) -> VerifiedCallback:
    """Check signature and age of a callback.

    `headers` may have names in any case. `secret` is the client's `whsec_…` or `whpk_…`, or several while they are
    rotated. `now` (Unix seconds) is the system's time unless given. Raises a VerificationError saying what is wrong,
    and ValueError when a secret is not one (empty and short keys included: anybody could sign with them), a public key
    can't be used, or `tolerance_seconds` is no number of at least 0.
    """
    if not tolerance_seconds >= 0:  # NaN compares false with everything
        raise ValueError(f"tolerance_seconds must be a number of at least 0, not {tolerance_seconds}")
    current = time.time() if now is None else now
    if math.isnan(current):
        raise ValueError("now must be a number of seconds, not NaN")
    keys = [_judge(text) for text in ([secret] if isinstance(secret, str) else secret)]
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
        key=found.get("minutehand-key"),
        ack_url=found.get("minutehand-ack-url"),
    )


def say_done(ack_url: str, data: object = None, *, patience_seconds: float = 60) -> None:
    """The work is done: the schedule is delivered. `data` is kept with the attempt: anything that `json` writes, up to
    64 KiB. Blocks; repeats itself for so long while Minutehand can't be reached or has not recorded the 202. Raises
    StaleWordError, AcknowledgementError."""
    _say(ack_url, {"result": "done", "data": data}, patience_seconds)


def say_failed(ack_url: str, reason: str | None = None, data: object = None, *, patience_seconds: float = 60) -> None:
    """The attempt has failed, and is retried by the schedule's policy. Otherwise as `say_done`."""
    _say(ack_url, {"result": "failed", "reason": reason, "data": data}, patience_seconds)


def ask_for_time(
    ack_url: str, within_seconds: float | None = None, data: object = None, *, patience_seconds: float = 60
) -> datetime | None:
    """The work goes on, and needs so long from now, or as long again as the callback's `ack` says. Returns until when
    a word is awaited. Otherwise as `say_done`."""
    said = _say(ack_url, {"result": "extend", "within_seconds": within_seconds, "data": data}, patience_seconds)
    deadline = said.get("deadline")
    return None if deadline is None else datetime.fromisoformat(deadline)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """The address is Minutehand's own: it sends nobody elsewhere."""
        return


def _say(ack_url: str, word: Mapping[str, object], patience_seconds: float) -> dict[str, Any]:
    if not ack_url.startswith(("https://", "http://")):
        raise ValueError("ack_url must be that of a callback, http or https")
    body = json.dumps({name: value for name, value in word.items() if value is not None}).encode()
    request = urllib.request.Request(ack_url, body, {"Content-Type": "application/json"}, method="POST")  # noqa: S310  (the scheme was checked)
    opener = urllib.request.build_opener(_NoRedirects)
    until, pause = time.monotonic() + patience_seconds, _FIRST_PAUSE
    while True:
        try:
            with opener.open(request, timeout=min(max(until - time.monotonic(), 1.0), 30.0)) as answer:
                return dict(json.loads(answer.read()))
        except urllib.error.HTTPError as error:
            with error:
                if error.code not in _REPEATED:
                    _refused(error)
                wrong = f"Minutehand answered {error.code}"
        except (OSError, ValueError) as error:
            wrong = f"no answer: {error}"
        if time.monotonic() + pause > until:
            raise AcknowledgementError(wrong)
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _refused(error: urllib.error.HTTPError) -> NoReturn:
    text = error.read(10_000).decode(errors="replace")
    if error.code in (404, 409):
        raise StaleWordError(text) from None
    raise AcknowledgementError(f"Minutehand answered {error.code}: {text}") from None


class _Judge(Protocol):
    """A secret or public key. `version`: that of the signatures it can check."""

    version: str

    def matches(self, signed: bytes, signatures: Sequence[bytes]) -> bool:
        """Whether any of the signatures, in base64, is of `signed`."""


class _Secret:
    version = "v1"

    def __init__(self, key: bytes) -> None:
        self._key = key

    def matches(self, signed: bytes, signatures: Sequence[bytes]) -> bool:
        """Compares each in constant time, whether or not one has matched."""
        own = base64.b64encode(hmac.digest(self._key, signed, hashlib.sha256))
        matched = False
        for given in signatures:
            matched |= hmac.compare_digest(own, given)
        return matched


class _PublicKey:
    version = "v1a"

    def __init__(self, key: bytes) -> None:
        try:
            from cryptography.exceptions import InvalidSignature
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        except ImportError:
            raise ValueError("a public key needs the package cryptography: install minutehand[ed25519]") from None
        self._key = Ed25519PublicKey.from_public_bytes(key)
        self._invalid = InvalidSignature

    def matches(self, signed: bytes, signatures: Sequence[bytes]) -> bool:
        for given in signatures:
            try:
                self._key.verify(base64.b64decode(given, validate=True), signed)
            except (binascii.Error, self._invalid):
                continue
            return True
        return False


def _matches(signed: bytes, keys: Sequence[_Judge], signatures: str) -> bool:
    """Tries every key, whether or not one has matched."""
    given: dict[str, list[bytes]] = {}
    for item in signatures.split(" ")[:_MAX_SIGNATURES]:
        version, _, signature = item.partition(",")
        given.setdefault(version, []).append(_bytes(signature))
    matched = False
    for key in keys:
        matched |= key.matches(signed, given.get(key.version, ()))
    return matched


def _judge(text: str) -> _Judge:
    return _public_key(text) if text.startswith(_PUBLIC_PREFIX) else _Secret(_key(text))


def _public_key(text: str) -> _PublicKey:
    try:
        key = base64.b64decode(text[len(_PUBLIC_PREFIX) :], validate=True)
    except binascii.Error:
        raise ValueError(f"a public key is {_PUBLIC_PREFIX} followed by base64") from None
    if len(key) != _PUBLIC_KEY_BYTES:
        raise ValueError(f"a public key has {_PUBLIC_KEY_BYTES} bytes; this one has {len(key)}")
    return _PublicKey(key)


def _key(text: str) -> bytes:
    if not text.startswith(_PREFIX):
        raise ValueError(f"a signing secret begins with {_PREFIX}, a public key with {_PUBLIC_PREFIX}")
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
