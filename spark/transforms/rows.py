"""What the columns of `schedules` mean, as the domain says it."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from scheduler_service.domain.schedules import Kind, State

ENDED = tuple(state.value for state in State if state.ended)


def is_accepted(kind: Column, created_at: Column) -> Column:
    """Whether a row is somebody's schedule: defined, and no copy of one."""
    return created_at.isNotNull() & F.coalesce(kind != F.lit(Kind.COPY.value), F.lit(True))


def in_state(state: Column, *states: State) -> Column:
    """Whether the row is in one of them. `scheduled` is the absence of an outcome."""
    return F.coalesce(state, F.lit(State.SCHEDULED.value)).isin([one.value for one in states])


def lateness_ms(due: Column, first_attempt_at: Column) -> Column:
    """Of the first attempt; null where there was none."""
    # `greatest` passes over nulls, which would make no attempt a punctual one.
    late = F.greatest(F.unix_millis(first_attempt_at) - F.unix_millis(due), F.lit(0))
    return F.when(first_attempt_at.isNotNull(), late)


def how_many(condition: Column) -> Column:
    """An aggregate: the rows for which it holds."""
    return F.count(F.when(condition, F.lit(1)))
