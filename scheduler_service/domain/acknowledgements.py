"""Acknowledged work: a receiver takes a call by 202, and says later what became of it. Pure.

A callback with `ack` whose receiver answers 202 is *awaiting*: its row is retrying, and names its deadline, where its
retry row is placed. A receiver's word makes the row name another instant, and the retry row there says the word:

    202          retrying, reason `awaiting`, at the deadline
    done         retrying, reason `acknowledged`, now
    failed       retrying, reason `receiver-failed`, now
    extend       retrying, reason `awaiting`, at a later deadline

The owner of the poller ends such a retry row without a call when it is due (`poller_cluster.dispatch.words`): done is
delivered, the others are failed attempts. So a word is a pointer, written on condition that the row still names the
deadline that was read; everything that follows from an end (retries, dead letters, the order of a key, the books) is
made by the poller's owner, under its fence, as after any attempt; and a process may die anywhere:

- A deadline's retry row that its original does not name any more, or whose end does not reach it, looks after the row
  that the original names: its follow-up places that one. So `extend` is one conditional write.
- Of a word and a deadline exactly one reaches the original: both test the instant that it names.
- A word is of an attempt under a fence, both in the signed address (`Minutehand-Ack-Url`). It counts only while the
  original awaits the word of that attempt under that fence, so a word of an earlier one changes nothing.

No instant is named twice. A word makes a schedule name an instant before a deadline whose retry row may still be there;
so deadlines have milliseconds of their own (`deadline_at`), and other instants of such schedules avoid them.

The address
-----------
    {base_url}/v1/acknowledgements/{token}      token = base64url(payload || HMAC-SHA256(secret, context || payload))

The secret is one of the client's signing secrets, so that no process needs another key, and deleting the secret ends
its addresses. The context keeps these apart from signatures of calls.
"""

import hashlib
import hmac
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Final, Literal, NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

import msgspec
from msgspec import Meta

from scheduler_service.domain.ids import ClientId, ScheduleId, UnixMillis

ACCEPTED: Final = 202
"""The status by which a receiver takes a call with `ack`."""
AWAITING: Final = "awaiting"
ACKNOWLEDGED: Final = "acknowledged"
RECEIVER_FAILED: Final = "receiver-failed"
"""Reasons of a row that waits for a word, or for its owner to record one."""
NOT_ACKNOWLEDGED: Final = "not-acknowledged"
"""The error of an attempt whose receiver said nothing in time. That of one that said `failed` is its reason."""
REASONS_OF_WORDS: Final = frozenset((AWAITING, ACKNOWLEDGED, RECEIVER_FAILED))
PATH: Final = "/v1/acknowledgements/"
LONGEST_ACK_SECONDS: Final = 604_800
MAX_RESULT: Final = 65_536
"""Bytes of what a receiver may hand over with a word."""
MAX_REASON: Final = 200
_CONTEXT: Final = b"minutehand acknowledgement\x00"
_FIXED: Final = struct.Struct(">B16sIQQ")
"""Version, schedule id, attempt, fence, expiry; the client's id follows."""
_VERSION: Final = 1
_MAC: Final = 32
_OF_DEADLINES_MS: Final = 900
"""Milliseconds of a second from which on deadlines are, each attempt's at its own."""


class Ack(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """The receiver may answer 202, and has `within_seconds` from then to say by `Minutehand-Ack-Url` what became of the
    call."""

    within_seconds: Annotated[float, Meta(ge=1, le=LONGEST_ACK_SECONDS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AckSettings:
    """Work that receivers acknowledge later. APIs and nodes must have the same. Raises ValueError for values that can't
    work."""

    base_url: str | None = None
    """Where receivers reach the API, such as `https://minutehand.example`: calls with `ack` carry addresses below it.
    None: callbacks with `ack` are refused."""

    longest_seconds: int = LONGEST_ACK_SECONDS
    """Most seconds from a call to its receiver's last word, however often that asks for more time."""

    def __post_init__(self) -> None:
        if not 1 <= self.longest_seconds <= LONGEST_ACK_SECONDS:
            raise ValueError(f"longest_seconds must be from 1 to {LONGEST_ACK_SECONDS}")
        if self.base_url is not None:
            parts = urlsplit(self.base_url)
            if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
                raise ValueError("base_url must be the URL of the API, such as https://minutehand.example")


class Address(NamedTuple):
    """Whose word an address takes: that of one `attempt` (from 1) under one `fence`, until `expires_at`."""

    client_id: ClientId
    schedule_id: ScheduleId
    attempt: int
    fence: int
    expires_at: UnixMillis


class SignedAddress(NamedTuple):
    """An address as it came, not yet checked."""

    address: Address
    payload: bytes
    mac: bytes

    def signed_by(self, secrets: Iterable[bytes]) -> bool:
        """Whether one of the secrets signed it; takes the same time whichever it is."""
        return sum(hmac.compare_digest(_mac(secret, self.payload), self.mac) for secret in secrets) > 0


def address_token(address: Address, secret: bytes) -> str:
    client_id, schedule_id, attempt, fence, expires_at = address
    payload = _FIXED.pack(_VERSION, schedule_id.bytes, attempt, fence, expires_at) + client_id.encode()
    return urlsafe_b64encode(payload + _mac(secret, payload)).rstrip(b"=").decode()


def read_token(token: str) -> SignedAddress | None:
    """None: it is none of ours."""
    try:
        raw = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        payload, mac = raw[:-_MAC], raw[-_MAC:]
        version, schedule_id, attempt, fence, expires_at = _FIXED.unpack_from(payload)
        client_id = payload[_FIXED.size :].decode("ascii")
    except (ValueError, struct.error):
        return None
    if version != _VERSION or not client_id or len(mac) != _MAC:
        return None
    found = Address(ClientId(client_id), ScheduleId(UUID(bytes=schedule_id)), attempt, fence, UnixMillis(expires_at))
    return SignedAddress(found, payload, mac)


def _mac(secret: bytes, payload: bytes) -> bytes:
    return hmac.digest(secret, _CONTEXT + payload, hashlib.sha256)


def deadline_at(at: int, *, attempts: int) -> UnixMillis:
    """The first instant from `at` on that can be the deadline of this attempt, and of no other one near it."""
    of_second = _OF_DEADLINES_MS + attempts % (1000 - _OF_DEADLINES_MS)
    return UnixMillis(at + (of_second - at) % 1000)


def may_be_deadline(at: int, *, attempts: int) -> bool:
    """Whether this instant can be the deadline of this attempt; of a thousand others one can, too."""
    return deadline_at(at, attempts=attempts) == at


def clear_of_deadlines(at: int) -> UnixMillis:
    """The first instant from `at` on that can't be a deadline."""
    return UnixMillis(at if at % 1000 < _OF_DEADLINES_MS else at + 1000 - at % 1000)


WordName = Literal["done", "failed", "extend"]


class KeptWord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What a receiver has said of an attempt, as it is kept with it. `at`: Unix milliseconds. `data`: JSON, or
    empty."""

    result: WordName
    at: UnixMillis
    reason: str | None = None
    data: bytes = b""


ACKS_SINCE: Final = 32
"""The migration that programs know which end a wait without a call (`cql.migrate`)."""
