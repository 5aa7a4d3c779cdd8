"""Figures of several nodes, added up and read."""

from scheduler_service.domain.call_figures import (
    LATENESS_BOUNDS,
    CallFigures,
    ClientCalls,
    busiest,
    late_at_most,
    merged,
)


def figures(*late: tuple[float, int], **values: object) -> CallFigures:
    counts = [0] * (len(LATENESS_BOUNDS) + 1)
    for bound, calls in late:
        counts[LATENESS_BOUNDS.index(bound)] = calls
    return CallFigures(lateness=tuple(counts), **values)  # type: ignore[arg-type]


def test_nodes_are_added_up() -> None:
    one = figures((0.01, 3), per_second=1.5, ends={"delivered": 3}, clients={"shop": ClientCalls(3, 0.03, 1)})
    other = figures((0.01, 1), (1.0, 1), per_second=2.0, ends={"failed": 1}, clients={"shop": ClientCalls(2, 1.0, 4)})
    both = merged([one, other, CallFigures()])
    assert both.per_second == 3.5
    assert both.calls == 5
    assert both.ends == {"delivered": 3, "failed": 1}
    assert both.clients == {"shop": ClientCalls(5, 1.03, 5)}


def test_a_node_that_counts_in_other_bounds_is_left_out() -> None:
    assert merged([CallFigures(per_second=9.0, lateness=(1, 2))]) == CallFigures()


def test_how_late_a_part_of_the_calls_began() -> None:
    lateness = figures((0.005, 98), (0.5, 1), (10.0, 1)).lateness
    assert [late_at_most(lateness, part) for part in (0.5, 0.98, 0.99, 1.0)] == [0.005, 0.005, 0.5, 10.0]
    assert late_at_most(CallFigures().lateness, 0.99) is None
    beyond = (*[0] * len(LATENESS_BOUNDS), 1)
    assert late_at_most(beyond, 0.5) is None


def test_the_busiest_come_first_and_others_are_no_client() -> None:
    clients = {
        "a": ClientCalls(1),
        "b": ClientCalls(5),
        "other": ClientCalls(9),
        "c": ClientCalls(5),
        "d": ClientCalls(),
    }
    assert [name for name, _ in busiest(clients, most=3)] == ["b", "c", "a"]
