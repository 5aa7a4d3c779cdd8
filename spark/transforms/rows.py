"""What the columns of `schedules` mean, as the domain says it."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from scheduler_service.domain.schedules import Kind, State

PACKED = ("attempts", "first_attempt_at", "last_status", "fired_epoch", "fired_by")
"""The columns that `delivery` may say instead, in its order (`cql.schedule_rows`)."""
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


def unpacked(rows: DataFrame) -> DataFrame:
    """The rows without `delivery`, with what it says in the columns that it stands for, as far as they were read.
    `rows` has `attempts` too."""
    said = F.split("delivery", " ", len(PACKED))
    meant = {
        "attempts": F.coalesce("attempts", said[0].cast("int")),
        "first_attempt_at": F.coalesce("first_attempt_at", F.timestamp_millis(said[1].cast("long"))),
        "last_status": F.when(F.col("attempts").isNull(), said[2].cast("int")).otherwise(F.col("last_status")),
        "fired_epoch": F.coalesce("fired_epoch", said[3].cast("long")),
        "fired_by": F.coalesce("fired_by", said[4]),
    }
    kept = [name for name in rows.columns if name != "delivery"]
    return rows.select(*(meant[name].alias(name) if name in meant else F.col(name) for name in kept))


def how_many(condition: Column) -> Column:
    """An aggregate: the rows for which it holds."""
    return F.count(F.when(condition, F.lit(1)))
