"""The cache of tokens. The test moves the clock and ends the fetches."""

import pytest

from poller_cluster.delivery.token_request import Grant, TokenFailure
from poller_cluster.dispatch.tokens import (
    FETCHES_PER_CLIENT,
    FIRST_REFETCH_SECONDS,
    LONGEST_REFETCH_SECONDS,
    REFRESH_JITTER,
    REFRESH_PART,
    REJECTED_SECONDS,
    UNUSED_SECONDS,
    USABLE_PART,
    TokenAwaited,
    TokenKey,
    Tokens,
    TokenUnavailable,
)
from scheduler_service.domain.destinations import TokenSource
from scheduler_service.domain.ids import ClientId
from tests.support.token_fetches import DOWN, LIFE_SECONDS, HeldFetches

SHOP, OTHER = ClientId("shop"), ClientId("other")


def source(number: int = 1, **differing: str) -> TokenSource:
    return TokenSource(client_id="c", client_secret="s", token_url=f"https://tokens.test/{number}", **differing)


class Bench:
    """A cache, the fetches that it asked for, and what it told."""

    def __init__(self, *, capacity: int = 64, most: int = 100) -> None:
        self.now = 100.0
        self.fraction = 0.0
        self.fetcher = HeldFetches(capacity=capacity)
        self.asked, self.open = self.fetcher.asked, self.fetcher.open
        self.grant, self.fail = self.fetcher.grant, self.fetcher.fail
        self.ended: list[str] = []
        self.fetched: list[tuple[TokenKey, TokenFailure | None]] = []
        self.tokens: Tokens[str] = Tokens(
            fetcher=self.fetcher,
            monotonic=lambda: self.now,
            fraction=lambda: self.fraction,
            on_ended=self.ended.extend,
            on_fetched=lambda key, failure: self.fetched.append((key, failure)),
            most=most,
        )

    def awaits(self, number: int = 1, client_id: ClientId = SHOP) -> None:
        with pytest.raises(TokenAwaited) as raised:
            self.tokens.bearer(client_id, source(number))
        assert raised.value.key == TokenKey(client_id, source(number))

    def has(self, number: int = 1, client_id: ClientId = SHOP) -> str:
        return self.tokens.bearer(client_id, source(number))

    def unavailable(self, number: int = 1, client_id: ClientId = SHOP) -> TokenUnavailable:
        with pytest.raises(TokenUnavailable) as raised:
            self.tokens.bearer(client_id, source(number))
        return raised.value


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_the_end_of_every_fetch_is_told(bench: Bench) -> None:
    bench.awaits()
    bench.fail()
    bench.awaits(2)
    bench.grant()
    assert bench.fetched == [(TokenKey(SHOP, source()), DOWN), (TokenKey(SHOP, source(2)), None)]


def test_one_fetch_for_all_that_wait(bench: Bench) -> None:
    for number in range(5):
        bench.awaits()
        bench.tokens.wait(TokenKey(SHOP, source()), str(number))
    assert len(bench.asked) == 1
    bench.grant()
    assert bench.ended == ["0", "1", "2", "3", "4"]
    assert {bench.has() for _ in range(5)} == {"first"}
    assert len(bench.asked) == 1


def test_what_waits_may_be_taken_back(bench: Bench) -> None:
    for number, name in ((1, "a1"), (1, "b1"), (2, "a2"), (2, "b2")):
        bench.awaits(number)
        bench.tokens.wait(TokenKey(SHOP, source(number)), name)
    assert bench.tokens.withdraw(lambda name: name.startswith("a")) == ["a1", "a2"]
    bench.fail()
    bench.grant()
    assert bench.ended == ["b1", "b2"]
    assert bench.tokens.withdraw(lambda name: True) == []


def test_clients_and_sources_share_no_token(bench: Bench) -> None:
    bench.awaits()
    bench.grant("shops")
    bench.awaits(client_id=OTHER)
    bench.awaits(2)
    with pytest.raises(TokenAwaited):
        bench.tokens.bearer(SHOP, source(scope="more"))
    assert bench.has() == "shops"


@pytest.mark.parametrize(("fraction", "part"), [(0.0, REFRESH_PART), (0.5, REFRESH_PART - REFRESH_JITTER / 2)])
def test_it_is_refreshed_before_it_expires(bench: Bench, fraction: float, part: float) -> None:
    """Calls meanwhile use the one that there is."""
    bench.fraction = fraction
    bench.awaits()
    bench.now += 5
    bench.grant()
    bench.now += LIFE_SECONDS * part - 5 - 0.1
    assert (bench.has(), len(bench.asked)) == ("first", 1)
    bench.now += 0.2
    assert [bench.has(), bench.has()] == ["first", "first"]
    assert len(bench.asked) == 2
    bench.grant("second")
    assert bench.has() == "second"


def test_it_is_not_sent_when_it_may_have_expired(bench: Bench) -> None:
    """Its life began when it was asked for."""
    bench.awaits()
    bench.now += 8
    bench.grant()
    bench.now += LIFE_SECONDS * USABLE_PART - 8 - 0.1
    assert bench.has() == "first"
    bench.now += 0.2
    bench.awaits()


