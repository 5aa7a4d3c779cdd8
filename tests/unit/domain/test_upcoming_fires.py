"""Future fires of a cron: which are planned, and which are shown as next."""

from itertools import islice
from typing import Any

import pytest

from scheduler_service.domain.crons import InvalidRule
from scheduler_service.domain.crons.expansion import next_fires, plan, planned
from scheduler_service.domain.crons.row import Cron, CronCallback, CronOptions, CronState
from scheduler_service.domain.ids import ClientId, CronId, PollerId, UnixMillis

NOW = 1_795_253_400_000
MINUTE = 60_000
DAY = 86_400_000


def every_minute(**fields: Any) -> Cron:
    made = {
        "client_id": ClientId("shop"),
        "cron_id": CronId("nightly"),
        "expression": "* * * * *",
        "timezone": "UTC",
        "callback": CronCallback(method="POST", url="https://a.example/", headers="[]", body=b""),
        "options": CronOptions(),
        "state": CronState.ACTIVE,
        "revision": 1,
        "poller_id": PollerId(0),
        "created_at": UnixMillis(NOW),
        "changed_at": UnixMillis(NOW),
        "expanded_through": UnixMillis(NOW),
        "fires": 0,
        "swept": 1,
        "wake_at": UnixMillis(NOW),
    }
    return Cron(**{**made, **fields})


def minutes(cron: Cron, *, after: int = NOW, count: int = 100, until: int = NOW + DAY, now: int = NOW) -> list[int]:
    """The planned fires, in minutes from NOW."""
    fires = planned(cron, now=now, after=after, until=until, retention_ms=7 * DAY)
    return [(fire - NOW) // MINUTE for fire in islice(fires, count)]


def coming(cron: Cron, *, now: int = NOW, count: int = 5) -> list[int]:
    return [(fire - NOW) // MINUTE for fire in next_fires(cron, now=now, count=count, retention_ms=7 * DAY)]


def test_placed_fires_are_shown_as_next_but_not_planned() -> None:
    cron = every_minute(expanded_through=UnixMillis(NOW + 3 * MINUTE), fires=3)
    assert minutes(cron, count=2) == [4, 5]
    assert coming(cron) == [1, 2, 3, 4, 5]
    assert coming(cron, now=NOW + MINUTE) == [2, 3, 4, 5, 6]


def test_only_active_crons_have_any() -> None:
    for state in (CronState.PAUSED, CronState.FINISHED, CronState.DELETED):
        assert minutes(every_minute(state=state)) == []
        assert coming(every_minute(state=state)) == []


def test_no_fire_is_planned_after_the_crons_end() -> None:
    cron = every_minute(options=CronOptions(ends_at=UnixMillis(NOW + 3 * MINUTE)))
    assert minutes(cron) == coming(cron) == [1, 2]


def test_no_fire_is_planned_before_the_crons_start() -> None:
    cron = every_minute(options=CronOptions(starts_at=UnixMillis(NOW + 600 * MINUTE), max_fires=2))
    assert minutes(cron) == coming(cron) == [600, 601]


@pytest.mark.parametrize(
    ("through", "fires", "left", "next_"),
    [
        (0, 0, [1, 2, 3], [1, 2, 3]),
        (2, 2, [3], [1, 2, 3]),
        (3, 3, [], [1, 2, 3]),
        (2, 3, [], [1, 2]),
        (-2, 0, [1], [1]),
        (-3, 0, [], []),
    ],
)
def test_max_fires_counts_the_fires_already_made(through: int, fires: int, left: list[int], next_: list[int]) -> None:
    """`through` is in the past: fires owed since then come first."""
    cron = every_minute(
        options=CronOptions(max_fires=3), expanded_through=UnixMillis(NOW + through * MINUTE), fires=fires
    )
    assert minutes(cron) == left
    assert coming(cron) == next_


def test_a_later_look_shows_only_the_remaining_fires() -> None:
    cron = every_minute(options=CronOptions(max_fires=10))
    assert minutes(cron, after=NOW + 8 * MINUTE) == [9, 10]
    assert minutes(cron, after=NOW + 10 * MINUTE) == []


def test_missed_fires_are_planned_within_the_retention() -> None:
    cron = every_minute(expanded_through=UnixMillis(NOW - 30 * DAY))
    assert minutes(cron, after=NOW - 3 * MINUTE, until=NOW) == [-2, -1, 0]
    assert minutes(cron, after=0, count=1) == [-7 * 1440 + 1]


def test_it_is_what_an_expansion_places() -> None:
    """A plan at any later time places what was shown, and nothing else."""
    cron = every_minute(expression="*/7 * * * *", options=CronOptions(max_fires=5, catch_up_seconds=1e6))
    expansion = plan(cron, now=NOW + 60 * MINUTE, wake_quota=1, retention_ms=7 * DAY)
    placed = [(child.run.nominal_due - NOW) // MINUTE for child in expansion.children]
    assert placed == minutes(cron, now=NOW + 60 * MINUTE) == coming(cron)
    assert len(placed) == 5


def test_a_rule_that_is_not_understood_says_so() -> None:
    for wrong in (every_minute(expression="every full moon"), every_minute(timezone="Mars/Olympus")):
        with pytest.raises(InvalidRule):
            minutes(wrong)
        with pytest.raises(InvalidRule):
            coming(wrong)
