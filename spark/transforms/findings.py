"""Violations of invariants that raw rows show.

    doubled-fire                another schedule of the same cron for the same instant, and neither was withdrawn
    stranded                    no outcome, and the minute is settled: it would never be called
    lost-outcome                the same, and the books count it as ended: it has lost its outcome
    undefined                   an outcome, and no definition
    unknown-state               a state that no program writes
    misplaced                   its id names another partition
    pointer-without-retry-row   names a retry row that does not exist
    pointer-left-behind         names a retry row that has ended, or points on, and does not follow it
    retry-row-without-pointer   a retry row that waits, and its schedule does not name it
    wrong-balance               the stored balance differs from the rows that it was counted from
    unindexed                   a partition with rows that is not in the index of occupied minutes
    overdue-cron                should have been expanded long ago

A row has one finding at most. What is wrong in a settled minute may exist for a moment in one that is not settled, so
`rows` have a column `settled`, and rows of unsettled minutes are checked only for what is wrong anywhere: ids, states,
and fires that exist twice.
"""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from scheduler_service.domain.acknowledgements import AWAITING
from scheduler_service.domain.schedules import Kind, State
from spark.transforms.rows import ENDED, due_of, is_accepted, poller_of

COLUMNS = ("client_id", "poller_id", "minute", "due", "schedule_id", "kind", "detail")
"""A finding: the row (null where it is about a partition or a cron), its kind, and a sentence."""
READS = ("kind", "created_at", "state", "reason", "next_attempt_at", "origin_due", "cron_id", "nominal_due")
"""The columns of `schedules` that the findings need beside the key."""
ROW = ("client_id", "poller_id", "minute", "due", "schedule_id")
POINTER, WAITING, UNDEFINED, LOST = "pointer", "waiting", "undefined", "stranded"
"""Suspicions of rows that have to be compared with others: a schedule that names a retry row, a retry row that waits,
an outcome without a definition. LOST is a finding by itself."""

_NULLS = {"minute": "timestamp", "due": "timestamp", "schedule_id": "string"}


def suspects(rows: DataFrame) -> DataFrame:
    """The rows that are wrong by themselves, or may be wrong in comparison with others: `rows`' columns and
    `suspicion`, the kind of the finding except for POINTER, WAITING and UNDEFINED."""
    defined, settled, state = F.col("created_at").isNotNull(), F.col("settled"), F.col("state")
    retry_row = F.coalesce(F.col("kind") == Kind.RETRY_ROW.value, F.lit(False))
    named = F.when(retry_row, F.col("origin_due")).otherwise(F.col("due"))
    elsewhere = (
        (poller_of(F.col("schedule_id")) != F.col("poller_id"))
        | (F.date_trunc("minute", "due") != F.col("minute"))
        | (defined & ~due_of(F.col("schedule_id")).eqNullSafe(named))
    )
    suspicion = (
        F.when(state.isNotNull() & ~state.isin(*ENDED, State.RETRYING.value), "unknown-state")
        .when(elsewhere, "misplaced")
        .when(settled & ~defined & state.isNotNull(), UNDEFINED)
        .when(settled & defined & state.isNull(), F.when(retry_row, WAITING).otherwise(LOST))
        .when(settled & (state == State.RETRYING.value) & ~retry_row, POINTER)
    )
    return rows.select(*rows.columns, suspicion.alias("suspicion")).where(F.col("suspicion").isNotNull())


def wrong_by_itself(suspects: DataFrame) -> DataFrame:
    """Unknown states, misplaced and stranded rows, and undefined ones that are no retry rows."""
    simple = ~F.col("suspicion").isin(POINTER, WAITING) & ((F.col("suspicion") != UNDEFINED) | is_call())
    detail = (
        F.when(F.col("suspicion") == "unknown-state", F.concat(F.lit("is in an unknown state: "), "state"))
        .when(F.col("suspicion") == "misplaced", F.lit("its id names another partition"))
        .when(F.col("suspicion") == UNDEFINED, F.concat(F.lit("is "), F.col("state"), F.lit(" and has no definition")))
        .otherwise(F.lit("has no outcome, and its minute is settled"))
    )
    return _findings(suspects.where(simple), F.col("suspicion"), detail)


