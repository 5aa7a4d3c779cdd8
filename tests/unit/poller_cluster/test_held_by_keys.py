"""How many rows wait in memory for their ordering keys, and which of them are deferred instead."""

from poller_cluster.minute.admission import MinuteAdmission
from poller_cluster.minute.rows import Hold, PendingRow, PendingRows
from poller_cluster.settings import MinuteSettings
from scheduler_service.domain.schedules import Row, State
from tests.support.node_parts import GivenOrder, minute_context
from tests.unit.poller_cluster.builders import PARTITION, at, row
from tests.unit.poller_cluster.claimed import client

WINDOW = 300


class Held:
    """Rows of one minute, judged in turn by an admission that knows the order or does not."""

    def __init__(self) -> None:
        self.poller, settings = GivenOrder(known=False), MinuteSettings(window_rows=WINDOW)
        self.rows = PendingRows()
        self.admission = MinuteAdmission(
            client_id=PARTITION.client_id,
            minute=PARTITION.minute,
            poller=self.poller,
            settings=settings,
            context=minute_context(settings, clients=[client()]),
        )

    def judge(self, rows: list[Row], seconds: float = 0) -> None:
        for each in rows:
            self.admission.read(each)
            self.rows.add(each, redelivery=False)
        self.pick(seconds)

    def pick(self, seconds: float) -> None:
        self.rows.reconsider(self.admission, at(seconds))
        self.rows.pick(horizon=at(60), limit=10_000, judge=self.admission, now=at(seconds))

    def defer(self, rows: list[Row]) -> list[Row]:
        entries = [self.rows.get(each.key) for each in rows]
        ended = [entry for entry in entries if entry is not None and entry.outcome is not None]
        assert all(entry.outcome is not None and entry.outcome.state is State.RETRYING for entry in ended)
        return [entry.row for entry in ended]


def keyed(number: int, key: str, seconds: float = 5) -> Row:
    return row(seconds + number / 1000, number, ordering_key=key)


def test_the_first_row_of_every_key_is_held_behind_any_number_of_rows_of_another() -> None:
    held = Held()
    stuck = [keyed(number, "stuck") for number in range(1_000)]
    others = [keyed(1_000 + number, f"key-{number}") for number in range(500)]
    held.judge(stuck + others)
    assert held.defer(others) == []
    assert stuck[0] not in held.defer(stuck)


def test_one_key_leaves_room_for_rows_behind_the_first_of_others() -> None:
    held = Held()
    stuck = [keyed(number, "stuck") for number in range(1_000)]
    others = [keyed(1_000 + number, f"key-{number % 5}") for number in range(40)]
    held.judge(stuck + others)
    assert len(stuck) - len(held.defer(stuck)) == WINDOW // 3 // 2 + 1
    assert held.defer(others) == []


def test_first_rows_that_wait_for_a_long_recovery_leave_most_of_the_window_to_others() -> None:
    held = Held()
    rows = [keyed(number, f"key-{number}") for number in range(250)]
    held.judge(rows)
    held.pick(4)
    assert held.defer(rows) == []
    held.pick(7)
    assert len(held.defer(rows)) == 250 - WINDOW // 3
    held.pick(8)
    assert len(held.defer(rows)) == 250 - WINDOW // 3


def test_a_held_row_says_what_it_waits_for() -> None:
    held = Held()
    one = keyed(1, "key")
    verdict = held.admission.judge(PendingRow(one, redelivery=False), at(0))
    assert isinstance(verdict, Hold)
    assert verdict.queue == ("key", "key")
