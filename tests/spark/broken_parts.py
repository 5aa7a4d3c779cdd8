"""A task of a bulk load that dies half-way, as a lost executor would. Found by tasks in processes of their own."""

from collections.abc import Iterable, Iterator
from itertools import islice

from pyspark import TaskContext

from spark.jobs.bulk_executor import Part, Work, load_part


class Died(Exception):
    """On purpose."""


def dying_part(work: Work, rows: Iterable[bytes]) -> Iterator[Part]:
    """Of the second piece only some rows are loaded; nobody hears what became of them."""
    context = TaskContext.get()
    assert context is not None
    if context.partitionId() == 1:
        list(load_part(work, list(islice(rows, 5))))
        raise Died("the executor is gone")
    yield from load_part(work, rows)