def named_retry_rows(suspects: DataFrame) -> DataFrame:
    """The keys of the retry rows that schedules name."""
    at = F.col("next_attempt_at")
    pointers = suspects.where((F.col("suspicion") == POINTER) & at.isNotNull())
    return pointers.select("client_id", "poller_id", _minute(at), at.alias("due"), "schedule_id").distinct()


def unfollowed(suspects: DataFrame, retry_rows: DataFrame) -> DataFrame:
    """Schedules whose retry row is missing or has ended. `retry_rows`: the rows at `named_retry_rows`, with created_at,
    state and `settled`.

    A deadline that a receiver has put off has no row before the one that it was put off from has ended
    (`domain.acknowledgements`), so none is missed before it has passed."""
    there = retry_rows.select(
        "client_id",
        "schedule_id",
        F.col("due").alias("next_attempt_at"),
        F.col("created_at").alias("retry_created_at"),
        F.col("state").alias("retry_state"),
        F.col("settled").alias("retry_settled"),
    )
    pointers = suspects.where(F.col("suspicion") == POINTER)
    joined = pointers.join(there, ["client_id", "schedule_id", "next_attempt_at"], "left")
    missing = F.col("retry_created_at").isNull() & F.col("retry_state").isNull()
    over = F.col("retry_state").isNotNull() & F.col("retry_settled")
    postponed = F.col("reason").eqNullSafe(AWAITING) & (F.col("next_attempt_at") > F.current_timestamp())
    at = _told("next_attempt_at")
    detail = (
        F.when(F.col("next_attempt_at").isNull(), F.lit("is retrying and names no attempt"))
        .when(missing, F.concat(F.lit("names an attempt that does not exist, at "), at))
        .otherwise(F.concat(F.lit("names an attempt that is "), "retry_state", F.lit(", at "), at))
    )
    kind = F.when(missing, "pointer-without-retry-row").otherwise("pointer-left-behind")
    return _findings(joined.where((missing & ~F.coalesce(postponed, F.lit(False))) | over), kind, detail)


def named_originals(suspects: DataFrame) -> DataFrame:
    """The keys of the originals of waiting retry rows, and of undefined outcomes."""
    of = suspects.where(F.col("suspicion").isin(WAITING, UNDEFINED))
    due = due_of(F.col("schedule_id"))
    return of.select("client_id", "poller_id", _minute(due), due.alias("due"), "schedule_id").distinct()


def unpointed(suspects: DataFrame, originals: DataFrame) -> DataFrame:
    """Findings about waiting retry rows and undefined outcomes. `originals`: the rows at `named_originals`, with state
    and next_attempt_at.

    A waiting retry row is stranded if its schedule names it, and retry-row-without-pointer if not. An outcome without a
    definition is valid where the schedule has the same end: it was cancelled before its retry row was written."""
    known = originals.select(
        "client_id",
        "schedule_id",
        F.col("state").alias("original_state"),
        F.col("next_attempt_at").alias("original_next"),
    )
    of = suspects.where((F.col("suspicion") == WAITING) | ((F.col("suspicion") == UNDEFINED) & ~is_call()))
    joined = of.join(known, ["client_id", "schedule_id"], "left")
    retrying = F.col("original_state") == State.RETRYING.value
    names_it = F.coalesce(retrying & (F.col("original_next") == F.col("due")), F.lit(False))
    waits = F.col("suspicion") == WAITING
    same_end = F.coalesce(F.col("original_state") == F.col("state"), F.lit(False))
    kind = F.when(~waits, UNDEFINED).when(names_it, LOST).otherwise("retry-row-without-pointer")
    detail = (
        F.when(~waits, F.concat(F.lit("is "), F.col("state"), F.lit(" and has no definition")))
        .when(names_it, F.lit("has no outcome, and its minute is settled"))
        .otherwise(F.lit("waits, and its schedule does not name it"))
    )
    return _findings(joined.where(waits | (~same_end & ~names_it)), kind, detail)


def fires_of_crons(rows: DataFrame) -> DataFrame:
    """client_id, cron_id, nominal_due of fires that have more than one schedule which was not withdrawn."""
    return _fires(rows).groupBy("client_id", "cron_id", "nominal_due").count().where("count > 1").drop("count")


def fires_at(rows: DataFrame, doubled: DataFrame) -> DataFrame:
    """The rows of those fires: key, cron_id, nominal_due, and whether they wait."""
    again = _fires(rows).join(F.broadcast(doubled), ["client_id", "cron_id", "nominal_due"], "left_semi")
    return again.select(*ROW, "cron_id", "nominal_due", F.col("state").isNull().alias("waits"))


