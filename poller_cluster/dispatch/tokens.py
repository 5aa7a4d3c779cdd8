"""Bearer tokens of destinations: cached, refreshed before they expire, fetched once for all calls that wait. Pure.

    none --bearer--> wanted --room--> fetching --granted--> held --REFRESH_PART of its life--> held, and wanted
                        ^                `-----failed-----> backing off (`TokenUnavailable`) --over--> none
                        |                                      held --expired, rejected by its receiver--> none
                        `--- calls wait (`TokenAwaited`) until the fetch ends

A token belongs to a client and the content of a source: destinations with equal sources share it, and a changed source
gets another. A failed fetch counts neither as an attempt nor for the receiver's breaker, since nothing was sent to the
receiver. The source is asked again after a pause that doubles up to `LONGEST_REFETCH_SECONDS`. A token whose
refresh fails is used until it expires.

A receiver's 401 drops the token that it was sent, at most once in `REJECTED_SECONDS` for each source: the next call
gets another one. A client whose token endpoints hang leaves room to others: it may have no more fetches under way than
could still be started. Nothing runs by itself: a source that no call uses is not refreshed, and is forgotten.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from poller_cluster.delivery.token_request import Grant, TokenFailure
from scheduler_service.domain.destinations import TokenSource
from scheduler_service.domain.ids import ClientId
from scheduler_service.runtime.logging import get_logger

REFRESH_PART: Final = 0.8
"""A token is refreshed after this part of its life at the latest, and a tenth of its life before that at the
earliest."""
REFRESH_JITTER: Final = 0.1
USABLE_PART: Final = 0.95
"""It is not sent after this part of its life, so that it is valid when it arrives."""
FIRST_REFETCH_SECONDS: Final = 2.0
LONGEST_REFETCH_SECONDS: Final = 60.0
REJECTED_SECONDS: Final = 10.0
UNUSED_SECONDS: Final = 900.0
MAX_SOURCES: Final = 4_096
FETCHES_PER_CLIENT: Final = 8
_log = get_logger("minutehand.node")
W = TypeVar("W")


class TokenKey(NamedTuple):
    """Whose token, and where it comes from."""

    client_id: ClientId
    source: TokenSource


class TokenAwaited(Exception):
    """The token is being fetched; `Tokens.wait` for it."""

    def __init__(self, key: TokenKey) -> None:
        super().__init__("the token is being fetched")
        self.key = key


class TokenUnavailable(Exception):
    """There is no token, and none is asked for within `seconds`."""

    def __init__(self, failure: TokenFailure, *, seconds: float, pause: float) -> None:
        """`pause`: how long the whole pause is that ends then."""
        super().__init__(failure.detail)
        self.failure = failure
        self.seconds = seconds
        self.pause = pause


class Fetcher(Protocol):
    """What fetches tokens (`delivery.token_fetcher`)."""

    @property
    def capacity(self) -> int:
        """How many fetches may be under way."""

    def fetch(self, client_id: ClientId, source: TokenSource, on_done: Callable[[Grant | TokenFailure], None]) -> None:
        """`on_done` is called exactly once, not before this call has returned."""


class _Held(Generic[W]):
    """What is known of one source. Instants are monotonic seconds. `wanted`: a fetch waits for room, or is under way.
    `pause`: the last pause after a failed fetch, which ends at `retry_at`."""

    __slots__ = (
        "bearer",
        "failure",
        "failures",
        "key",
        "pause",
        "refresh_at",
        "rejectable_at",
        "retry_at",
        "usable_until",
        "used_at",
        "waiting",
        "wanted",
    )

    def __init__(self, key: TokenKey) -> None:
        self.key = key
        self.bearer: str | None = None
        self.usable_until = self.refresh_at = self.retry_at = self.rejectable_at = self.used_at = self.pause = 0.0
        self.wanted = False
        self.waiting: list[W] = []
        self.failures = 0
        self.failure: TokenFailure | None = None


class Tokens(Generic[W]):
    """The tokens of one process, and what waits for them."""

    def __init__(
        self,
        *,
        fetcher: Fetcher,
        monotonic: Callable[[], float],
        fraction: Callable[[], float],
        on_ended: Callable[[Sequence[W]], None],
        on_fetched: Callable[[TokenKey, TokenFailure | None], None],
        most: int = MAX_SOURCES,
    ) -> None:
        """`on_ended` gets what waited for a fetch that has ended, well or not; `on_fetched` hears of every fetch's end,
        and why there is no token. `most`: how many sources are remembered."""
        self._fetcher = fetcher
        self._monotonic = monotonic
        self._fraction = fraction
        self._on_ended = on_ended
        self._on_fetched = on_fetched
        self._most = most
        self._held: OrderedDict[TokenKey, _Held[W]] = OrderedDict()
        """The one used last comes last."""
        self._queue: OrderedDict[TokenKey, _Held[W]] = OrderedDict()
        """Wanted, and waiting for room."""
        self._wanted: dict[TokenKey, _Held[W]] = {}
        """Those, and the ones whose fetch is under way."""
        self._under_way: dict[ClientId, int] = {}
        self._fetches = 0

    def __len__(self) -> int:
        return len(self._held)

    def bearer(self, client_id: ClientId, source: TokenSource) -> str:
        """The token to send now. Raises TokenAwaited and TokenUnavailable."""
        now = self._monotonic()
        held = self._use(TokenKey(client_id, source), now)
        if held.bearer is not None and now < held.usable_until:
            if now >= held.refresh_at and not held.wanted:
                self._want(held)
            return held.bearer
        if not held.wanted:
            if held.failure is not None and now < held.retry_at:
                raise TokenUnavailable(held.failure, seconds=held.retry_at - now, pause=held.pause)
            self._want(held)
        raise TokenAwaited(held.key)

    def wait(self, key: TokenKey, one: W) -> None:
        """Hand `one` to `on_ended` when the fetch of this token has ended. Only after TokenAwaited."""
        self._wanted[key].waiting.append(one)

    def withdraw(self, owned: Callable[[W], bool]) -> list[W]:
        """Take back what waits and is `owned`."""
        taken: list[W] = []
        for held in self._wanted.values():
            taken += [one for one in held.waiting if owned(one)]
            held.waiting = [one for one in held.waiting if not owned(one)]
        return taken

    def rejected(self, client_id: ClientId, source: TokenSource, sent: str) -> None:
        """The receiver answered 401 to the token that it was sent."""
        held, now = self._held.get(TokenKey(client_id, source)), self._monotonic()
        if held is not None and held.bearer == sent and now >= held.rejectable_at:
            held.bearer = None
            held.rejectable_at = now + REJECTED_SECONDS

    def forget(self, client_id: ClientId) -> None:
        """This process makes no calls of the client any more."""
        for key in [key for key, held in self._held.items() if key.client_id == client_id and not held.wanted]:
            del self._held[key]

    def _use(self, key: TokenKey, now: float) -> _Held[W]:
        held = self._held.get(key)
        if held is None:
            self._forget_some(now)
            held = self._held[key] = _Held(key)
        else:
            self._held.move_to_end(key)
        held.used_at = now
        return held

    def _forget_some(self, now: float) -> None:
        """Make room for one more: forget the sources that were not used for long, and the one used least recently."""
        for held in list(self._held.values()):
            if held.used_at + UNUSED_SECONDS > now and len(self._held) < self._most:
                return
            if not held.wanted:
                del self._held[held.key]
        if len(self._held) >= self._most:
            failure = TokenFailure(code="busy", detail="too many tokens are being fetched")
            raise TokenUnavailable(failure, seconds=FIRST_REFETCH_SECONDS, pause=FIRST_REFETCH_SECONDS)

    def _want(self, held: _Held[W]) -> None:
        held.wanted = True
        self._wanted[held.key] = self._queue[held.key] = held
        self._fetch_some()

    def _fetch_some(self) -> None:
        """Start the fetches that there is room for, in the order in which they were wanted."""
        for key, held in list(self._queue.items()):
            free = self._fetcher.capacity - self._fetches
            if free <= 0:
                return
            under_way = self._under_way.get(key.client_id, 0)
            if under_way >= min(FETCHES_PER_CLIENT, free):
                continue
            del self._queue[key]
            self._fetches += 1
            self._under_way[key.client_id] = under_way + 1
            self._fetch(held)

    def _fetch(self, held: _Held[W]) -> None:
        started = self._monotonic()
        self._fetcher.fetch(held.key.client_id, held.key.source, lambda got: self._fetched(held, got, started))

    def _fetched(self, held: _Held[W], got: Grant | TokenFailure, started: float) -> None:
        held.wanted = False
        del self._wanted[held.key]
        client_id = held.key.client_id
        self._fetches -= 1
        self._under_way[client_id] -= 1
        if not self._under_way[client_id]:
            del self._under_way[client_id]
        if isinstance(got, Grant):
            self._on_fetched(held.key, None)
            self._granted(held, got, started)
        else:
            self._on_fetched(held.key, got)
            self._failed(held, got)
        self._fetch_some()
        waiting, held.waiting = held.waiting, []
        if waiting:
            self._on_ended(waiting)

    def _granted(self, held: _Held[W], grant: Grant, started: float) -> None:
        if held.failure is not None:
            _log.info("token-available", client_id=held.key.client_id)
        life = grant.lifetime_seconds
        held.bearer = grant.token
        held.usable_until = started + life * USABLE_PART
        held.refresh_at = started + life * (REFRESH_PART - REFRESH_JITTER * self._fraction())
        held.failures, held.failure = 0, None

    def _failed(self, held: _Held[W], failure: TokenFailure) -> None:
        if held.failure is None:
            _log.warning("token-unavailable", client_id=held.key.client_id, code=failure.code)
        pause = min(FIRST_REFETCH_SECONDS * 2.0 ** min(held.failures, 16), LONGEST_REFETCH_SECONDS)
        pause *= 1 - self._fraction() / 2
        asked = failure.retry_after_seconds
        if asked is not None:
            pause = max(pause, min(asked, LONGEST_REFETCH_SECONDS))
        held.failures += 1
        held.failure, held.pause = failure, pause
        held.retry_at = held.refresh_at = self._monotonic() + pause
