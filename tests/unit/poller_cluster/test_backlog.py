"""Which rows are overdue on a node, and since when."""

from types import SimpleNamespace
from typing import Any

from poller_cluster.backlog import STANDS_SECONDS, Backlog
from poller_cluster.minute.rows import PendingRows
from poller_cluster.recovery import RecoveryRange
from scheduler_service.domain.ids import Minute, PollerId, RowKey, minute_of
from scheduler_service.domain.schedules import Outcome, State
from tests.support.api import NOW, ManualClock
from tests.unit.poller_cluster.claimed import claim

PRESENT = minute_of(NOW)


def pollers(client_id: str, *dues: int, suspended: bool = False, recover_from: int = PRESENT) -> Any:
    """A client's pollers that hold rows due at these instants, relative to the present, in one run."""
    rows = PendingRows()
    long_calls: set[RowKey] = set()
    for tail, due in enumerate(dues):
        rows.add(claim(due=NOW + due, tail=tail).row, redelivery=False)
    run = SimpleNamespace(machine=SimpleNamespace(rows=rows, long_calls=long_calls))
    recovery = RecoveryRange(PollerId(0), Minute(recover_from), Minute(PRESENT))
    return SimpleNamespace(
        client_id=client_id, suspended=suspended, pollers={0: SimpleNamespace(recovery=recovery, runs={PRESENT: run})}
    )


def backlog(*clients: Any) -> tuple[Backlog, ManualClock]:
    clock = ManualClock()
    held: Any = SimpleNamespace(all=lambda: clients)
    return Backlog(pollers=held, clock=clock), clock


def test_what_is_due_and_has_no_outcome() -> None:
    shop, ended = pollers("shop", -3_000, -1_000, 0, 1, 5_000), pollers("ended", -9_000)
    entries = ended.pollers[0].runs[PRESENT].machine.rows
    for _, entry in list(entries):
        entries.end(entry, Outcome(state=State.DELIVERED), at=NOW)
    looked, _ = backlog(shop, ended)
    assert looked.rows_by_client() == {"shop": 3, "ended": 0}
    assert (looked.rows(), looked.oldest_age_seconds()) == (3, 3.0)


def test_nothing_due_is_no_backlog() -> None:
    looked, _ = backlog(pollers("shop", 1, 2))
    assert (looked.rows(), looked.oldest_age_seconds()) == (0, 0.0)


def test_what_a_suspension_holds_is_no_backlog() -> None:
    looked, _ = backlog(pollers("held", -60_000, suspended=True, recover_from=PRESENT - 9), pollers("shop", -500))
    assert (looked.rows(), looked.oldest_age_seconds()) == (1, 0.5)


def test_minutes_that_recovery_has_not_read_count_with_their_age() -> None:
    looked, _ = backlog(pollers("shop", -500, recover_from=PRESENT - 5))
    assert (looked.rows(), looked.oldest_age_seconds()) == (1, 300.0)


def test_a_result_is_cached_for_a_moment_and_ages() -> None:
    shop = pollers("shop", -500)
    looked, clock = backlog(shop)
    assert looked.rows() == 1
    shop.pollers.clear()
    clock.advance(STANDS_SECONDS / 2)
    assert (looked.rows(), looked.oldest_age_seconds()) == (1, 1.0)
    clock.advance(STANDS_SECONDS / 2)
    assert (looked.rows(), looked.oldest_age_seconds()) == (0, 0.0)
