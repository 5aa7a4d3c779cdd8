"""Rows to a receiver that was just judged get its verdict, as if each were judged by itself."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from poller_cluster.minute.admission import MinuteAdmission
from poller_cluster.minute.rows import Hold, PendingRow, Verdict
from poller_cluster.settings import MinuteSettings
from scheduler_service.domain.clients import HostLimit
from scheduler_service.domain.ids import minute_of
from scheduler_service.domain.schedules import Outcome
from tests.support.api import NOW
from tests.support.node_parts import GivenOrder, minute_context
from tests.unit.poller_cluster.claimed import claim, client, result
from tests.unit.poller_cluster.dispatch_bench import Bench

HOSTS = ("free", "narrow", "paced", "failing")
LIMITS = {
    "narrow": HostLimit(max_in_flight=3),
    "paced": HostLimit(max_per_second=2.0),
}
ROWS = st.lists(
    st.tuples(
        st.sampled_from(HOSTS),
        st.sampled_from((-500, 0, 1, 900, 1_000, 1_001, 4_000)),
        st.sampled_from((None, None, None, "cart")),
        st.booleans(),
    ),
    min_size=1,
    max_size=30,
)


class Judging:
    """One admission over a separate dispatcher. `forgets`: it looks at the receiver of each row."""

    def __init__(self, *, forgets: bool) -> None:
        self._forgets = forgets
        self._bench = Bench()
        shop = self._bench.clients.known["shop"] = client(max_in_flight=20, hosts=LIMITS, in_doubt="drop")
        failing = self._bench.dispatcher.receiver(shop, "https://failing/")
        for _ in range(20):
            failing.in_flight += 1
            failing.ended(result(503), generation=failing.breaker.generation, now=self._bench.clock.monotonic())
        self.admission = MinuteAdmission(
            client_id=shop.client_id,
            minute=minute_of(NOW),
            poller=GivenOrder(),
            settings=MinuteSettings(),
            context=minute_context(MinuteSettings(), clients=[shop], dispatcher=self._bench.dispatcher),
        )
        self.admission.begin({})

    def verdict(self, number: int, host: str, after_ms: int, key: str | None, in_doubt: bool = False) -> Any:
        if self._forgets:
            self.admission._alike = None
        row = claim(due=NOW + after_ms, tail=number, url=f"https://{host}/", ordering_key=key).row
        said: Verdict = self.admission.judge(PendingRow(row, redelivery=in_doubt), NOW)
        return said.state if isinstance(said, Outcome) else said

    @property
    def told_of_headroom(self) -> bool:
        return bool(self._bench.free)

    @property
    def taken(self) -> list[tuple[str, int, float]]:
        """The receivers' counts for it."""
        known = self._bench.dispatcher._receivers.all()
        return [(one.name, one.reserved, one._refused) for _, one in known]


@given(ROWS)
def test_a_rows_verdict_does_not_depend_on_earlier_rows(rows: list[tuple[str, int, str | None, bool]]) -> None:
    one, afresh = Judging(forgets=False), Judging(forgets=True)
    for number, row in enumerate(sorted(rows, key=lambda row: row[1])):
        assert one.verdict(number, *row) == afresh.verdict(number, *row)
    assert one.taken == afresh.taken
    one.admission.answered()
    afresh.admission.answered()
    assert all(reserved == 0 for _, reserved, _ in one.taken)


def test_a_shared_verdict_holds_for_one_claim() -> None:
    judging = Judging(forgets=False)
    verdicts = [judging.verdict(number, "narrow", 0, None) for number in range(4)]
    assert [isinstance(each, Hold) for each in verdicts] == [False, False, False, True]
    judging.admission.answered()
    assert judging.told_of_headroom
    judging.admission.begin({})
    assert judging.verdict(5, "narrow", 0, None) is None
