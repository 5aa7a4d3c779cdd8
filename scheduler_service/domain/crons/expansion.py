"""Plans a cron's expansion: the children of its next fires, and its next wake-up. Pure.

    now                         now + window
     |   child   child   child      |            fire
     '----^-------^-------^---------'      ^------^
                                           wake_at (the lead before the next fire without a child)

Everything derives from the cron's row and `now`. Ids derive from client, cron, revision and nominal instant, so that a
repeated expansion, at any time, inserts rows equal to the existing ones.

The lead is at least `LEAD_MS`, and up to `LEAD_SPREAD_MS` more, constant for a cron, so that the crons of a full hour
are not woken in one second. It is shorter than the window, so a woken cron always has something to place.

A fire whose due is longer ago than `catch_up_seconds` gets a child all the same, to be recorded as skipped. One older
than the client's retention would be deleted at once, and is passed over. One that is late by less than
`PUNCTUAL_SECONDS` was not missed: when a node dies its fires are some seconds late.

Fires of an earlier revision that can't be withdrawn any more are passed over by the expansion that withdraws the
others. It goes on until the last of them, even beyond the window, because no later expansion knows of them.
"""

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import msgspec

from scheduler_service.domain.crons.calendars import holidays_version
from scheduler_service.domain.crons.canonical import parse_recurrence
from scheduler_service.domain.crons.compound import Compound, anchor_second, anchored
from scheduler_service.domain.crons.dst import Dst
from scheduler_service.domain.crons.occurrences import SEARCHED_MS
from scheduler_service.domain.crons.row import CRON_CLIENT, Cron, CronOptions, CronProgress, CronRun, CronState
from scheduler_service.domain.crons.rule import Rule, spread_offset_ms
from scheduler_service.domain.crons.zones import tzdata_version
from scheduler_service.domain.ids import DAY_MS, ClientId, CronId, PollerId, ScheduleId, UnixMillis, derived_schedule_id
from scheduler_service.domain.options import CronChild, ScheduleOptions, encode_options, original_kind
from scheduler_service.domain.schedules import Definition

LEAD_MS = 60_000
LEAD_SPREAD_MS = 240_000
WINDOW_MS = 600_000
"""A longer window means fewer expansions of frequent crons, but more children to withdraw when a cron is changed."""
LONGEST_SLEEP_MS = DAY_MS
"""A cron is expanded once a day at least, so that new zone data takes effect in time."""
MAX_CHILDREN = 200
"""In one expansion. If there are more, the cron is due again at once."""
PUNCTUAL_SECONDS = 60.0
LONGEST_WAIT_SECONDS = 604_800.0
"""How long a run may wait for those before it; then it is skipped."""
WAKE_UP_SCHEME = "minutehand://"


@dataclass(frozen=True, slots=True)
class Child:
    """One fire. `skip`: it is recorded as skipped, because it is older than `catch_up_seconds`."""

    definition: Definition
    run: CronRun
    skip: bool


def wake_up(cron: Cron, *, at: UnixMillis, quota: int) -> Definition:
    """The row of `$cron` that has this cron expanded at `at`. Its URL has the client as host, so that each client's
    wake-ups have the limits of one receiver, and leave room for the others'."""
    name = f"wake {cron.client_id} {cron.cron_id} {cron.revision}"
    digest = hashlib.blake2b(f"{cron.client_id} {cron.cron_id}".encode(), digest_size=4).digest()
    poller_id = PollerId(int.from_bytes(digest, "big") % quota)
    return Definition(
        client_id=CRON_CLIENT,
        poller_id=poller_id,
        due=at,
        schedule_id=derived_schedule_id(due=at, poller_id=poller_id, name=name),
        method="POST",
        url=WAKE_UP_SCHEME + cron.client_id,
        headers="[]",
        body=msgspec.json.encode(WakeUp(cron.client_id, cron.cron_id)),
        options="{}",
        label=f"{cron.client_id}/{cron.cron_id}",
        created_at=cron.changed_at,
    )


@dataclass(frozen=True, slots=True)
class Expansion:
    """To be written in this order: the runs, the children and the wake-up, the progress. Each is repeatable."""

    children: tuple[Child, ...]
    wake_up: Definition | None
    progress: CronProgress


class WakeUp(msgspec.Struct, frozen=True):
    """The body of the row that wakes a cron."""

    client_id: ClientId
    cron_id: CronId


