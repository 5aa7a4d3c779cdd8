"""Metrics of the busiest names only, which bounds the number of labels, however many clients there are.

A name is counted under its own label while it is among the busiest, otherwise under `other`. The first names get labels
until all are used. From then on, once every `RANK_SECONDS` at most, a name with more than `HYSTERESIS` times the
traffic of the least busy labelled one takes its place. Ties go to the name that sorts first, and traffic of earlier
periods counts half as much each time, so equal names don't alternate.

Every event is counted once, under the label at that moment, so rates and increases are right in sum. A name that loses
its label keeps its series, unchanged. As many of these are kept as there are labels, those that lost theirs last, and a
name that returns continues its series. So at most twice as many labels are shown, and `other`.

An event costs 0.1 µs (`account`, then two additions; `tests/bench/counting.py`).
"""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

OTHER: Final = "other"
RANK_SECONDS: Final = 60.0
HYSTERESIS: Final = 2.0

T = TypeVar("T")


class _Name(Generic[T]):
    __slots__ = ("labelled", "recent", "series")

    def __init__(self, series: T, *, labelled: bool) -> None:
        self.series = series
        self.labelled = labelled
        self.recent = 0.0


class Busiest(Generic[T]):
    """`new` makes the counters of one label; the caller of `account` adds to them."""

    def __init__(self, *, most: int, new: Callable[[], T]) -> None:
        self._most = most
        self._new = new
        self._names: dict[str, _Name[T]] = {}
        self._free = most
        self._fallen: dict[str, T] = {}
        self._other = new()
        self._ranked_at: float | None = None

    def account(self, name: str) -> T:
        """The counters for an event of this name. Don't keep them: the next event may have others."""
        one = self._names.get(name)
        if one is None:
            one = self._names[name] = self._met(name)
        one.recent += 1.0
        return one.series

    def label(self, name: str) -> str:
        """The label under which the name is counted now."""
        one = self._names.get(name)
        return name if one is not None and one.labelled else OTHER

    def shown(self, now: float) -> dict[str, T]:
        """The counters by label, after a new ranking if one is due. `now` is in monotonic seconds."""
        if self._ranked_at is None:
            self._ranked_at = now
        elif now - self._ranked_at >= RANK_SECONDS:
            self._ranked_at = now
            self._rank()
        labelled = {name: one.series for name, one in self._names.items() if one.labelled}
        return {**self._fallen, **labelled, OTHER: self._other}

    def _met(self, name: str) -> _Name[T]:
        if self._free == 0 or name == OTHER:
            return _Name(self._other, labelled=False)
        self._free -= 1
        return _Name(self._new(), labelled=True)

    def _rank(self) -> None:
        inside = sorted((one.recent, name) for name, one in self._names.items() if one.labelled)
        outside = sorted((-one.recent, name) for name, one in self._names.items() if not one.labelled and name != OTHER)
        for (weakest, leaver), (strongest, comer) in zip(inside, outside, strict=False):
            if -strongest <= HYSTERESIS * weakest:
                break
            self._swap(leaver, comer)
        for name, one in list(self._names.items()):
            one.recent /= 2
            if not one.labelled and one.recent < 1.0:
                del self._names[name]

    def _swap(self, leaver: str, comer: str) -> None:
        left, came = self._names[leaver], self._names[comer]
        self._fallen[leaver] = left.series
        left.series, left.labelled = self._other, False
        came.series, came.labelled = self._fallen.pop(comer, None) or self._new(), True
        while len(self._fallen) > self._most:
            del self._fallen[next(iter(self._fallen))]
