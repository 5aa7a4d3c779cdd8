"""The input of a bulk load as a frame, in any format. Only the columns are checked here.

    file, block     where a row is read from, and `id`: ascending within a block
    key             text, null where there is none
    due             an instant to sort by; null where Spark can't read it, which says nothing about the row
    row             the request, as JSON of the flat columns (Parquet, CSV), or the line itself (JSON lines)
    broken          why the row can't be read at all

Flat columns are named as in a create, without the nesting: see `FLAT`. Rows with a `due_local` have no instant to sort
by. CSV is UTF-8 with a header, quoted as in RFC 4180; quoted text may span lines. An empty cell means that the column
is not given.
"""

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from scheduler_service.usecases.bulk_load import NOT_LOADED

FORMATS = ("parquet", "csv", "jsonl")
TEXTS = ("due", "due_local", "due_timezone", "due_gap", "due_fold", "url", "destination", "path", "method", "headers",
         "body", "json", "body_base64", "label", "ordering_key", "flow_key")  # fmt: skip
NUMBERS = ("window_seconds", "timeout_seconds", "skip_after_seconds", "retry_max_attempts", "retry_base_seconds",
           "retry_cap_seconds", "retry_deadline_seconds", "flow_rate", "flow_parallelism")  # fmt: skip
FLAT = (*TEXTS, *NUMBERS, "retry_final_statuses")
REQUIRED = (("due", "due_local"), ("url", "destination"))
"""Of each, one at least."""

_CORRUPT = "_minutehand_corrupt"
_COLUMNS = ("file", "block", "id", "key", "due", "row", "broken")
_NO_CELLS = "its number of cells differs from the header's"


class UnreadableInput(Exception):
    """The input does not exist, or its columns are not those of a load; the message says which."""


def read_input(session: SparkSession, path: str, *, form: str, key: str) -> DataFrame:
    """Raises UnreadableInput where the input does not exist or its columns are not those of a load."""
    try:
        if form == "jsonl":
            return _lines(session, path, key)
        frame = _csv(session, path) if form == "csv" else session.read.parquet(path)
        return _flat(frame, key)
    except AnalysisException as error:
        raise UnreadableInput(f"{path} can't be read as {form}: {_first_line(error)}") from error


def _lines(session: SparkSession, path: str, key: str) -> DataFrame:
    fields = [T.StructField(key, T.StringType())]
    if key != "due":
        fields.append(T.StructField("due", T.StringType()))
    known = F.from_json("value", T.StructType(fields))
    due = known.getField("due").cast("timestamp")
    return _shown(session.read.text(path), known.getField(key), due, F.col("value"), F.lit(None).cast("string"))


def _csv(session: SparkSession, path: str) -> DataFrame:
    options = {"header": True, "multiLine": True, "escape": '"', "encoding": "UTF-8"}
    header = session.read.options(**options).csv(path).schema  # type: ignore[arg-type]
    schema = T.StructType([T.StructField(one.name, T.StringType()) for one in header.fields]).add(_CORRUPT, "string")
    options |= {"enforceSchema": False, "columnNameOfCorruptRecord": _CORRUPT, "columnPruning": False}
    return session.read.options(**options).schema(schema).csv(path)  # type: ignore[arg-type]


def _flat(frame: DataFrame, key: str) -> DataFrame:
    kinds = {field.name: field.dataType for field in frame.schema.fields if field.name != _CORRUPT}
    _check_names(set(kinds), key)
    asked = {name: _as_asked(name, kinds[name]) for name in FLAT if name in kinds}
    if "body" in kinds and isinstance(kinds["body"], T.BinaryType):
        if "body_base64" in kinds:
            raise UnreadableInput("give bytes once: the column body is binary, and there is a column body_base64")
        asked["body_base64"] = asked.pop("body")
    row = F.to_json(F.struct(*(column.alias(name) for name, column in asked.items())))
    broken = F.when(F.col(_CORRUPT).isNotNull(), _NO_CELLS) if _CORRUPT in frame.columns else F.lit(None)
    due = F.col("due") if "due" in kinds else F.lit(None)
    return _shown(frame, _as_key(key, kinds[key]), due.cast("timestamp"), row, broken.cast("string"))


def _shown(frame: DataFrame, key: Column, due: Column, row: Column, broken: Column) -> DataFrame:
    """`id` is assigned before rows are filtered, so it counts all of them."""
    return frame.select(
        F.col("_metadata.file_path").alias("file"),
        F.col("_metadata.file_block_start").alias("block"),
        F.monotonically_increasing_id().alias("id"),
        key.alias("key"),
        due.alias("due"),
        row.alias("row"),
        broken.alias("broken"),
    ).select(*_COLUMNS)


def _check_names(names: set[str], key: str) -> None:
    missing = [" or ".join(map(repr, wanted)) for wanted in (*REQUIRED, (key,)) if names.isdisjoint(wanted)]
    if missing:
        raise UnreadableInput(f"the input has no column {', '.join(dict.fromkeys(missing))}")
    for name in sorted(NOT_LOADED.keys() & (names - {key})):
        raise UnreadableInput(f"the input has a column {name!r}, which {NOT_LOADED[name]}")
    unknown = sorted(names - {*FLAT, key})
    if unknown:
        raise UnreadableInput(
            f"the input has columns that mean nothing here: {', '.join(map(repr, unknown))}; leave them out (known are "
            f"{', '.join(FLAT)}, and the key)"
        )


def _as_asked(name: str, kind: T.DataType) -> Column:
    column = F.col(f"`{name}`")
    if isinstance(kind, T.StringType):
        return column
    if name == "due":
        if isinstance(kind, T.TimestampType):
            # As text in full precision: it is rounded where every due is rounded.
            return F.date_format(column, "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX")
        raise _wrong(name, kind, "an instant (timestamp with UTC adjustment) or RFC 3339 text")
    if name == "headers":
        if isinstance(kind, T.MapType) and kind.valueType == kind.keyType == T.StringType():
            return column
        raise _wrong(name, kind, "a map of texts, or text with a JSON object")
    if name == "retry_final_statuses":
        if isinstance(kind, T.ArrayType) and isinstance(kind.elementType, T.IntegralType):
            return column
        raise _wrong(name, kind, "an array of integers, or text with a JSON array")
    if name in NUMBERS and isinstance(kind, T.NumericType):
        return column.cast("double") if isinstance(kind, T.DecimalType) else column
    if name == "body" and isinstance(kind, T.BinaryType):
        return F.col(name)
    raise _wrong(name, kind, "a number" if name in NUMBERS else "text")


def _as_key(name: str, kind: T.DataType) -> Column:
    if isinstance(kind, T.StringType | T.IntegralType | T.DecimalType):
        return F.col(f"`{name}`").cast("string")
    raise _wrong(name, kind, "text or an integer, for it is the key")


def _wrong(name: str, kind: T.DataType, wanted: str) -> UnreadableInput:
    return UnreadableInput(f"the column {name!r} is {kind.simpleString()}; it must be {wanted}")


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
