"""The meaning of `schedules`' columns, and of the parts of a schedule_id, as in the domain.

The layout of ids is that of `scheduler_service.domain.ids`. The connector returns a UUID as text:
xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx. Its first twelve digits are the due; the three digits after the version and four
bits after the variant are the poller.
"""

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cql.packed import FORM, LENGTH_BYTES, TEXTS, UNREADABLE
from scheduler_service.domain.schedules import Kind, State

DELIVERY = ("attempts", "first_attempt_at", "last_status", "fired_epoch", "fired_by")
"""The columns that the cell `delivery` may replace, in its order (`cql.packed`)."""
CONTENT = ("method", "url", "headers", "options", "body")
"""Those that the cells `content` and `revised` may replace."""
PACKED = ("delivery", "content", "revised", "revision")
"""The cells that replace columns, or parts of them."""
UNSET = ("kind", "attempt_base")
"""Columns that are not set on most rows, where the default applies."""
_HEAD_BYTES = 1 + TEXTS * LENGTH_BYTES
ENDED = tuple(state.value for state in State if state.ended)


def is_accepted(kind: Column, created_at: Column) -> Column:
    """Whether a row is a schedule: defined, and no retry row."""
    return created_at.isNotNull() & F.coalesce(kind != F.lit(Kind.RETRY_ROW.value), F.lit(True))


def in_state(state: Column, *states: State) -> Column:
    """Whether the row is in one of these states. A null state is `scheduled`."""
    return F.coalesce(state, F.lit(State.SCHEDULED.value)).isin([one.value for one in states])


def lateness_ms(due: Column, first_attempt_at: Column) -> Column:
    """Lateness of the first attempt; null where there was none."""
    # `greatest` ignores nulls, so without a check a row without attempts would count as punctual.
    late = F.greatest(F.unix_millis(first_attempt_at) - F.unix_millis(due), F.lit(0))
    return F.when(first_attempt_at.isNotNull(), late)


def packed_in(columns: Iterable[str]) -> tuple[str, ...]:
    """The columns that `unpacked` needs beside these."""
    wanted = {*columns}
    needed = (
        *(("attempts", "delivery") if wanted.intersection(DELIVERY) else ()),
        *(("content", "revised") if wanted.intersection(CONTENT) else ()),
        *(("revision",) if "label" in wanted else ()),
        *(("created_at",) if wanted.intersection(UNSET) else ()),
    )
    return tuple(name for name in needed if name not in wanted)


def unpacked(rows: DataFrame) -> DataFrame:
    """The rows without the packed cells, whose values are in the columns that they replace (`cql.packed`, and
    `domain.revisions`). `rows` must have what `packed_in` names for its other columns."""
    meant: dict[str, Column] = {}
    if "delivery" in rows.columns:
        meant |= _of_delivery()
    if "content" in rows.columns:
        meant |= _of_content()
    if "revision" in rows.columns:
        told = F.split("revision", " ", 3)
        meant["label"] = F.when(F.col("revision").isNull(), F.col("label")).otherwise(F.get(told, F.lit(2)))
    if "created_at" in rows.columns:
        defined = F.col("created_at").isNotNull()
        meant["kind"] = F.coalesce("kind", F.when(defined, F.lit(Kind.CALL.value)))
        meant["attempt_base"] = F.coalesce("attempt_base", F.when(defined, F.lit(0)))
    kept = [name for name in rows.columns if name not in PACKED]
    return rows.select(*(meant[name].alias(name) if name in meant else F.col(name) for name in kept))


def _of_delivery() -> dict[str, Column]:
    said = F.split("delivery", " ", len(DELIVERY))
    return {
        "attempts": F.coalesce("attempts", said[0].cast("int")),
        "first_attempt_at": F.coalesce("first_attempt_at", F.timestamp_millis(said[1].cast("long"))),
        "last_status": F.when(F.col("attempts").isNull(), _status(said[2])).otherwise(F.col("last_status")),
        "fired_epoch": F.coalesce("fired_epoch", said[3].cast("long")),
        "fired_by": F.coalesce("fired_by", said[4]),
    }


def _status(text: Column) -> Column:
    return F.when(~text.startswith("0"), text.cast("int"))


def _of_content() -> dict[str, Column]:
    content = F.coalesce("revised", "content")
    form, *lengths = (
        F.conv(F.hex(F.substring(content, at, width)), 16, 10).cast("long")
        for at, width in ((1, 1), *((2 + LENGTH_BYTES * text, LENGTH_BYTES) for text in range(TEXTS)))
    )
    meant: dict[str, Column] = {}
    start: Column = F.lit(_HEAD_BYTES)
    for name, length in zip(CONTENT, lengths, strict=False):
        meant[name] = F.decode(content.substr((start + 1).cast("int"), length.cast("int")), "UTF-8")
        start = start + length
    meant["body"] = content.substr((start + 1).cast("int"), F.octet_length(content))
    texts = content.substr(F.lit(_HEAD_BYTES + 1), (start - _HEAD_BYTES).cast("int"))
    # For invalid UTF-8 `decode` substitutes characters, whereas all other programs refuse it; so it is checked.
    readable = (
        (form == FORM) & (start <= F.octet_length(content)) & (F.encode(F.decode(texts, "UTF-8"), "UTF-8") == texts)
    )
    unreadable = {"headers": F.lit(UNREADABLE), "options": F.lit(UNREADABLE), "body": content}
    return {
        name: F.when(content.isNull(), F.col(name))
        .when(F.coalesce(readable, F.lit(False)), column)
        .otherwise(unreadable.get(name, F.lit(None)))
        for name, column in meant.items()
    }


def how_many(condition: Column) -> Column:
    """An aggregate: the number of rows for which it holds."""
    return F.count(F.when(condition, F.lit(1)))


def due_of(schedule_id: Column) -> Column:
    """The instant that the id names."""
    return F.timestamp_millis(_number(F.concat(F.substring(schedule_id, 1, 8), F.substring(schedule_id, 10, 4))))


def poller_of(schedule_id: Column) -> Column:
    """The poller that the id names."""
    high, low = _number(F.substring(schedule_id, 16, 3)), _number(F.substring(schedule_id, 20, 2))
    return (F.shiftleft(high, 4) + F.shiftright(low, 2).bitwiseAND(F.lit(0xF))).cast("int")


def _number(digits: Column) -> Column:
    return F.conv(digits, 16, 10).cast("long")
