"""Words of receivers hold in every order of the steps; without any one of their rules they do not."""

import pytest

from tests.models.acknowledgements import DONE, EXTEND, FAIL, Model

ENDLESS, LOST, STALE = "never ended", "a word is lost", "a stale word counts"
PLANTS = {
    "unfenced": (DONE, STALE),
    "untested": (DONE, STALE),
    "blind": (DONE, "called after its end"),
    "unfollowed": (EXTEND, ENDLESS),
    "silent": (DONE, ENDLESS),
    "early": (DONE, LOST),
    "caller": (DONE, "called while a word is awaited"),
}


@pytest.mark.parametrize("said", [DONE, FAIL, EXTEND])
def test_what_was_taken_counts_and_the_schedule_ends_once(said: str) -> None:
    states, violation = Model((said,)).walk()
    assert violation is None
    assert states > 10_000


@pytest.mark.parametrize("plant", PLANTS)
def test_each_rule_is_needed(plant: str) -> None:
    said, wrong = PLANTS[plant]
    _, violation = Model((said,), [plant]).walk()
    assert violation is not None
    assert violation[-1] == wrong


@pytest.mark.parametrize("said", [DONE, FAIL, EXTEND])
def test_of_a_cancel_and_a_word_one_counts(said: str) -> None:
    states, violation = Model((said,), deaths=0, cancels=True).walk()
    assert violation is None
    assert states > 1_000


def test_a_cancel_must_leave_alone_what_was_said_to_be_done() -> None:
    _, violation = Model((DONE,), ["hasty"], deaths=0, cancels=True).walk()
    assert violation is not None
    assert violation[-1] == LOST
