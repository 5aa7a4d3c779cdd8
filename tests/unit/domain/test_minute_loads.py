"""Counts of what a process has placed: nothing is lost between writes, failed writes, and entries begun again."""

import random
from collections import Counter
from uuid import UUID

from scheduler_service.domain.ids import ClientId, Hour, Minute
from scheduler_service.domain.minute_loads import ALL_CLIENTS, HOT_ROWS, HourLoad, LoadCounts, days_of, loads_of
from tests.support.api import SeededRandomness

SHOP, BANK = ClientId("shop"), ClientId("bank")
HOUR = 498_681
MINUTE = HOUR * 60
EVERY = Minute(0), Minute(1 << 40)


class Stored:
    """The table: rows by client, hour and writer."""

    def __init__(self) -> None:
        self.rows: dict[tuple[ClientId, int, UUID], HourLoad] = {}

    def take(self, counts: LoadCounts, *, limit: int = 1_000, answers: bool = True) -> int:
        rows = counts.unwritten(limit=limit)
        for client_id, load, _ in rows:
            self.rows[client_id, load.hour, load.writer] = load
        if answers:
            counts.written(rows)
        return len(rows)

    def loads(self, client_id: ClientId) -> dict[Minute, int]:
        return loads_of((load for key, load in self.rows.items() if key[0] == client_id), first=EVERY[0], last=EVERY[1])


def test_the_sum_of_all_writers_is_what_was_placed_less_what_has_ended() -> None:
    stored, placed, total = Stored(), Counter[tuple[ClientId, int]](), Counter[int]()
    chance = random.Random(7)
    processes = [LoadCounts(SeededRandomness(seed), most_hours=3) for seed in range(3)]
    for step in range(2_000):
        counts, client_id = chance.choice(processes), chance.choice((SHOP, BANK))
        minute = MINUTE + chance.randrange(400)
        rows = chance.choice((1, 1, 1, 40)) if chance.random() < 0.8 else -min(1, placed[client_id, minute])
        counts.placed(client_id, minute, rows)
        placed[client_id, minute] += rows
        total[minute] += rows
        if step % 7 == 0:
            stored.take(counts, limit=2, answers=chance.random() < 0.7)
            counts.forget(Hour(HOUR))
            assert len(counts) < 20
    for counts in processes:
        while stored.take(counts):
            pass
    for client_id in (SHOP, BANK):
        assert stored.loads(client_id) == {
            Minute(at): rows for (of, at), rows in placed.items() if of == client_id and rows
        }
    assert stored.loads(ALL_CLIENTS) == {Minute(at): rows for at, rows in total.items() if rows}
    assert len({writer for _, _, writer in stored.rows}) > 10, "entries were forgotten and begun again"


def test_those_that_wait_longest_are_written_first_and_hours_that_are_over_never() -> None:
    counts, stored = LoadCounts(SeededRandomness()), Stored()
    for hour in range(5):
        counts.placed(SHOP, MINUTE + 60 * hour, 1 + hour)
    assert [row.load.hour for row in counts.unwritten(limit=2) if row.client_id == SHOP] == [HOUR, HOUR + 1]
    stored.take(counts, limit=2)
    counts.placed(SHOP, MINUTE, 1)
    assert [row.load.hour - HOUR for row in counts.unwritten(limit=9) if row.client_id == SHOP] == [2, 3, 4, 0]
    counts.forget(Hour(HOUR + 3))
    assert {row.load.hour - HOUR for row in counts.unwritten(limit=9)} == {3, 4}


def test_what_changes_during_a_write_is_written_again() -> None:
    counts = LoadCounts(SeededRandomness())
    counts.placed(SHOP, MINUTE, 1)
    under_way = counts.unwritten(limit=9)
    counts.placed(SHOP, MINUTE, 1)
    counts.written(under_way)
    assert [row.load.loads[0] for row in counts.unwritten(limit=9)] == [2, 2]
    counts.written(counts.unwritten(limit=9))
    assert counts.unwritten(limit=9) == []


