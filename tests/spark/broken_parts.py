"""A task of a bulk load that dies half-way, as with a lost executor. The module is imported by tasks in other
processes.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

from pyspark import TaskContext

from spark.jobs.bulk_executor import Part, Work, load_part


class Died(Exception):
    """The planned failure."""


def dying_part(work: Work, rows: Iterable[bytes]) -> Iterator[Part]:
    """Load only some rows of the second piece, and die without an answer."""
    context = TaskContext.get()
    assert context is not None
    if context.partitionId() == 1:
        list(load_part(work, list(islice(rows, 5))))
        raise Died("the executor is gone")
    yield from load_part(work, rows)
