"""How many rows a minute may hold."""

import msgspec
import pytest

from poller_cluster.minute.limits import FEWEST_ROWS, ROW_BYTES, RowWindow
from poller_cluster.settings import MinuteSettings
from tests.unit.poller_cluster.builders import row

BUDGET = 100 * 1024 * 1024


def window(minutes: int) -> RowWindow:
    found = RowWindow(MinuteSettings(window_rows=2_000, rows_memory_mb=100))
    found.changed(minutes)
    return found


@pytest.mark.parametrize("minutes", [0, 1, 26])
def test_few_minutes_hold_what_a_minute_may(minutes: int) -> None:
    assert window(minutes).rows == 2_000


def test_many_minutes_share_the_window_and_none_starves() -> None:
    assert window(100).rows == BUDGET // ROW_BYTES // 100
    assert window(1_000_000).rows == FEWEST_ROWS
    crowd = window(100)
    crowd.changed(-99)
    assert crowd.rows == 2_000


def test_large_rows_count_at_once_and_small_ones_by_and_by() -> None:
    large, small = msgspec.structs.replace(row(10), body=b"x" * 64_000), row(10)
    seen = window(1)
    seen.read([])
    seen.read([large, large])
    assert seen.rows == pytest.approx(BUDGET / (ROW_BYTES + 64_000 + len(large.url or "")), abs=1)
    before = seen.rows
    seen.read([small])
    assert before < seen.rows < 2_000
    for _ in range(100):
        seen.read([small])
    assert seen.rows == 2_000
