"""The protocol of own keys holds in every order of its steps; without one of its rules it does not."""

import pytest

from tests.models.schedule_keys import Model

PLANTS = ("unannounced", "unordered", "unfollowed", "uncompleted", "unconditional")


@pytest.mark.parametrize("verbs", [("put", "put"), ("put", "delete"), ("put", "put", "delete")], ids=" ".join)
@pytest.mark.parametrize("made", [False, True], ids=["new", "made"])
def test_at_most_one_schedule_of_a_key_is_open(verbs: tuple[str, ...], made: bool) -> None:
    states, violation = Model(verbs, made=made).walk()
    assert violation is None
    assert states > 100


@pytest.mark.parametrize("plant", PLANTS)
def test_each_rule_is_needed(plant: str) -> None:
    _, violation = Model(("put", "put", "put"), [plant], made=True).walk()
    assert violation is not None
    assert violation[-1].startswith("two are open")