def doubled_fires(fires: DataFrame) -> DataFrame:
    """All of `fires_at` but one for each fire: the one with the lowest id, among those that were called if any was."""
    order = F.struct("waits", "schedule_id")
    first = fires.groupBy("client_id", "cron_id", "nominal_due").agg(F.min(order).alias("first"))
    again = fires.join(first, ["client_id", "cron_id", "nominal_due"])
    again = again.where(F.col("schedule_id") != F.col("first.schedule_id"))
    detail = F.concat(F.lit("is another fire of "), F.col("cron_id"), F.lit(" at "), _told("nominal_due"))
    return _findings(again, F.lit("doubled-fire"), detail)


def overdue_crons(crons: DataFrame, *, before: Column) -> DataFrame:
    """Crons whose wake-up was due before then."""
    lost = crons.where(F.col("wake_at") < before)
    detail = F.concat(F.col("cron_id"), F.lit(" was to be expanded at "), _told("wake_at"))
    return _findings(_without_row(lost, *_NULLS), F.lit("overdue-cron"), detail)


def unindexed(partitions: DataFrame) -> DataFrame:
    """Findings for partitions that have rows and are not in the index of occupied minutes: no list shows them."""
    detail = F.lit("has rows, and is not in the index of occupied minutes")
    return _findings(_without_row(partitions, "due", "schedule_id"), F.lit("unindexed"), detail)


def wrong_balances(differing: DataFrame) -> DataFrame:
    """Findings for `books.differing` without those that wrong rows explain (`books.explained`)."""
    told = [F.concat(F.lit(f"{name} "), F.to_json(name)) for name in ("rows", "balance")]
    return _findings(_without_row(differing, "due", "schedule_id"), F.lit("wrong-balance"), F.concat_ws(", ", *told))


def with_lost_outcomes(found: DataFrame, lost: DataFrame) -> DataFrame:
    """The same findings; where the books count every stranded row of a partition as ended (`books.lost`), those become
    lost-outcome."""
    key = ["client_id", "poller_id", "minute"]
    joined = found.join(lost.select(*key, F.lit(True).alias("lost")), key, "left")
    is_lost = F.coalesce(F.col("lost"), F.lit(False)) & (F.col("kind") == LOST) & is_call()
    return joined.select(
        *ROW,
        F.when(is_lost, "lost-outcome").otherwise(F.col("kind")).alias("kind"),
        F.when(is_lost, "has no outcome, but the books of its minute count one")
        .otherwise(F.col("detail"))
        .alias("detail"),
    )


def found_again(second: DataFrame, first: DataFrame) -> DataFrame:
    """The findings of the second look about things for which the first one had a finding too."""
    known = first.select(*(F.col(name).alias(f"first_{name}") for name in ROW)).distinct()
    same = reduce(Column.__and__, (F.col(name).eqNullSafe(F.col(f"first_{name}")) for name in ROW))
    return second.join(known, same, "left_semi").select(*COLUMNS)


def is_call() -> Column:
    """Whether a row is an original, at the due that its id names, and no retry row."""
    return due_of(F.col("schedule_id")) == F.col("due")


def every(findings: Sequence[DataFrame]) -> DataFrame:
    """All of them as one frame."""
    return reduce(DataFrame.unionByName, findings).select(*COLUMNS)


def _fires(rows: DataFrame) -> DataFrame:
    withdrawn = F.coalesce(F.col("state") == State.CANCELLED.value, F.lit(False))
    accepted = is_accepted(F.col("kind"), F.col("created_at"))
    return rows.where(F.col("cron_id").isNotNull() & F.col("nominal_due").isNotNull() & accepted & ~withdrawn)


def _without_row(frame: DataFrame, *missing: str) -> DataFrame:
    return frame.select("*", *(F.lit(None).cast(_NULLS[name]).alias(name) for name in missing))


def _findings(rows: DataFrame, kind: Column, detail: Column) -> DataFrame:
    return rows.select(*ROW, kind.alias("kind"), detail.alias("detail"))


def _minute(instant: Column) -> Column:
    return F.date_trunc("minute", instant).alias("minute")


def _told(instant: str) -> Column:
    return F.date_format(instant, "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
