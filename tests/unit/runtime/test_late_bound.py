"""A reference to a part that is not built yet."""

import pytest

from scheduler_service.runtime.late_bound import LateBound


@pytest.mark.parametrize("part", ["a part", 0, None])
def test_it_is_what_it_was_bound_to(part: object) -> None:
    late = LateBound[object]("the part")
    assert late.bind(part) is part
    assert late() is part


def test_to_need_it_before_it_is_built_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="the part is needed before it is built"):
        LateBound[str]("the part")()