def test_a_failure_pauses_and_the_pauses_double(bench: Bench) -> None:
    seen = []
    for _ in range(8):
        bench.awaits()
        bench.fail()
        refused = bench.unavailable()
        assert refused.failure == DOWN
        seen.append(refused.pause)
        bench.now += refused.seconds - 0.01
        assert bench.unavailable().seconds == pytest.approx(0.01)
        bench.now += 0.02
    assert seen == [FIRST_REFETCH_SECONDS * 2**number for number in range(5)] + [LONGEST_REFETCH_SECONDS] * 3
    bench.awaits()
    bench.grant()
    assert bench.has() == "first"
    bench.now += LIFE_SECONDS
    bench.awaits()
    bench.fail()
    assert bench.unavailable().pause == FIRST_REFETCH_SECONDS, "a token forgets earlier failures"


def test_pauses_differ_between_nodes(bench: Bench) -> None:
    bench.fraction = 0.5
    bench.awaits()
    bench.fail()
    assert bench.unavailable().pause == FIRST_REFETCH_SECONDS * 0.75


@pytest.mark.parametrize(("asked", "pause"), [(0.5, FIRST_REFETCH_SECONDS), (9.0, 9.0), (1e6, LONGEST_REFETCH_SECONDS)])
def test_the_server_may_ask_for_a_longer_pause(bench: Bench, asked: float, pause: float) -> None:
    bench.awaits()
    bench.fail(TokenFailure(code="refused", detail="429", retry_after_seconds=asked))
    assert bench.unavailable().seconds == pause


def test_a_token_whose_refresh_fails_is_used_until_it_expires(bench: Bench) -> None:
    bench.awaits()
    bench.grant()
    bench.now += LIFE_SECONDS * 0.81
    bench.has()
    bench.fail()
    assert (bench.has(), len(bench.asked)) == ("first", 2)
    bench.now += FIRST_REFETCH_SECONDS
    assert (bench.has(), len(bench.asked)) == ("first", 3)
    bench.now += LIFE_SECONDS * 0.15
    bench.awaits()
    bench.fail()
    assert bench.unavailable().pause == FIRST_REFETCH_SECONDS * 2


def test_a_rejected_token_is_dropped_once(bench: Bench) -> None:
    bench.awaits()
    bench.grant()
    bench.tokens.rejected(SHOP, source(), "first")
    bench.awaits()
    bench.grant("second")
    for token in ("first", "second"):  # of calls that were under way, and at once again
        bench.tokens.rejected(SHOP, source(), token)
        assert bench.has() == "second"
    bench.now += REJECTED_SECONDS
    bench.tokens.rejected(SHOP, source(), "first")
    bench.tokens.rejected(OTHER, source(), "second")
    assert bench.has() == "second"
    bench.tokens.rejected(SHOP, source(), "second")
    bench.awaits()


def test_one_client_leaves_fetches_to_others() -> None:
    bench = Bench(capacity=10)
    for number in range(20):
        bench.awaits(number)
    assert len(bench.asked) == 5
    bench.awaits(client_id=OTHER)
    assert [key.client_id for key in bench.asked[5:]] == [OTHER]
    bench.grant()
    assert len(bench.asked) == 7
    for _ in range(50):
        if bench.open:
            bench.grant()
    assert {key.source for key in bench.asked if key.client_id == SHOP} == {source(number) for number in range(20)}
    bench.awaits(21)
    assert len(bench.asked) == 22


def test_no_client_has_many_fetches(bench: Bench) -> None:
    for number in range(20):
        bench.awaits(number)
    assert len(bench.asked) == FETCHES_PER_CLIENT


def test_what_is_not_used_is_forgotten(bench: Bench) -> None:
    bench.awaits(1)
    bench.grant(life=10 * UNUSED_SECONDS)
    bench.now += UNUSED_SECONDS - 1
    bench.awaits(2)
    bench.grant()
    assert len(bench.tokens) == 2
    bench.now += 2
    bench.awaits(3)
    assert len(bench.tokens) == 2
    bench.awaits(1)


def test_the_least_recently_used_token_is_forgotten_first() -> None:
    bench = Bench(most=3)
    for number in range(3):
        bench.awaits(number)
        bench.grant(str(number))
    bench.has(0)
    bench.awaits(3)
    assert len(bench.tokens) == 3
    assert (bench.has(0), bench.has(2)) == ("0", "2")
    bench.awaits(1)


def test_sources_whose_fetch_is_under_way_are_kept() -> None:
    bench = Bench(most=2)
    bench.awaits(1)
    bench.awaits(2)
    assert bench.unavailable(3).failure.code == "busy"
    bench.grant()
    bench.awaits(3)


def test_a_client_that_has_left_is_forgotten(bench: Bench) -> None:
    for number in range(3):
        bench.awaits(number)
        if number < 2:
            bench.grant()
    bench.awaits(client_id=OTHER)
    bench.tokens.forget(SHOP)
    assert len(bench.tokens) == 2, "one is being fetched, one is another client's"


def test_nothing_shows_a_token_or_a_secret() -> None:
    assert "secret" not in repr(TokenKey(SHOP, TokenSource(client_id="c", client_secret="secret", token_url="u")))
    assert "secret" not in repr(TokenAwaited(TokenKey(SHOP, TokenSource(client_id="c", client_secret="secret"))))
    assert "secret" not in repr(Grant(token="secret", lifetime_seconds=1))
