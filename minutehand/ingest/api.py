"""What the ingest asks of the API, and what its answers mean for records.

| answer | meaning |
|---|---|
| 201 of an item | its row is durable, made now or by an earlier request under the token |
| 409 in-flight, in-doubt; 429; 5xx; none | `Later`: ask again, under the same token |
| 4xx of an item | the record is refused, and never asked again |
| 400, 413, 415, 422 of the batch | `Unreadable`: nothing was made; a smaller batch finds the record that spoils it |
| 409 once-refused | `TokenRefused`: the token is too old, or the client has fewer pollers |
| 401, 403, 404, 3xx of the batch | `Later`, by `denied`: an operator must act, and no record is lost meanwhile |
"""

import contextlib
import math
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

import aiohttp
import msgspec
from yarl import URL

from membership.errors import MinutehandError
from minutehand.client._calls import address_of, escaped, headers_for
from minutehand.client._errors import MinutehandApiError, error_of
from minutehand.client._models import Fault, Problem
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.randomness import Randomness

_BATCH_PATH: Final = "/v1/clients/{client}/schedules:batch"
_NEVER_VALID: Final = "1.1.0.0000000000000000"
"""A token of 1970: refused without a look at the body, with the header that the next token is made of."""
_WINDOW_SECONDS: Final = 300.0
"""How long the API's clock is known after an answer."""
_TERMS_SECONDS: Final = 300.0
"""How long the client's settings are believed after an answer."""
_read_terms = re.compile(
    r"accept_past_seconds=([0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?); retention_days=([0-9]+)"
).fullmatch
_told = re.compile(r"([1-9][0-9]{0,14})\.([1-9][0-9]{0,3})").fullmatch
_NOT_YET: Final = ("in-flight", "in-doubt")
_UNREADABLE: Final = (400, 413, 415, 422)
_ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


