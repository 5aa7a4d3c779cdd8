"""The sentence on the operator's first page."""

from typing import Any

from scheduler_service.console.cluster_pages import sentence_of

NODE = {"node_id": "a", "state": "live"}


def sentence(
    *, cluster: dict[str, Any] | None = None, rate: float = 0.0, overdue: int = 0
) -> tuple[str, str, str | None]:
    known = {"pollers": {"total": 3, "owned": 3}, "nodes": [NODE], "not_calling": None, **(cluster or {})}
    calls = {"per_second": rate, "late": [{"part": part, "seconds": 0.05} for part in (0.5, 0.9, 0.99, 1.0)]}
    return sentence_of(known, calls, [{"overdue": {"rows": overdue}}])


def test_the_worst_comes_first() -> None:
    assert sentence(cluster={"not_calling": "no node beats: start a node"}, overdue=5)[:1] == ("bad",)
    assert sentence(cluster={"nodes": [{"node_id": "a", "state": "draining"}]})[0] == "bad"
    tone, text, advice = sentence(cluster={"pollers": {"total": 3, "owned": 1}}, overdue=5)
    assert (tone, text) == ("warn", "2 of 3 pollers have no owner: their calls are late.")
    assert advice is not None
    assert sentence(overdue=1234)[:2] == ("warn", "1,234 calls are overdue.")


def test_it_says_how_many_calls_are_made_and_how_late() -> None:
    assert sentence(rate=1204.0) == ("good", "Calls are made: 1,204 a second, 99 % within 50 ms.", None)
    assert sentence()[1] == "Calls are made; none was due within the last minute."
