"""The protocol of clients' own keys holds in every order of its steps; without any one of its rules it does not."""

import pytest

from tests.models.schedule_keys import Model

PLANTS = (
    "unannounced",
    "unordered",
    "unbased",
    "uncounted",
    "behind",
    "unfollowed",
    "uncompleted",
    "unconditional",
)
VERBS = [
    ("put", "put"),
    ("put", "delete"),
    ("put", "put", "delete"),
    ("chosen", "chosen"),
    ("chosen", "chosen", "delete"),
    ("chosen", "chosen", "put"),
]


@pytest.mark.parametrize("verbs", VERBS, ids=" ".join)
@pytest.mark.parametrize("made", [False, True], ids=["new", "made"])
def test_at_most_one_schedule_of_a_key_is_open(verbs: tuple[str, ...], made: bool) -> None:
    states, violation = Model(verbs, made=made).walk()
    assert violation is None
    assert states > 100


@pytest.mark.parametrize("verbs", [("put", "put"), ("put", "delete"), ("chosen", "chosen")], ids=" ".join)
def test_every_order_is_right_where_keys_expire(verbs: tuple[str, ...]) -> None:
    states, violation = Model(verbs, made=True, forgets=True).walk()
    assert violation is None
    assert states > 5_000


@pytest.mark.parametrize("plant", PLANTS)
def test_each_rule_is_needed(plant: str) -> None:
    _, violation = Model(("put", "put", "put"), [plant], made=True, forgets=True).walk()
    assert violation is not None
    assert violation[-1].startswith("two are open")


@pytest.mark.parametrize("plant", ["unchanged", "early"])
def test_chosen_schedules_break_without_any_one_rule(plant: str) -> None:
    _, violation = Model(("chosen", "chosen", "put"), [plant], made=True).walk()
    assert violation is not None
    assert violation[-1] == "0 is made again"


@pytest.mark.parametrize("verbs", [("chosen", "chosen"), ("chosen", "chosen", "delete")], ids=" ".join)
def test_a_chosen_schedule_that_is_not_made_comes_with_a_repeat(verbs: tuple[str, ...]) -> None:
    _, violation = Model(verbs, ["unchanged"], made=True).walk()
    assert violation is not None
    assert violation[-1] == "0 is made again"
