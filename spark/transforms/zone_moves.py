"""Which calls move between two releases of the time zone database. Pure.

Clocks of two releases differ in few zones, for some months each. Only there is anything computed:

    zones of both releases -> spans in which their clocks differ -> fires of crons in them, by either release
                                                                 -> calls asked for as local times, stored in them

Instants are Unix milliseconds; those of spans are seconds. A span reaches two days beyond the difference on either
side: so far do local times differ from UTC, and does a repeated local time affect fires.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice, pairwise
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from scheduler_service.domain.crons.compound import Compound, Recurrence
from scheduler_service.domain.crons.expansion import LEAD_MS, rule_of
from scheduler_service.domain.crons.expression import Expression
from scheduler_service.domain.crons.interval import Interval
from scheduler_service.domain.crons.occurrences import SEARCHED_MS
from scheduler_service.domain.crons.row import CronOptions
from scheduler_service.domain.crons.rule import spread_offset_ms
from scheduler_service.domain.crons.zones import read_zone, stretches
from scheduler_service.domain.ids import ClientId, CronId, UnixMillis
from scheduler_service.domain.local_times import instant_of, parse_local
from scheduler_service.domain.retry_rows import local_due_of
from spark.window import HOUR, Window

MARGIN_SECONDS = 2 * 86_400
MOST_MOVES = 100
"""Moves of one cron that are listed; all are counted."""
JOINED = timedelta(days=30)
"""Windows that are no further apart are read as one."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ZoneChange:
    """A zone whose clocks differ in `spans`, ascending, with its files in either release."""

    name: str
    old: bytes
    new: bytes
    spans: tuple[Span, ...]

    def zones(self) -> tuple[ZoneInfo, ZoneInfo]:
        return _loaded(self.old, self.name), _loaded(self.new, self.name)


@dataclass(frozen=True, slots=True)
class Differences:
    """`changed` by name. `gone`: zones that only the old release has."""

    changed: Mapping[str, ZoneChange]
    gone: tuple[str, ...]


class Move(NamedTuple):
    """`old` or `new` is None where the other release has no such call. `local`: what the clock shows then."""

    old: UnixMillis | None
    new: UnixMillis | None
    local: str


class CronMoves(NamedTuple):
    """`moved` have an instant in both releases. `first`: the earliest instant of all, when something is to be done;
    `listed`: the first moves by their earlier instant."""

    moved: int
    lost: int
    gained: int
    first: UnixMillis
    listed: tuple[Move, ...]


Standing = Literal["moves", "lost", "there", "elsewhere"]
"""Of a call asked for as a local time: stored where the old release puts it, and the new one at another instant (moves)
or nowhere (lost); stored where the new one puts it; or where neither does, so another release did."""


@lru_cache(maxsize=64)
def _loaded(data: bytes, name: str) -> ZoneInfo:
    return read_zone(data, name)


def differences(old: Mapping[str, bytes], new: Mapping[str, bytes], *, first: int, end: int) -> Differences:
    """How two releases differ in first <= UTC < end (seconds). Raises ValueError for a file that is no zone."""
    changed = {}
    for name in sorted(old.keys() & new.keys()):
        if old[name] == new[name]:
            continue
        spans = _spans(read_zone(old[name], name), read_zone(new[name], name), first, end)
        if spans:
            changed[name] = ZoneChange(name, old[name], new[name], tuple(spans))
    return Differences(changed, tuple(sorted(old.keys() - new.keys())))


def _spans(old: ZoneInfo, new: ZoneInfo, first: int, end: int) -> list[Span]:
    begin, stop = first - MARGIN_SECONDS, end + MARGIN_SECONDS
    offsets = [[(one.start, one.offset) for one in stretches(zone, begin, stop)] for zone in (old, new)]
    bounds = sorted({max(start, begin) for starts in offsets for start, _ in starts} | {stop})
    spans: list[Span] = []
    for start, following in pairwise(bounds):
        of_old, of_new = (starts[bisect_right(starts, (start, 1 << 40)) - 1][1] for starts in offsets)
        if of_old == of_new:
            continue
        span = (max(start - MARGIN_SECONDS, first), min(following + MARGIN_SECONDS, end))
        if spans and span[0] <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], span[1]))
        elif span[0] < span[1]:
            spans.append(span)
    return spans


