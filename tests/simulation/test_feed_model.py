"""A reader of a feed misses no end in any order of the steps of owners, storage and reader; without any one rule it
does."""

from typing import Any

import pytest

from tests.models.feed import Model


@pytest.mark.parametrize(
    "size",
    [
        {"rows": 3, "owners": 1, "size": 1},
        {"rows": 3, "owners": 1, "size": 2},
        {"rows": 1, "owners": 2, "size": 1},
        pytest.param({"rows": 2, "owners": 2, "size": 2}, marks=pytest.mark.cpu_budget(120)),
        pytest.param({"rows": 1, "owners": 2, "size": 1, "hinted": True}, marks=pytest.mark.cpu_budget(400)),
    ],
    ids=str,
)
def test_a_reader_misses_nothing(size: dict[str, Any]) -> None:
    states, violation = Model(**size).walk()
    assert violation is None
    assert states > 1_000


@pytest.mark.parametrize(
    ("plant", "size"),
    [
        ("early-settle", {"rows": 1, "owners": 1, "size": 1}),
        ("unread-end", {"rows": 2, "owners": 1, "size": 1}),
        ("late-block", {"rows": 2, "owners": 1, "size": 1}),
        ("gaps", {"rows": 2, "owners": 1, "size": 2}),
        ("unserial", {"rows": 2, "owners": 1, "size": 2}),
        ("hasty", {"rows": 3, "owners": 1, "size": 1}),
        ("hasty", {"rows": 2, "owners": 2, "size": 1}),
        ("early-mark", {"rows": 1, "owners": 2, "size": 1, "hinted": True}),
        pytest.param(
            "unverified", {"rows": 1, "owners": 2, "size": 1, "hinted": True}, marks=pytest.mark.cpu_budget(60)
        ),
    ],
    ids=str,
)
def test_each_rule_is_needed(plant: str, size: dict[str, Any]) -> None:
    _, violation = Model(**size, plants=[plant]).walk()
    assert violation is not None
    assert violation[-1] == "a row is missed"
