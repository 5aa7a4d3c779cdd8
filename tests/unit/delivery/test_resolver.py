"""Name lookups: which wait, and how long answers are cached. The test controls time and name servers."""

from collections.abc import Callable

import pytest

from poller_cluster.delivery import resolver as rules
from poller_cluster.delivery.resolver import Answer, Found, Resolver, ResolverBounds, Waiting
from poller_cluster.delivery.resolver_cares import in_turns
from poller_cluster.delivery.settings import DeliverySettings

ONE, OTHER = ("192.0.2.1",), ("192.0.2.2",)
MINUTE = 60.0


class Bench:
    def __init__(self, **differing: float) -> None:
        self.seconds = 0.0
        self.asked: list[tuple[str, Callable[[Answer], None]]] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.told: dict[str, Found] = {}
        values = {
            "cache_seconds": 30.0,
            "stale_seconds": 300.0,
            "names_at_once": 10,
            "names_per_client": 4,
            "remembered_per_client": 5,
        }
        self.resolver = Resolver(
            look_up=lambda host, on_answer: self.asked.append((host, on_answer)),
            now=lambda: self.seconds,
            later=lambda seconds, callback: self.timers.append((self.seconds + seconds, callback)),
            bounds=ResolverBounds(**(values | differing)),  # type: ignore[arg-type]
        )

    def find(self, host: str, client: str = "shop") -> Found | Waiting:
        return self.resolver.find(client, host, lambda found: self.told.update({f"{client} {host}": found}))

    @property
    def open(self) -> list[str]:
        return [host for host, _ in self.asked]

    def answer(self, host: str, answer: Answer | None = None) -> None:
        place = self.open.index(host)
        _, on_answer = self.asked.pop(place)
        on_answer(answer or Answer(ONE, MINUTE))

    def pass_time(self, seconds: float) -> None:
        self.seconds += seconds
        due = [callback for at, callback in self.timers if at <= self.seconds]
        self.timers = [timer for timer in self.timers if timer[0] > self.seconds]
        for callback in due:
            callback()


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_lookups_of_one_name_share_the_query_and_its_answer(bench: Bench) -> None:
    assert isinstance(bench.find("a"), Waiting)
    assert isinstance(bench.find("a"), Waiting)
    assert bench.open == ["a"]
    bench.answer("a")
    assert bench.told == {"shop a": Found(ONE)}
    assert bench.find("a") == Found(ONE)
    assert (bench.open, bench.resolver.under_way) == ([], 0)


def test_one_client_has_its_share_and_the_rest_wait_in_order(bench: Bench) -> None:
    for number in range(8):
        bench.find(f"n{number}")
    assert bench.open == ["n0", "n1", "n2", "n3"]
    bench.find("quiet", client="another")
    assert bench.open[-1] == "quiet"
    bench.answer("n1")
    assert bench.open[-1] == "n4"


def test_clients_without_answers_always_leave_room_for_one_more() -> None:
    bench = Bench(names_at_once=80, names_per_client=60)
    for client in range(9):
        for number in range(50):
            bench.find(f"n{number}.dead", client=f"dead-{client}")
    assert bench.resolver.under_way < 80
    bench.find("quiet", client="another")
    assert bench.open[-1] == "quiet"
    while bench.asked:
        bench.answer(bench.open[0], Answer((), failure="no-answer"))
    assert bench.resolver.under_way == 0
    assert len(bench.told) == 9 * 50 + 1


def test_an_abandoned_lookup_leaves_the_queue_or_is_cached(bench: Bench) -> None:
    waiting = [bench.find(f"n{number}") for number in range(6)]
    for each in waiting:
        assert isinstance(each, Waiting)
        bench.resolver.give_up(each)
    assert bench.open == ["n0", "n1", "n2", "n3"]
    for host in list(bench.open):
        bench.answer(host)
    assert (bench.open, bench.told) == ([], {})
    assert bench.find("n0") == Found(ONE)


