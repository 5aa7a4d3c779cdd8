"""Warms Cassandra's JVM up before anything is measured, so that it has compiled its most frequent code.

    a third of the time     creates, one a request; what they create is called in the two thirds that follow
    a third                 creates, 1,000 a request, while those calls are made
    a third                 creates with an Idempotency-Key, each a conditional write, while those calls are made

Without it the first phases would measure the compiler: one kind of write cost Cassandra 0.216 CPU seconds per 1,000 at
first and 0.05 to 0.07 later.
"""

from tests.bench.phases import HOUR_MS, Bench, now_ms

STARTING_MS = 2_000
"""The time in which the load generator starts, when nothing is to be due."""


def warm_up(bench: Bench, *, seconds: float) -> None:
    """Warm up for so many seconds, a little longer if they are very few."""
    third = seconds / 3
    began = now_ms()
    first = began + round(third * 1000) + STARTING_MS
    end = max(began + round(seconds * 1000), first + 1000)
    created = bench.load(connections=64, seconds=third, due_from=first, due_to=end)["created"]
    later = now_ms() + HOUR_MS
    bench.load(connections=8, batch=1000, seconds=third, due_from=later, due_to=later + HOUR_MS)
    bench.load(connections=64, keyed=True, seconds=third, due_from=later, due_to=later + HOUR_MS)
    bench.await_arrivals(created, end)
    bench.receiver.forget()
