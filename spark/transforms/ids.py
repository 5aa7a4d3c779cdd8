"""What a schedule_id says, as columns. The layout is that of `scheduler_service.domain.ids`.

The connector hands out a UUID as text: xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx. Its first twelve digits are the due; the
three behind the version and four bits behind the variant are the lane.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F


def due_of(schedule_id: Column) -> Column:
    """The instant that the id names."""
    return F.timestamp_millis(_number(F.concat(F.substring(schedule_id, 1, 8), F.substring(schedule_id, 10, 4))))


def poller_of(schedule_id: Column) -> Column:
    """The lane that the id names."""
    high, low = _number(F.substring(schedule_id, 16, 3)), _number(F.substring(schedule_id, 20, 2))
    return (F.shiftleft(high, 4) + F.shiftright(low, 2).bitwiseAND(F.lit(0xF))).cast("int")


def _number(digits: Column) -> Column:
    return F.conv(digits, 16, 10).cast("long")
