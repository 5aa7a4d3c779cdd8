"""The fires of a cron that have no child yet, as far as anybody wants to look. Pure.

What `expansion.plan` would place if it were asked at a later time, and what the fires until then leave of `max_fires`.
"""

from collections.abc import Iterator
from itertools import islice

from scheduler_service.domain.crons.expansion import rule_of
from scheduler_service.domain.crons.occurrences import SEARCHED_MS
from scheduler_service.domain.crons.row import Cron, CronState
from scheduler_service.domain.ids import UnixMillis


def planned(cron: Cron, *, now: int, after: int, until: int, retention_ms: int) -> Iterator[UnixMillis]:
    """Nominal instants in (after, until] beyond `expanded_through`, those that are owed from before `now` included, as
    far back as the client keeps rows. Nothing unless the cron is active. Raises InvalidRule, as `rule_of` does."""
    if cron.state is not CronState.ACTIVE:
        return
    rule = rule_of(cron)
    begin = max(cron.expanded_through, now - retention_ms)
    if cron.options.max_fires is None:
        yield from rule.fires(max(begin, after), until)
        return
    left = max(cron.options.max_fires - cron.fires, 0)
    yield from (nominal for nominal in islice(rule.fires(begin, until), left) if nominal > after)


def next_fires(cron: Cron, *, now: int, count: int, retention_ms: int) -> list[UnixMillis]:
    """The first `count` nominal instants later than `now` of an active cron, whether they have their children yet or
    not: fewer if it ends before, or pauses for more than five years. Raises InvalidRule, as `rule_of` does."""
    if cron.state is not CronState.ACTIVE:
        return []
    if cron.options.max_fires is None:
        return rule_of(cron).next_fires(now, count)
    placed = islice(rule_of(cron).fires(now, cron.expanded_through), count)
    until = max(now, cron.options.starts_at or 0) + count * SEARCHED_MS
    coming = planned(cron, now=now, after=now, until=until, retention_ms=retention_ms)
    return list(islice((*placed, *islice(coming, count)), count))
