"""The background budget's pace follows storage's answers. Pure."""

from poller_cluster.background_budget import WINDOW_SECONDS, BackgroundPace
from poller_cluster.settings import BackgroundSettings

SLOTS = 16
SLOW_MS = 250
LONGEST = 5.0


class Paced:
    """A pace and its clock; a window is so many requests of one kind, ended by the first of another."""

    def __init__(self) -> None:
        self.now = 100.0
        settings = BackgroundSettings(requests_at_once=SLOTS, slow_ms=SLOW_MS, longest_pause_seconds=LONGEST)
        self.pace = BackgroundPace(settings, now=self.now)

    def window(self, *, good: int = 100, slow: int = 0, unanswered: int = 0) -> None:
        self.now += WINDOW_SECONDS
        changed = [
            self.pace.observe(seconds, answered=answered, now=self.now - (0.1 if number else 0.0))
            for number, (seconds, answered) in reversed(
                list(enumerate([(0.002, True)] * good + [(0.3, True)] * slow + [(2.0, False)] * unanswered))
            )
        ]
        assert changed == [False] * (len(changed) - 1) + [True]

    def windows(self, count: int, *, good: int = 100, slow: int = 0, unanswered: int = 0) -> None:
        for _ in range(count):
            self.window(good=good, slow=slow, unanswered=unanswered)


def test_it_begins_with_a_part_and_grows_by_one_slot_a_window() -> None:
    paced = Paced()
    assert paced.pace.size == SLOTS // 4
    paced.windows(3)
    assert paced.pace.size == SLOTS // 4 + 3
    paced.windows(SLOTS)
    assert (paced.pace.size, paced.pace.pause_seconds, paced.pace.shrunk) == (SLOTS, 0.0, 0)


def test_requests_without_an_answer_halve_it_then_stretch_its_pauses_up_to_a_bound() -> None:
    paced = Paced()
    paced.windows(SLOTS)
    sizes, pauses = [], []
    for _ in range(12):
        paced.window(unanswered=5)
        sizes.append(paced.pace.size)
        pauses.append(paced.pace.pause_seconds)
    assert sizes == [8, 4, 2] + [1] * 9
    assert pauses == [0, 0, 0, 0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, LONGEST, LONGEST]


def test_slow_answers_leave_one_slot_without_pauses() -> None:
    paced = Paced()
    paced.windows(SLOTS)
    paced.window(slow=5)
    assert paced.pace.size == SLOTS * 3 // 4
    paced.windows(20, slow=5)
    assert (paced.pace.size, paced.pace.pause_seconds) == (1, 0.0)


def test_one_bad_answer_in_a_hundred_is_borne() -> None:
    paced = Paced()
    paced.windows(SLOTS)
    paced.windows(10, good=198, slow=1, unanswered=1)
    assert paced.pace.size == SLOTS
    paced.window(good=197, slow=2, unanswered=1)
    assert paced.pace.size < SLOTS


def test_it_recovers_when_storage_does() -> None:
    paced = Paced()
    paced.windows(30, good=0, unanswered=3)
    assert (paced.pace.size, paced.pace.pause_seconds) == (1, LONGEST)
    windows = 0
    while paced.pace.pause_seconds or paced.pace.size < SLOTS:
        paced.window(good=1)
        windows += 1
    assert windows * WINDOW_SECONDS < 12
