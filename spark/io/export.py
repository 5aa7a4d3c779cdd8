"""A frame as one file, for people and other programs."""

from pathlib import PurePosixPath

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType

from scheduler_service.runtime.randomness import SystemRandomness
from spark.errors import JobRefused
from spark.io.files import Files

FORMS = ("parquet", "csv", "jsonl")


def check_form(output: str) -> None:
    """Raises JobRefused for a name without a known extension."""
    if PurePosixPath(output).suffix.removeprefix(".") not in FORMS:
        raise JobRefused(f"--output: {output} is to end in .parquet, .csv or .jsonl")


def check_file(session: SparkSession, output: str) -> None:
    """Raises JobRefused for a name without a known extension, or where a file exists already."""
    check_form(output)
    files = Files(session, output)
    if files.exists(files.root):
        raise JobRefused(f"--output: {output} exists; name a file that does not yet")


def write_file(frame: DataFrame, output: str) -> None:
    """Write the rows in the frame's order, by one task; the file gets its name when it is complete. In text formats
    bytes are base64 and instants RFC 3339. Raises JobRefused."""
    check_file(frame.sparkSession, output)
    files, form = Files(frame.sparkSession, output), PurePosixPath(output).suffix
    partial = f"{files.root}.{SystemRandomness().uuid4()}.partial"
    one = frame.coalesce(1)
    if form == ".parquet":
        one.write.parquet(partial)
    else:
        for field in frame.schema.fields:
            if isinstance(field.dataType, BinaryType):
                one = one.withColumn(field.name, F.base64(field.name))
        if form == ".csv":
            one.write.options(header=True, escape='"').csv(partial)
        else:
            one.write.option("ignoreNullFields", False).json(partial)
    (part,) = (found.name for found in files.list(partial) if found.name.startswith("part-"))
    files.move(f"{partial}/{part}", files.root)
    files.delete(partial)
