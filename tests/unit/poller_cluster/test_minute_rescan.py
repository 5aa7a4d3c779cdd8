"""Minutes that are read again because more rows are due soon than hints can name."""

import pytest

from poller_cluster.minute.machine import PollerMinute
from poller_cluster.minute.partition import HINTED_ROWS
from poller_cluster.minute.steps import Phase, ReadHinted, ReadPage, Wait
from scheduler_service.domain.schedules import Row
from tests.unit.poller_cluster.builders import (
    EPOCH,
    SWEEP,
    at,
    claim,
    expect,
    opened_by,
    page,
    read,
    reading,
    row,
    step,
)

APART = 2.0
KNOWN, NEW = row(20, 1), row(21, 2)


def long_read(*rows: Row, **settings: int) -> PollerMinute:
    """A minute that was read long ago."""
    minute = reading(*rows, **settings)
    expect(Wait, minute, -4)
    return minute


def renewed(seconds: float = 5.0) -> PollerMinute:
    """A minute of one row, read long ago, that is to be read again and whose next step is due."""
    minute = long_read(KNOWN)
    minute.hint(None)
    assert step(minute, seconds) == ReadPage(None)
    return minute


def test_rows_without_a_hint_are_found() -> None:
    minute = renewed()
    read(minute, KNOWN, NEW, seconds=5)
    assert minute.phase is Phase.RUNNING
    assert [each.row for each in claim(minute, 20)] == [KNOWN, NEW]
    assert isinstance(step(minute, 20), Wait)


def test_what_is_claimed_stays_claimed() -> None:
    minute = long_read(KNOWN)
    assert [each.row for each in claim(minute, 19.5)] == [KNOWN]
    minute.hint(None)
    read(minute, KNOWN, NEW, seconds=19.6, header=opened_by(EPOCH, KNOWN))
    assert [each.row for each in claim(minute, 20.5)] == [NEW]


def test_many_hints_cause_one_rescan_at_a_time() -> None:
    minute = renewed()
    minute.hint(None)
    minute.hint(None)
    minute.page_read(page(KNOWN, more=True), trusted=True)
    minute.hint(None)
    assert step(minute, 5.1) == ReadPage(KNOWN.key), "never two reads at once"
    minute.page_read(page(), trusted=True)
    assert expect(Wait, minute, 5.2).until == at(5.2 + APART)
    read(minute, KNOWN, NEW, seconds=5.2 + APART)
    assert expect(Wait, minute, 5.2 + APART).until == at(20 - 1)


def test_a_read_that_takes_long_rests_as_long() -> None:
    minute = renewed(seconds=3)
    minute.hint(None)
    minute.page_read(page(KNOWN), trusted=True)
    assert expect(Wait, minute, 3 + 4).until == at(3 + 4 + 4)


def test_a_read_that_was_under_way_is_not_enough() -> None:
    """Rows created since may be behind its position."""
    minute = long_read(KNOWN)
    minute.hint(None)
    expect(ReadPage, minute, 5)
    minute.hint(None)
    minute.page_read(page(KNOWN), trusted=True)
    expect(Wait, minute, 5)
    read(minute, KNOWN, NEW, seconds=5 + APART)
    assert NEW.key in minute.rows


@pytest.mark.parametrize("waiting", [0, 1])
def test_too_many_names_are_as_good_as_none(waiting: int) -> None:
    minute = long_read(KNOWN)
    named = [row(21, 2 + number).key for number in range(HINTED_ROWS)]
    minute.hint(named[:waiting])
    minute.hint([*named, NEW.key][waiting:])
    if waiting:
        assert step(minute, 5) == ReadHinted((named[0],))
        minute.hinted_read(named[:1], {}, trusted=True)
    assert step(minute, 5) == ReadPage(None)


def test_the_sweep_serves_as_a_rescan() -> None:
    minute = long_read(KNOWN)
    claim(minute, 20)
    minute.hint(None)
    read(minute, KNOWN, NEW, seconds=SWEEP)
    assert minute.phase is Phase.SWEEPING
    minute.hint(None)
    assert [each.row for each in claim(minute, SWEEP)] == [NEW]
    expect(Wait, minute, SWEEP + 2 * APART)


def test_it_waits_for_room_in_memory() -> None:
    rows = [row(20, number) for number in range(3)]
    minute = long_read(*rows, window_rows=4)
    minute.hint(None)
    assert expect(Wait, minute, 5).until == at(19)
    for each in rows:
        minute.rows.forget(each.key)
    expect(Wait, minute, 6)
    expect(ReadPage, minute, 6 + APART)