class Later(MinutehandError):
    """No answer that decides anything. `denied`: it won't change before somebody acts. `after_seconds`: what the API
    asks for."""

    def __init__(self, reason: str, *, denied: bool = False, after_seconds: float = 0.0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.denied = denied
        self.after_seconds = after_seconds


class Unreadable(MinutehandError):
    """The API took no item of this batch for one."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__("; ".join(f"{fault.pointer} {fault.detail}" for fault in faults))
        self.faults = faults


class TokenRefused(MinutehandError):
    """Under this token nothing is made any more. Something may have been."""


class Terms(NamedTuple):
    """What the client's settings say of the past: how long ago a create may have been due, and after how many days what
    was called is deleted."""

    accept_past_seconds: float
    retention_days: int


@dataclass(frozen=True, slots=True)
class Refused:
    """An item, or a cancel, that will never succeed."""

    kind: str
    faults: tuple[Fault, ...]


class _Item(msgspec.Struct, frozen=True):
    status: int
    problem: Problem | None = None


class _Batch(msgspec.Struct, frozen=True):
    items: list[_Item]


class _Shown(msgspec.Struct, frozen=True):
    schedule_id: UUID


_decode_batch = msgspec.json.Decoder(_Batch).decode
_decode_shown = msgspec.json.Decoder(_Shown).decode


class IngestApi:
    """The API at one address, as one client. An asynchronous context manager."""

    def __init__(
        self,
        url: str,
        key: str,
        client_id: str,
        *,
        clock: Clock,
        randomness: Randomness,
        timeout_seconds: float = 30.0,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self.client_id = client_id
        self._address = address_of(url).rstrip("/")
        self._headers = headers_for(key)
        self._client = escaped(client_id)
        self._batch_url = self._address + _BATCH_PATH.format(client=self._client)
        self._schedules_url = f"{self._address}/v1/clients/{self._client}/schedules"
        self._clock = clock
        self._randomness = randomness
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        self._ssl = ssl_context
        self._http: aiohttp.ClientSession | None = None
        self._ahead: tuple[float, int, float] | None = None
        """The API's wall clock minus our monotonic one in seconds, the client's pollers, and when that was told."""

        self._terms: tuple[Terms, float] | None = None
        """And when they were told."""

    async def __aenter__(self) -> "IngestApi":
        connector = aiohttp.TCPConnector(limit=100, ssl=self._ssl if self._ssl is not None else True)
        self._http = aiohttp.ClientSession(connector=connector, headers=self._headers, timeout=self._timeout)
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._http is not None:
            await self._http.close()

    async def token(self) -> tuple[str, int]:
        """A new token, and the instant in it (Unix milliseconds of the API's clock). Raises Later."""
        if self._ahead is None or self._clock.monotonic() - self._ahead[2] > _WINDOW_SECONDS:
            await self._be_told()
        if self._ahead is None:
            raise Later("the API does not tell its clock")
        ahead, pollers, _ = self._ahead
        # Rounded up: an estimate behind the API's clock would count from before it was asked.
        asked_at = int((ahead + self._clock.monotonic()) * 1000) + 1
        poller = int(self._randomness.fraction() * pollers)
        bits = self._randomness.bits(6 * 22)
        nonce = "".join(_ALPHABET[bits >> 6 * at & 63] for at in range(22))
        return f"{asked_at}.{pollers}.{poller}.{nonce}", asked_at

    async def terms(self, *, within_seconds: float = _TERMS_SECONDS) -> Terms:
        """As the API told them at most so long ago. Raises Later."""
        oldest = self._clock.monotonic() - within_seconds
        if self._terms is None or self._terms[1] < oldest:
            await self._be_told()
        if self._terms is None or self._terms[1] < oldest:
            raise Later("the API does not tell the client's accept_past_seconds and retention_days", denied=True)
        return self._terms[0]

    async def _be_told(self) -> None:
        with contextlib.suppress(TokenRefused):
            await self._batch(_NEVER_VALID, b'{"items":[]}')

    async def create(self, token: str, body: bytes, count: int) -> list[Refused | None]:
        """The result of each item, in order: None, its row is durable. Raises Later, Unreadable, TokenRefused."""
        items = await self._batch(token, body)
        if len(items) != count:
            raise Later(f"{len(items)} answers came for a batch of {count}: is the address right?", denied=True)
        results: list[Refused | None] = []
        for item in items:
            problem = item.problem
            if item.status < 300:
                results.append(None)
            elif problem is None or item.status in (429,) or item.status >= 500 or problem.kind in _NOT_YET:
                raise Later("some items of the batch were not decided" if problem is None else problem.kind)
            else:
                results.append(_refused(problem))
        return results

    async def exists(self, schedule_id: UUID) -> bool:
        """Raises Later."""
        status, headers, body = await self._ask("GET", f"{self._schedules_url}/{schedule_id}", found=(404,))
        return not _is_missing(status, headers, body)

    async def named(self, key: str) -> UUID | None:
        """The schedule that a key of the client names. Raises Later."""
        status, headers, body = await self._ask("GET", self._by_key(key), found=(404,))
        return None if _is_missing(status, headers, body) else _decode_shown(body).schedule_id

    async def cancel(self, *, key: str | None, schedule_id: str | None) -> Refused | None:
        """None: it is cancelled. Raises Later."""
        address = f"{self._schedules_url}/{escaped(schedule_id or '')}" if key is None else self._by_key(key)
        status, headers, body = await self._ask("DELETE", address, found=(400, 404, 409, 422))
        if status < 300:
            return None
        error = _error(status, headers, body)
        if error.kind in _NOT_YET:
            raise Later(error.kind)
        return _refused(error.problem)

    async def _batch(self, token: str, body: bytes) -> list[_Item]:
        status, headers, content = await self._ask(
            "POST", f"{self._batch_url}?once={token}", body, found=(409, *_UNREADABLE)
        )
        if status < 300:
            return _decode_batch(content).items
        error = _error(status, headers, content)
        if status == 409 and error.kind == "once-refused":
            raise TokenRefused(str(error))
        if status == 409:
            raise Later(error.kind)
        raise Unreadable(error.errors or (Fault(pointer="", detail=error.problem.detail or error.problem.title),))

    async def _ask(
        self, method: str, url: str, body: bytes | None = None, *, found: tuple[int, ...] = ()
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body. Statuses from 300 up that are not in `found` raise Later."""
        assert self._http is not None
        sent = self._clock.monotonic()
        try:
            # As it is: else yarl would resolve the keys `.` and `..`, which are escaped.
            address = URL(url, encoded=True)
            async with self._http.request(method, address, data=body, allow_redirects=False) as response:
                content = await response.read()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise Later(f"no answer from the API ({type(error).__name__})") from error
        self._hear(response.headers, sent)
        status = response.status
        if status < 300 or status in found:
            return status, response.headers, content
        refusal = _error(status, response.headers, content)
        raise Later(
            f"{status} {refusal.kind}",
            denied=300 <= status < 500 and status not in (408, 429),
            after_seconds=refusal.retry_after_seconds or 0.0,
        )

    def _hear(self, headers: Mapping[str, str], sent: float) -> None:
        if (parts := _told(headers.get("Minutehand-Once", ""))) is not None:
            self._ahead = int(parts[1]) / 1000 - sent, int(parts[2]), sent
        if (parts := _read_terms(headers.get("Minutehand-Client-Settings", ""))) is not None:
            self._terms = Terms(float(parts[1]), int(parts[2])), sent

    def _by_key(self, key: str) -> str:
        return f"{self._schedules_url}/by-key/{escaped(key)}"


def _error(status: int, headers: Mapping[str, str], body: bytes) -> MinutehandApiError:
    lowered = {name.lower(): value for name, value in headers.items()}
    error = error_of(status, lowered.get("content-type", ""), body, lowered.get("retry-after"))
    if isinstance(error, MinutehandApiError):
        return error
    raise Later(f"{status}, and no answer of Minutehand's: is the address right?", denied=status < 500)


def _is_missing(status: int, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether the API says that there is no such schedule. Raises Later for a 404 of somebody in between, such as a
    proxy that has no API to ask: taken for the API's, it would have a batch made twice."""
    if status != 404:
        return False
    error = _error(status, headers, body)
    if error.kind != "not-found":
        raise Later(f"404 {error.kind}", denied=True)
    return True


def _refused(problem: Problem) -> Refused:
    faults = problem.errors or (Fault(pointer="", detail=problem.detail or problem.title),)
    return Refused(problem.kind, faults)


def pause_after(error: Later, turn: int, *, fraction: float) -> float:
    """Seconds to the next request: doubled with each turn from 0.2 s to 30 s, with half jitter, and what was asked
    for."""
    return error.after_seconds + min(30.0, 0.2 * math.pow(2.0, min(turn, 10))) * (0.5 + fraction / 2)