class Ruled(Protocol):
    """What of a cron decides when it fires."""

    @property
    def expression(self) -> str: ...

    @property
    def timezone(self) -> str: ...

    @property
    def options(self) -> CronOptions: ...

    @property
    def created_at(self) -> UnixMillis: ...


def rule_of(cron: Ruled) -> Rule:
    """Raises InvalidRule for a rule that this version does not support."""
    options = cron.options
    return Rule(
        expression=anchored(parse_recurrence(cron.expression), anchor_second(options.starts_at, cron.created_at)),
        timezone=cron.timezone,
        dst=Dst(gap=options.gap, fold=options.fold),
        starts_at=options.starts_at,
        ends_at=options.ends_at,
        spread_seconds=options.spread_seconds,
    )


def offset_ms(cron: Cron) -> int:
    """How long after its nominal instant each fire of this cron is due."""
    return spread_offset_ms(cron.client_id, cron.cron_id, cron.options.spread_seconds)


def is_due(cron: Cron, now: int) -> bool:
    """Whether this cron has to be expanded."""
    return cron.swept < cron.revision or (cron.wake_at is not None and cron.wake_at <= now)


def plan(cron: Cron, *, now: int, wake_quota: int, retention_ms: int, kept: Collection[int] = ()) -> Expansion:
    """The expansion of a cron that is due. `kept`: nominal instants whose runs of older revisions could not be
    withdrawn; they count as fires, and get no second child. `wake_quota`: the quota of the client `$cron`."""
    if cron.swept >= cron.revision:
        kept = ()
    fires = cron.fires + len(kept)
    if cron.state is not CronState.ACTIVE:
        return Expansion((), None, _progress(cron, cron.state, cron.expanded_through, fires, None))
    offset = offset_ms(cron)
    after = max(cron.expanded_through, now - retention_ms)
    through, children = after, list[Child]()
    options = _child_options(cron)
    oldest, last_kept = now - _catch_up_seconds(cron) * 1000, max(kept, default=after)
    last = None if cron.options.max_fires is None else cron.options.max_fires - fires
    for nominal in rule_of(cron).fires(after, max(after, now, cron.options.starts_at or 0) + SEARCHED_MS):
        if last is not None and len(children) >= last:
            break
        due = nominal + offset
        if len(children) >= MAX_CHILDREN:
            # The next expansion finds the kept ones that were not reached, and counts them.
            ahead = sum(instant > through for instant in kept)
            swept = cron.swept if ahead else cron.revision
            return _to_go_on(cron, children, through, fires - ahead, UnixMillis(now), quota=wake_quota, swept=swept)
        if due > now + WINDOW_MS and nominal > last_kept:
            wake_at = UnixMillis(min(due - lead_ms(cron.client_id, cron.cron_id), now + LONGEST_SLEEP_MS))
            return _to_go_on(cron, children, through, fires, wake_at, quota=wake_quota, swept=cron.revision)
        through = UnixMillis(nominal)
        if nominal not in kept:
            children.append(_child(cron, options, nominal, due, skip=due < oldest))
    ends_at = UnixMillis(through + offset + 1)
    if ends_at > now:
        # The last fires are placed but not yet due: the cron stays active, so that they can still be withdrawn.
        return _to_go_on(cron, children, through, fires, ends_at, quota=wake_quota, swept=cron.revision)
    fires += len(children)
    return Expansion(tuple(children), None, _progress(cron, CronState.FINISHED, through, fires, None))


def _to_go_on(
    cron: Cron, children: list[Child], through: int, fires: int, wake_at: UnixMillis, *, quota: int, swept: int
) -> Expansion:
    progress = CronProgress(
        cron=cron,
        state=CronState.ACTIVE,
        expanded_through=UnixMillis(through),
        fires=fires + len(children),
        swept=swept,
        wake_at=wake_at,
    )
    return Expansion(tuple(children), wake_up(cron, at=wake_at, quota=quota), progress)


def _catch_up_seconds(cron: Cron) -> float:
    return max(cron.options.catch_up_seconds, PUNCTUAL_SECONDS)


def lead_ms(client_id: ClientId, cron_id: CronId) -> int:
    """How long before its next fire's due a cron is woken."""
    digest = hashlib.blake2b(f"lead {client_id} {cron_id}".encode(), digest_size=4).digest()
    return LEAD_MS + int.from_bytes(digest, "big") % LEAD_SPREAD_MS


def woken_by(body: bytes) -> WakeUp:
    """Raises msgspec.DecodeError."""
    return msgspec.json.decode(body, type=WakeUp)


