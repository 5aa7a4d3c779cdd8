"""How long outcomes wait for others to share their commit."""

import pytest

from poller_cluster.minute.limits import RecordPace
from poller_cluster.settings import MinuteSettings


@pytest.mark.parametrize(("busy", "expected"), [(0, 500), (1, 500), (16, 500), (32, 1_000), (64, 2_000), (900, 2_000)])
def test_busy_minutes_together_write_an_even_number_of_advances(busy: int, expected: int) -> None:
    pace = RecordPace(MinuteSettings(record_after_ms=500, record_after_longest_ms=2_000, commits_per_second=32))
    for _ in range(busy):
        pace.changed(1)
    assert pace.record_after_ms == expected
    pace.changed(-busy)
    assert pace.record_after_ms == 500