@pytest.mark.parametrize(("record", "held"), [(0.0, 1.0), (5.0, 5.0), (900.0, 30.0)])
def test_a_name_is_remembered_as_its_record_says_within_bounds(bench: Bench, record: float, held: float) -> None:
    bench.find("a")
    bench.answer("a", Answer(ONE, record))
    bench.pass_time(held - 0.01)
    assert bench.find("a") == Found(ONE)
    bench.pass_time(0.02)
    assert isinstance(bench.find("a"), Waiting)


@pytest.mark.parametrize(
    ("failure", "held"), [("no-address", rules.NO_ADDRESS_SECONDS), ("no-answer", rules.NO_ANSWER_SECONDS)]
)
def test_failures_are_remembered_for_a_moment(bench: Bench, failure: rules.Failure, held: float) -> None:
    bench.find("a")
    bench.answer("a", Answer((), failure=failure))
    assert bench.find("a") == Found((), failure)
    bench.pass_time(held)
    assert isinstance(bench.find("a"), Waiting)


def test_old_addresses_are_used_while_no_server_answers(bench: Bench) -> None:
    bench.find("a")
    bench.answer("a")
    bench.pass_time(40)
    bench.told.clear()
    assert isinstance(bench.find("a"), Waiting)
    assert bench.told == {}
    bench.pass_time(rules.GRACE_SECONDS)
    assert bench.told == {"shop a": Found(ONE)}
    assert bench.find("a") == Found(ONE)
    bench.answer("a", Answer((), failure="no-answer"))
    assert bench.find("a") == Found(ONE)
    bench.pass_time(rules.NO_ANSWER_SECONDS)
    bench.find("a")
    bench.answer("a", Answer(OTHER, MINUTE))
    assert bench.find("a") == Found(OTHER)
    bench.pass_time(331)
    bench.find("a")
    bench.answer("a", Answer((), failure="no-answer"))
    assert bench.find("a") == Found((), "no-answer")


def test_a_name_that_no_longer_resolves_fails_at_once(bench: Bench) -> None:
    bench.find("a")
    bench.answer("a")
    bench.pass_time(40)
    bench.find("a")
    bench.answer("a", Answer((), failure="no-address"))
    assert bench.told["shop a"] == Found((), "no-address")


def test_what_is_remembered_is_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "REMEMBERED_IN_ALL", 12)
    bench.find("kept", client="another")
    bench.answer("kept")
    for number in range(50):
        bench.find(f"n{number}")
        bench.answer(f"n{number}")
    assert bench.resolver._remembered == 6
    assert bench.find("kept", client="another") == Found(ONE)
    assert isinstance(bench.find("n0"), Waiting)
    for client in range(40):
        bench.find("n", client=f"c{client}")
        bench.answer("n")
    assert bench.resolver._remembered <= 12
    assert len(bench.resolver._shares) <= 13


def test_a_cache_of_zero_seconds_keeps_no_answer() -> None:
    bench = Bench(cache_seconds=0, stale_seconds=0)
    bench.find("a")
    bench.answer("a")
    assert isinstance(bench.find("a"), Waiting)
    bench.answer("a")
    assert bench.resolver._shares == {}


def test_families_take_turns() -> None:
    assert in_turns(("::1", "::2", "::3", "1.1.1.1")) == ("::1", "1.1.1.1", "::2", "::3")
    assert in_turns(("1.1.1.1", "1.1.1.2", "::1")) == ("1.1.1.1", "::1", "1.1.1.2")
    many = [f"10.0.0.{number}" for number in range(100)]
    assert in_turns((*many, "::1")) == (many[0], "::1", *many[1:8])


@pytest.mark.parametrize("name", ["10.0.0.1", "127.0.0.1:5353", "::1", "[::1]", "[::1]:5353"])
def test_name_servers(name: str) -> None:
    assert DeliverySettings(nameservers=(name,)).nameservers == (name,)


@pytest.mark.parametrize("name", ["", "localhost", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:70000", "[::1]53", "[::1]:x"])
def test_what_is_no_name_server(name: str) -> None:
    with pytest.raises(ValueError, match="nameservers"):
        DeliverySettings(nameservers=(name,))
