"""What minutes ahead are to call. Instants are aware datetimes."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from minutehand.client._calls import Operation, client_path, given, instant


class ForecastPeak(msgspec.Struct, frozen=True, kw_only=True):
    """The minute with most calls, the first of several."""

    minute: datetime
    calls: int


class ForecastMinute(msgspec.Struct, frozen=True, kw_only=True):
    """`rows`: schedules that are stored; `fires`: of crons, that are not stored yet."""

    minute: datetime
    rows: int
    fires: int

    @property
    def calls(self) -> int:
        return self.rows + self.fires


class ForecastRun(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive minutes with calls, from `start` on."""

    start: datetime = msgspec.field(name="from")
    rows: tuple[int, ...]
    fires: tuple[int, ...]


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """The minutes from `start` until before `end`. `guaranteed_per_minute`: by the poller quotas;
    `capacity_per_minute`: what the live nodes are sized for, for all clients together. `crons_left_out`: active crons
    whose fires are missing, because there are too many different rules, or too many fires of one."""

    start: datetime = msgspec.field(name="from")
    end: datetime = msgspec.field(name="to")
    guaranteed_per_minute: int
    capacity_per_minute: int
    calls: int
    minutes_beyond_guarantee: int
    minutes_beyond_capacity: int
    crons_left_out: int
    peak: ForecastPeak | None = None
    runs: tuple[ForecastRun, ...] = ()

    def minutes(self) -> Iterator[ForecastMinute]:
        """Those with calls, in order."""
        for run in self.runs:
            for position, (rows, fires) in enumerate(zip(run.rows, run.fires, strict=True)):
                yield ForecastMinute(minute=run.start + timedelta(minutes=position), rows=rows, fires=fires)


def get_forecast(
    client_id: str | None, *, start: datetime | str | None, end: datetime | str | None
) -> Operation[Forecast]:
    """None: of all clients."""
    path = "/v1/cluster" if client_id is None else client_path(client_id)
    query = given({"from": instant(start), "to": instant(end)})
    return Operation(method="GET", path=f"{path}/forecast", answer=Forecast, query=query)
