"""What waits in group commit: submissions, cut into parts by partition, in a queue for each partition.

submission ─cut─▶ parts ─one queue a partition─▶ requests ─each part ends─▶ answered with its last part
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

from cql.connection import Item
from membership.errors import MinutehandError
from scheduler_service.domain.ids import Partition


class Submission:
    """One call's rows: answered when the last request that carries a part of them has ended."""

    __slots__ = ("_answer", "_waiter", "began", "crash", "errors", "over", "parts", "size")

    def __init__(
        self,
        count: int,
        size: int,
        answer: "Callable[[Submission], None]",
        *,
        began: float = 0.0,
        waiter: "asyncio.Future[Any] | None" = None,
    ) -> None:
        """`size`: bytes. `answer` is called once, unless the submission is given up before, and must not raise.
        `began`: monotonic seconds. `waiter`: the caller's future; if it is cancelled the submission is given up."""
        self._answer = answer
        self._waiter = waiter
        self.size = size
        self.began = began
        self.errors: list[MinutehandError | None] = [None] * count
        self.crash: Exception | None = None
        """An unexpected exception, raised to the caller instead of the errors of single rows."""
        self.parts = 0
        self.over = False
        """Answered or given up."""

    @property
    def wanted(self) -> bool:
        """Whether the caller still waits for it."""
        return not self.over and (self._waiter is None or not self._waiter.done())

    def part_ended(self) -> None:
        self.parts -= 1
        if self.parts == 0 and self.wanted:
            self.over = True
            self._answer(self)


class Part:
    """Rows of one partition and one submission, no more than one request can carry."""

    __slots__ = ("ended", "partition", "positions", "rows", "size", "submission")

    def __init__(self, submission: Submission, partition: Partition) -> None:
        submission.parts += 1
        self.submission = submission
        self.partition = partition
        self.rows: list[Item] = []
        self.positions: list[int] = []
        self.size = 0
        self.ended = False

    def add(self, row: Item, position: int, size: int) -> None:
        self.rows.append(row)
        self.positions.append(position)
        self.size += size

    @property
    def wanted(self) -> bool:
        """Whether the caller still waits for it."""
        return not self.ended and self.submission.wanted

    def halves(self) -> "tuple[Part, Part]":
        """Replace it by two parts, which are sent at once: their `size` stays 0, as only queues count it."""
        self.ended = True
        submission, middle = self.submission, len(self.rows) // 2
        submission.parts -= 1
        first, second = Part(submission, self.partition), Part(submission, self.partition)
        first.rows, second.rows = self.rows[:middle], self.rows[middle:]
        first.positions, second.positions = self.positions[:middle], self.positions[middle:]
        return first, second

    def end(self, error: Exception | None = None) -> None:
        """End all rows. Each gets a separate error object, since a raised exception collects its raiser's traceback."""
        if self.ended:
            return
        self.ended = True
        submission = self.submission
        if isinstance(error, MinutehandError):
            for position in self.positions:
                submission.errors[position] = type(error)(*error.args)
        elif error is not None:
            submission.crash = error
        submission.part_ended()


@dataclass(slots=True, eq=False)
class Queue:
    """The parts that wait for one partition. Queues with equal replicas may share a request."""

    replicas: Hashable = None
    parts: list[Part] = field(default_factory=list)
    rows: int = 0
    size: int = 0

    def add(self, part: Part) -> None:
        self.parts.append(part)
        self.rows += len(part.rows)
        self.size += part.size


def end_all(parts: Iterable[Part], error: Exception | None = None) -> None:
    for part in parts:
        part.end(error)
