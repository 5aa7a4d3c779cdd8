"""A reference to a part that is not built yet."""

import pytest

from scheduler_service.runtime.late_bound import LateBound


@pytest.mark.parametrize("part", ["a part", 0, None])
def test_a_late_bound_reference_returns_its_part(part: object) -> None:
    late = LateBound[object]("the part")
    assert late.bind(part) is part
    assert late() is part


def test_an_unbound_reference_raises() -> None:
    with pytest.raises(RuntimeError, match="the part is needed before it is built"):
        LateBound[str]("the part")()