def test_others_rows_are_known_of_hot_hours_once_they_were_heard() -> None:
    counts = LoadCounts(SeededRandomness())
    counts.placed(SHOP, MINUTE + 3, HOT_ROWS - 1)
    counts.placed(BANK, MINUTE, 1)
    assert counts.hot() == []
    counts.placed(SHOP, MINUTE + 3, 1)
    assert counts.hot() == [(SHOP, HOUR)]
    own = next(row.load for row in counts.unwritten(limit=9) if row.client_id == SHOP)
    other = HourLoad(Hour(HOUR), UUID(int=9), (0, 0, 0, 1000, 5, *[0] * 55))
    elsewhere = other._replace(hour=Hour(HOUR + 1))
    counts.heard(SHOP, Hour(HOUR), [own, other, other._replace(writer=UUID(int=8)), elsewhere])
    assert [counts.known(SHOP, MINUTE + at) for at in (2, 3, 4)] == [0, 2000 + HOT_ROWS, 10]
    counts.placed(SHOP, MINUTE + 4, 1)
    assert counts.known(SHOP, MINUTE + 4) == 11
    assert counts.known(SHOP, MINUTE - 1) == 0


def test_the_nearest_freer_minute_of_a_full_one() -> None:
    counts = LoadCounts(SeededRandomness())
    for minute in range(MINUTE + 100, MINUTE + 104):
        counts.placed(SHOP, minute, 1_000)
    full = MINUTE + 101
    assert counts.beyond(SHOP, full, guaranteed=1_000, first=0) is None
    counts.placed(SHOP, full, 1)
    assert counts.beyond(SHOP, full, guaranteed=1_000, first=0) == (1_001, 1_000, MINUTE + 99)
    assert counts.beyond(SHOP, full, guaranteed=1_000, first=MINUTE + 100) == (1_001, 1_000, MINUTE + 104), "not past"
    assert counts.beyond(SHOP, full, guaranteed=1_001, first=0) is None
    counts.placed(SHOP, MINUTE + 104, 999)
    assert counts.beyond(SHOP, full, guaranteed=1_000, first=MINUTE + 100) == (1_001, 1_000, MINUTE + 104)
    counts.placed(SHOP, MINUTE + 104, 1)
    assert counts.beyond(SHOP, full, guaranteed=1_000, first=MINUTE + 100) == (1_001, 1_000, MINUTE + 105)
    for minute in range(MINUTE - 100, MINUTE + 300):
        counts.placed(SHOP, minute, 1_000)
    assert counts.beyond(SHOP, full, guaranteed=1_000, first=0) == (2_001, 1_000, None)
    assert counts.beyond(SHOP, full, guaranteed=1_000, first=0) == (2_001, 1_000, None)
    counts.placed(SHOP, MINUTE + 110, -1_500)
    counts.forget(Hour(HOUR))
    assert counts.beyond(SHOP, full, guaranteed=1_000, first=0) == (2_001, 1_000, MINUTE + 110)


def test_a_sum_below_nothing_is_nothing_and_the_ends_are_included() -> None:
    loads = (4, -2, 3, *[0] * 56, 6)
    hours = [HourLoad(Hour(HOUR), UUID(int=1), loads), HourLoad(Hour(HOUR + 1), UUID(int=1), loads)]
    found = loads_of(hours, first=Minute(MINUTE + 1), last=Minute(MINUTE + 60))
    assert found == {MINUTE + 2: 3, MINUTE + 59: 6, MINUTE + 60: 4}
    assert loads_of([*hours, hours[0]._replace(loads=(-4, *[0] * 59))], first=EVERY[0], last=Minute(MINUTE + 2)) == {
        MINUTE + 2: 3
    }


def test_a_request_for_each_day_in_utc() -> None:
    noon = Minute(24 * 60 * 1_000 + 12 * 60)
    assert list(days_of(noon, noon)) == [(24_012, 24_012)]
    assert list(days_of(noon, Minute(noon + 12 * 60))) == [(24_012, 24_023), (24_024, 24_024)]
    assert len(list(days_of(noon, Minute(noon + 10_079)))) == 8
