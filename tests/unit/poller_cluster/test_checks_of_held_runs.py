"""Runs of crons that are held are checked again before they are claimed, however often their queue is looked at."""

from collections.abc import Mapping, Sized

import msgspec
import pytest

from poller_cluster.minute.rows import KEY, Again, Hold, PendingRow, PendingRows, WaitQueue
from scheduler_service.domain.ids import CronId
from tests.unit.poller_cluster.builders import at, row


class HoldsAll:
    """Holds each row behind its key, and has all of them judged again at each look."""

    def begin(self, held: Mapping[WaitQueue, Sized]) -> None:
        """Nothing is counted."""

    def judge(self, entry: PendingRow, now: int) -> Hold:
        return Hold((KEY, "k"), entry.key)

    def again(self, queue: WaitQueue, first: PendingRow, now: int) -> Again:
        return Again(1)


def checks(*, options: str | None, every_ms: int) -> int:
    """How often a run that is held for a minute is checked."""
    rows, now, checked = PendingRows(), at(0), 0
    rows.add(msgspec.structs.replace(row(0, 1), cron_id=CronId("job"), options=options), redelivery=False)
    for _ in range(60_000 // every_ms):
        for key, entry in list(rows.unchecked.items()):
            checked, entry.checked = checked + 1, True
            del rows.unchecked[key]
        rows.pick(horizon=now, limit=10, judge=HoldsAll(), now=now)
        now += every_ms
        rows.reconsider(HoldsAll(), now)
    return checked


@pytest.mark.parametrize("every_ms", [200, 500, 1_500])
def test_a_run_that_waits_is_checked_again(every_ms: int) -> None:
    assert checks(options='{"overlap":"buffer_all"}', every_ms=every_ms) > 20


def test_one_that_may_give_way_is_not() -> None:
    assert checks(options='{"overlap":"skip"}', every_ms=1_500) == 1