def windows(spans: Iterable[Span]) -> list[Window]:
    """The hours in which stored calls may have to move, in few windows."""
    found: list[Window] = []
    for first, end in sorted(spans):
        start = _EPOCH + timedelta(seconds=first // 3600 * 3600)
        stop = _EPOCH + timedelta(seconds=-(-end // 3600) * 3600)
        if found and start <= found[-1].end + JOINED:
            found[-1] = Window(found[-1].start, max(found[-1].end, stop))
        else:
            found.append(Window(start, max(stop, start + HOUR)))
    return found


class CronRule(msgspec.Struct, frozen=True, kw_only=True):
    """What of an active cron decides when it fires, and what is placed of it."""

    client_id: ClientId
    cron_id: CronId
    expression: str
    timezone: str
    options: CronOptions
    created_at: UnixMillis
    expanded_through: UnixMillis
    fires: int
    wake_at: UnixMillis | None

    def nominal_fires(self, zone: ZoneInfo, spans: Sequence[Span], *, after: int, until: int) -> Iterator[UnixMillis]:
        """Those in (after, until] that lie in the spans. Raises InvalidRule."""
        rule = rule_of(self)
        most = self.options.max_fires
        if most is None:
            for first, end in spans:
                yield from rule.fires(max(after, first * 1000 - 1), min(until, end * 1000 - 1), zone=zone)
            return
        # Which fires are the last ones depends on all before them, so spans don't help here.
        left = max(most - self.fires, 0)
        coming = rule.fires(self.expanded_through, until, zone=zone)
        placed = rule.fires(after, min(until, self.expanded_through), zone=zone)
        yield from placed
        yield from (nominal for nominal in islice(coming, left) if nominal > after)


def cron_moves(cron: CronRule, change: ZoneChange, *, now: int, until: int) -> CronMoves | None:
    """How the fires of a cron in (now, until] move; None: they don't. Raises InvalidRule."""
    old_zone, new_zone = change.zones()
    old = set(cron.nominal_fires(old_zone, change.spans, after=now, until=until))
    new = set(cron.nominal_fires(new_zone, change.spans, after=now, until=until))
    if _follows_real_time(rule_of(cron).expression):
        # An hourly cron fires at the same instants, whatever clocks call them.
        old, new = old - new, new - old
        moves = _paired(sorted(old), sorted(new), old_zone, new_zone, by_day=False)
    else:
        paired = _paired(sorted(old), sorted(new), old_zone, new_zone, by_day=True)
        moves = [move for move in paired if move.old != move.new]
    if not moves:
        return None
    moves.sort(key=_earlier)
    moved = sum(move.old is not None and move.new is not None for move in moves)
    lost = sum(move.new is None for move in moves)
    listed = tuple(moves[:MOST_MOVES])
    return CronMoves(moved, lost, len(moves) - moved - lost, _earlier(moves[0]), listed)


def _follows_real_time(rule: Recurrence) -> bool:
    """Whether some fires are meant at instants rather than at times of the day."""
    match rule:
        case Expression():
            return rule.follows_real_time
        case Interval():
            return True
        case Compound(members):
            return any(_follows_real_time(each) for each in members)


def _earlier(move: Move) -> UnixMillis:
    return min(instant for instant in (move.old, move.new) if instant is not None)


def _paired(
    old: Iterable[UnixMillis], new: Iterable[UnixMillis], old_zone: ZoneInfo, new_zone: ZoneInfo, *, by_day: bool
) -> list[Move]:
    """Fires are the same where clocks show the same; those of fixed time that a gap shifts, where they are of one
    day."""
    waiting: dict[str, list[UnixMillis]] = {}
    for instant in new:
        waiting.setdefault(_shown(instant, new_zone), []).append(instant)
    moves, alone = [], []
    for instant in old:
        local = _shown(instant, old_zone)
        if same := waiting.get(local):
            moves.append(Move(instant, same.pop(0), local))
        else:
            alone.append((local, instant))
    left = sorted((instant, local) for local, several in waiting.items() for instant in several)
    for local, instant in alone:
        of_day = next((one for one in left if by_day and one[1][:10] == local[:10]), None)
        if of_day is not None:
            left.remove(of_day)
        moves.append(Move(instant, None if of_day is None else of_day[0], local))
    return [*moves, *(Move(None, instant, local) for instant, local in left)]


def _shown(instant: int, zone: ZoneInfo) -> str:
    return datetime.fromtimestamp(instant // 1000, zone).replace(tzinfo=None).isoformat(timespec="seconds")


def must_expand_again(cron: CronRule, placed: Iterable[int], zone: ZoneInfo, *, now: int) -> bool:
    """Whether an active cron does not expand as `zone` has it, left to itself: the fires `placed` ahead of now are
    others than it has there, or it sleeps beyond the next one. Raises InvalidRule."""
    rule = rule_of(cron)
    offset = spread_offset_ms(cron.client_id, cron.cron_id, cron.options.spread_seconds)
    through = cron.expanded_through
    if {*placed} != set(rule.fires(now, through, zone=zone)):
        return True
    most = cron.options.max_fires
    if cron.wake_at is None or (most is not None and cron.fires >= most):
        return False
    following = next(rule.fires(through, max(through, now) + SEARCHED_MS, zone=zone), None)
    if following is None:
        return False
    return cron.wake_at > max(following + offset - LEAD_MS, now)


class CallMove(NamedTuple):
    """`asked` and `new`: the instant of the local time as stored, and in the new release. `due`: when the call is made
    then, spread as before."""

    standing: Standing
    local: str
    timezone: str
    asked: UnixMillis
    new: UnixMillis | None
    due: UnixMillis | None


def call_move(
    options: str | None, *, due: int, nominal_due: int | None, changed: Mapping[str, ZoneChange]
) -> CallMove | None:
    """How a waiting call moves that was asked for as a local time; None: it was not, or its zone stays."""
    local_due = local_due_of(options)
    change = None if local_due is None else changed.get(local_due.timezone)
    if local_due is None or change is None:
        return None
    asked = due if nominal_due is None else nominal_due
    try:
        local = parse_local(local_due.local)
    except ValueError:
        return None
    old, new = (instant_of(local, zone, gap=local_due.gap, fold=local_due.fold) for zone in change.zones())
    if old == new:
        return None
    standing: Standing
    if asked == new:
        standing = "there"
    elif asked != old:
        standing = "elsewhere"
    else:
        standing = "lost" if new is None else "moves"
    return CallMove(
        standing,
        local_due.local,
        local_due.timezone,
        UnixMillis(asked),
        new,
        None if new is None else UnixMillis(new + due - asked),
    )
