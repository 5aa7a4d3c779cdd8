"""A forecast: what each minute ahead is to call, against what is guaranteed and what the nodes can send. Pure.

    calls of a minute = rows that it holds (`minute_loads`) + fires of active crons that have no row yet

Rows are those of a moment ago: what is created later is missing, as are retries of calls that have yet to fail. Fires
are those of the rules as they are: they count even if an overlap, a pause or a change of a calendar will skip them.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from scheduler_service.domain.crons.expansion import rule_of
from scheduler_service.domain.crons.row import CronRule, CronState
from scheduler_service.domain.crons.rule import Rule, spread_offset_ms
from scheduler_service.domain.errors import InvalidRule
from scheduler_service.domain.ids import ClientId, Minute, minute_end, minute_of, minute_start

LONGEST_DAYS: Final = 31
"""Of a forecast's window."""
FIRES_WALKED: Final = 100_000
"""Of one rule at most, 0.2 s of CPU: more than a month of minutes, or a day of seconds."""
FIRES_OF_PART: Final = 5_000


class TooManyFires(Exception):
    """A rule has more fires than are walked up to the end of the window."""


class MinuteForecast(NamedTuple):
    """`rows`: schedules, retries among them. `fires`: of crons, without a row yet."""

    minute: Minute
    rows: int
    fires: int

    @property
    def calls(self) -> int:
        return self.rows + self.fires


class ForecastRun(NamedTuple):
    """Consecutive minutes that have calls, from `first` on."""

    first: Minute
    rows: Sequence[int]
    fires: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Minutes without calls are absent. `guaranteed`: calls a minute that the quotas guarantee. `capacity`: calls a
    minute that the live nodes are sized for, for all clients together. `crons_left_out`: active crons whose fires are
    missing, because there are too many rules to follow, or too many fires of one."""

    minutes: Sequence[MinuteForecast]
    guaranteed: int
    capacity: int
    crons_left_out: int = 0

    @property
    def calls(self) -> int:
        return sum(minute.calls for minute in self.minutes)

    @property
    def peak(self) -> MinuteForecast | None:
        """The fullest minute, the first of several."""
        return max(self.minutes, key=lambda minute: minute.calls, default=None)

    def beyond(self, calls: int) -> int:
        """How many minutes have more calls."""
        return sum(minute.calls > calls for minute in self.minutes)

    def runs(self) -> list[ForecastRun]:
        runs: list[tuple[Minute, list[int], list[int]]] = []
        for minute, rows, fires in self.minutes:
            if not runs or minute != runs[-1][0] + len(runs[-1][1]):
                runs.append((minute, [], []))
            runs[-1][1].append(rows)
            runs[-1][2].append(fires)
        return [ForecastRun(*run) for run in runs]


def forecast_minutes(rows: Mapping[Minute, int], fires: Mapping[Minute, int]) -> list[MinuteForecast]:
    """Those that have any, in order."""
    return [MinuteForecast(minute, rows.get(minute, 0), fires.get(minute, 0)) for minute in sorted(rows.keys() | fires)]


@dataclass(slots=True)
class CronGroup:
    """Crons that fire at the same instants. `through`: up to where each has its children, ascending."""

    rule: Rule
    offset_ms: int
    through: list[int] = field(default_factory=list)
    most: int | None = None
    """The most fires that are still to come, of a group of one."""

    def fires(self, first: Minute, last: Minute) -> Iterator[Counter[Minute]]:
        """How many fires without a child are due in each minute, both ends included, in parts that are to be added. One
        walk over the rule for all crons of the group: for a week and a fire each minute it takes about 20 ms, and a
        part 10 ms. Raises TooManyFires."""
        found: Counter[Minute] = Counter()
        due_from, until = minute_start(first), minute_end(last) - 1 - self.offset_ms
        # A bounded number of fires is counted from where the rows end, before the window too.
        begin = self.through[0] if self.most is not None else max(self.through[0], due_from - 1 - self.offset_ms)
        for count, nominal in enumerate(self.rule.fires(begin, until)):
            if self.most is not None and count >= self.most:
                break
            if count >= FIRES_WALKED:
                raise TooManyFires
            if count % FIRES_OF_PART == FIRES_OF_PART - 1:
                yield found
                found = Counter()
            due = nominal + self.offset_ms
            if due >= due_from:
                found[minute_of(due)] += bisect_left(self.through, nominal)
        yield found


def cron_groups(crons: Iterable[tuple[ClientId, CronRule]], *, now: int) -> list[CronGroup]:
    """Active crons by what they share, the largest groups first. Missed fires, before `now`, are left out, as are
    crons whose rule this version does not know."""
    shared: dict[tuple[Rule, int], list[int]] = defaultdict(list)
    alone: list[CronGroup] = []
    for client_id, cron in crons:
        if cron.state is not CronState.ACTIVE:
            continue
        try:
            rule = rule_of(cron)
        except InvalidRule:
            continue
        offset = spread_offset_ms(client_id, cron.cron_id, rule.spread_seconds)
        through = max(cron.expanded_through, now - offset)
        if cron.options.max_fires is None:
            shared[rule, offset].append(through)
        else:
            most = cron.options.max_fires - cron.fires
            alone.append(CronGroup(rule, offset, [through], most))
    groups = [CronGroup(rule, offset, sorted(through)) for (rule, offset), through in shared.items()]
    return sorted(groups, key=lambda group: -len(group.through)) + alone