def child_id(cron: Cron, nominal: int) -> ScheduleId:
    """The id of a fire's child, under the cron's present revision."""
    name = f"fire {cron.client_id} {cron.cron_id} {cron.revision} {nominal}"
    return derived_schedule_id(due=nominal + offset_ms(cron), poller_id=cron.poller_id, name=name)


def run_options(cron: Cron) -> ScheduleOptions:
    """What the options of every run of a cron say."""
    own = cron.options
    return ScheduleOptions(
        retry=own.retry,
        timeout_seconds=own.timeout_seconds,
        empty_body=own.empty_body,
        flow=own.flow,
        wire=own.wire,
        overlap=None if own.policy == "allow" else own.policy,
        pauses=own.pause_after_failures is not None,
        ack=own.ack,
        on_success=own.on_success,
        on_failure=own.on_failure,
        succeed_within_seconds=own.succeed_within_seconds,
    )


def run_row(
    cron: Cron,
    options: str,
    schedule_id: ScheduleId,
    *,
    due: UnixMillis,
    nominal_due: UnixMillis,
    created_at: UnixMillis,
) -> Definition:
    """The row of one run."""
    return Definition(
        client_id=cron.client_id,
        poller_id=cron.poller_id,
        due=due,
        schedule_id=schedule_id,
        kind=original_kind(options),
        method=cron.callback.method,
        url=cron.callback.url,
        headers=cron.callback.headers,
        body=cron.callback.body,
        options=options,
        label=cron.options.label,
        ordering_key=cron.runs_key,
        cron_id=cron.cron_id,
        nominal_due=nominal_due,
        created_at=created_at,
    )


def missed_fire(cron: Cron, nominal: int) -> Child:
    """The child of a fire of the cron's past, to be recorded as skipped."""
    return _child(cron, _child_options(cron), nominal, nominal + offset_ms(cron), skip=True)


def _child(cron: Cron, options: str, nominal: int, due: int, *, skip: bool) -> Child:
    nominal_due, schedule_id = UnixMillis(nominal), child_id(cron, nominal)
    row = run_row(cron, options, schedule_id, due=UnixMillis(due), nominal_due=nominal_due, created_at=cron.changed_at)
    return Child(row, CronRun(cron.client_id, cron.cron_id, nominal_due, cron.revision, schedule_id), skip)


def _child_options(cron: Cron) -> str:
    """A child that its owner reads later than `catch_up_seconds` is skipped, like one that was placed too late."""
    return encode_options(
        msgspec.structs.replace(
            run_options(cron),
            skip_after_seconds=max(_catch_up_seconds(cron), LONGEST_WAIT_SECONDS if cron.options.waits else 0.0),
            cron=CronChild(cron.revision, tzdata_version(), _holidays(cron)),
        )
    )


def _holidays(cron: Cron) -> str | None:
    """The version of the data that a rule uses."""
    rule = parse_recurrence(cron.expression)
    calendar = rule.calendar if isinstance(rule, Compound) else None
    return None if calendar is None or calendar.country is None else holidays_version()


def _progress(cron: Cron, state: CronState, through: int, fires: int, wake_at: UnixMillis | None) -> CronProgress:
    return CronProgress(
        cron=cron,
        state=state,
        expanded_through=UnixMillis(through),
        fires=fires,
        swept=cron.revision,
        wake_at=wake_at,
    )


def planned(cron: Cron, *, now: int, after: int, until: int, retention_ms: int) -> Iterator[UnixMillis]:
    """The fires without a child yet: nominal instants in (after, until] beyond `expanded_through`, missed ones from
    before `now` included, as far back as the client's retention. Empty unless the cron is active. Raises InvalidRule,
    as `rule_of` does.

    These are the fires that `plan` would place at a later time, within what the fires before leave of `max_fires`.
    """
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
    """The first `count` nominal instants later than `now` of an active cron, with or without children: fewer if it ends
    before, or has a gap of more than five years. Raises InvalidRule, as `rule_of` does."""
    if cron.state is not CronState.ACTIVE:
        return []
    if cron.options.max_fires is None:
        return rule_of(cron).next_fires(now, count)
    placed = islice(rule_of(cron).fires(now, cron.expanded_through), count)
    until = max(now, cron.options.starts_at or 0) + count * SEARCHED_MS
    coming = planned(cron, now=now, after=now, until=until, retention_ms=retention_ms)
    return list(islice((*placed, *islice(coming, count)), count))
