"""What is due for a cron: every fire becomes one schedule, however often, when and where it is planned."""

from collections.abc import Collection
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.domain.crons import (
    InvalidRule,
    holidays_version,
    parse_expression,
    parse_recurrence,
    tzdata_version,
)
from scheduler_service.domain.crons.expansion import (
    LEAD_MS,
    LEAD_SPREAD_MS,
    MAX_CHILDREN,
    WINDOW_MS,
    Expansion,
    child_id,
    is_due,
    lead_ms,
    offset_ms,
    plan,
    rule_of,
    wake_up,
    woken_by,
)
from scheduler_service.domain.crons.row import CRON_CLIENT, Cron, CronOptions, CronProgress, CronState
from scheduler_service.domain.ids import DAY_MS, HOUR_MS, MINUTE_MS, ClientId, UnixMillis, due_of, poller_of
from scheduler_service.domain.options import decode_options
from tests.contract.cron_builders import cron as any_cron

SHOP = ClientId("shop")
NOW = UnixMillis(1_795_253_400_000)
"""2026-11-21T09:30:00Z, a whole minute."""
QUOTA = 4

CANONICAL = (
    "0 9 L * *",
    "0 9 L-3,LW,15W * *",
    "0 9 * * 5L,5#3",
    "0 9 1-7 * &1",
    "0 9 1 1 * 2027",
    "every 90 minutes",
    "every 90 minutes from 2026-11-27T09:30:00Z",
    '{"any":["0 9 * * 1","0 9 L * *"]}',
    '{"any":["0 9 * * *"],"excluding":["* * 25 12 *"]}',
    '{"any":["0 9 1 * *"],"calendar":{"country":"DE","weekends":true,"on":"move-next"}}',
)
EXPRESSIONS = st.sampled_from(("* * * * *", "*/2 * * * *", "7,8,50 * * * *", "0 * * * *", "30 2 * * *", "0 0 29 2 *"))
ZONES = st.sampled_from(("Etc/UTC", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu"))


def cron(expression: str = "* * * * *", *, name: str = "tick", since: int = NOW, **columns: Any) -> Cron:
    """A cron changed at `since` and not examined since."""
    options = {key: columns.pop(key) for key in list(columns) if key in CronOptions.__struct_fields__}
    instant = UnixMillis(since)
    given_columns = {"timezone": "Etc/UTC", "expanded_through": instant, "changed_at": instant, "wake_at": instant}
    options_of = CronOptions(**options)
    return any_cron(SHOP, name, expression=expression, options=options_of, **{**given_columns, **columns})


def planned(of: Cron, *, now: int = NOW, retention_ms: int = 30 * DAY_MS, kept: Collection[int] = ()) -> Expansion:
    return plan(of, now=now, wake_quota=QUOTA, retention_ms=retention_ms, kept=kept)


def advanced(progress: CronProgress) -> Cron:
    return msgspec.structs.replace(
        progress.cron,
        state=progress.state,
        expanded_through=progress.expanded_through,
        fires=progress.fires,
        swept=progress.swept,
        wake_at=progress.wake_at,
    )


def nominals(expansion: Expansion) -> list[int]:
    return [child.run.nominal_due for child in expansion.children]


@st.composite
def crons(draw: st.DrawFn) -> Cron:
    behind = draw(st.sampled_from((0, 30_000, 10 * MINUTE_MS, 3 * HOUR_MS, 3 * DAY_MS)))
    since = NOW - behind
    bounds: dict[str, Any] = {}
    if draw(st.booleans()):
        bounds["starts_at"] = since + draw(st.integers(-HOUR_MS, HOUR_MS))
    if draw(st.booleans()):
        bounds["ends_at"] = max(since, bounds.get("starts_at", 0)) + draw(st.integers(1, 2 * HOUR_MS))
    return cron(
        draw(EXPRESSIONS),
        name=draw(st.sampled_from(("tick", "tock", "größe"))),
        timezone=draw(ZONES),
        since=since,
        changed_at=UnixMillis(draw(st.integers(since, NOW))),
        spread_seconds=draw(st.sampled_from((0, 1, 30, 3600))),
        catch_up_seconds=draw(st.sampled_from((0, 90, 3600, 1e6))),
        max_fires=draw(st.sampled_from((None, 1, 5, 300))),
        fires=draw(st.integers(0, 6)),
        revision=2,
        swept=draw(st.integers(0, 2)),
        **bounds,
    )


@given(crons(), st.integers(0, 2 * DAY_MS))
def test_repeated_later_it_makes_the_same_children(of: Cron, later: int) -> None:
    first, again = planned(of), planned(of, now=NOW + later)
    definitions = {child.run.nominal_due: child.definition for child in again.children}
    for child in first.children:
        if child.run.nominal_due in definitions:
            assert definitions[child.run.nominal_due] == child.definition
    if len(again.children) < MAX_CHILDREN and of.options.max_fires is None:
        assert set(nominals(first)) <= set(definitions)


@given(crons(), st.data())
def test_every_fire_up_to_the_new_mark_has_one_child_or_is_kept(of: Cron, data: st.DataObject) -> None:
    ahead = list(rule_of(of).fires(of.expanded_through, max(NOW, of.expanded_through) + WINDOW_MS))[:50]
    claimed = data.draw(st.sets(st.sampled_from(ahead), max_size=5)) if ahead else set[int]()
    kept = {*claimed, *data.draw(st.sets(st.integers(NOW, NOW + WINDOW_MS), max_size=2))}
    found = planned(of, kept=kept)
    mark = found.progress.expanded_through
    passed_by = kept if of.swept < of.revision else set[int]()
    fires = [fire for fire in rule_of(of).fires(of.expanded_through, mark) if fire not in passed_by]
    assert nominals(found) == fires
    assert len(found.children) <= MAX_CHILDREN
    for child in found.children:
        definition, nominal = child.definition, child.run.nominal_due
        assert definition.schedule_id == child.run.schedule_id == child_id(of, nominal)
        assert definition.due == due_of(definition.schedule_id) == nominal + offset_ms(of)
        assert poller_of(definition.schedule_id) == definition.poller_id == of.poller_id
        assert definition.nominal_due == nominal
        asked = decode_options(definition.options).cron
        assert asked is not None
        assert asked.revision == child.run.revision == of.revision


@given(crons(), st.lists(st.integers(0, 3 * HOUR_MS), min_size=1, max_size=12))
def test_from_turn_to_turn_no_fire_is_left_out_or_made_twice(of: Cron, waits: list[int]) -> None:
    made: list[int] = []
    at, now = of, int(NOW)
    for wait in waits:
        expansion = planned(at, now=now)
        made += nominals(expansion)
        at = advanced(expansion.progress)
        if at.wake_at is None:
            assert at.state is CronState.FINISHED
            break
        assert expansion.wake_up is not None
        assert expansion.wake_up.due == at.wake_at
        assert at.wake_at > now or len(expansion.children) == MAX_CHILDREN
        now = max(now, at.wake_at) + wait
    fires = rule_of(of).fires(of.expanded_through, at.expanded_through)
    assert made == list(fires)
    assert at.fires == of.fires + len(made)
    if of.options.max_fires is not None:
        assert len(made) <= max(of.options.max_fires - of.fires, 0)


@given(crons())
def test_a_punctual_wake_up_places_every_fire_before_its_due(of: Cron) -> None:
    found = planned(of)
    if found.progress.wake_at is None or len(found.children) == MAX_CHILDREN:
        return
    following = next(rule_of(of).fires(found.progress.expanded_through, NOW + 10 * DAY_MS), None)
    ended = of.options.max_fires is not None and found.progress.fires >= of.options.max_fires
    if following is not None and not ended:
        assert following + offset_ms(of) - found.progress.wake_at >= LEAD_MS


def test_crons_have_different_leads_shorter_than_the_window() -> None:
    leads = {lead_ms(SHOP, cron(name=f"c{number}").cron_id) for number in range(200)}
    assert len(leads) > 190
    assert min(leads) >= LEAD_MS
    assert max(leads) < LEAD_MS + LEAD_SPREAD_MS < WINDOW_MS


def test_a_backlog_is_made_in_turns_each_due_at_once() -> None:
    of = cron(since=NOW - DAY_MS)
    found = planned(of)
    assert len(found.children) == MAX_CHILDREN
    assert (found.progress.wake_at, found.progress.expanded_through) == (NOW, NOW - DAY_MS + MAX_CHILDREN * MINUTE_MS)
    assert is_due(advanced(found.progress), NOW)


def test_missed_fires_are_skipped_beyond_the_catch_up_and_passed_over_beyond_the_retention() -> None:
    of = cron("0 * * * *", since=NOW - DAY_MS, catch_up_seconds=2 * 3600)
    found = planned(of, retention_ms=6 * HOUR_MS)
    hours = [(NOW - nominal) / HOUR_MS for nominal in nominals(found)]
    assert hours == [5.5, 4.5, 3.5, 2.5, 1.5, 0.5]
    assert [child.skip for child in found.children] == [True] * 4 + [False] * 2


@pytest.mark.parametrize(("late_ms", "skipped"), [(59_999, False), (60_001, True)])
def test_what_is_a_little_late_was_not_missed(late_ms: int, skipped: bool) -> None:
    fire = NOW + MINUTE_MS
    found = planned(cron("31 9 * * *", catch_up_seconds=0), now=fire + late_ms)
    assert [child.skip for child in found.children] == [skipped]
    assert decode_options(found.children[0].definition.options).skip_after_seconds == 60


@pytest.mark.parametrize("state", [CronState.PAUSED, CronState.DELETED, CronState.FINISHED])
def test_an_inactive_cron_places_nothing_and_counts_its_kept_fires(state: CronState) -> None:
    of = cron(state=state, revision=2, swept=1, fires=3)
    found = planned(of, kept=[NOW + MINUTE_MS])
    assert (found.children, found.wake_up) == ((), None)
    assert (found.progress.state, found.progress.fires, found.progress.swept) == (state, 4, 2)
    assert (found.progress.wake_at, found.progress.expanded_through) == (None, of.expanded_through)
    assert not is_due(advanced(found.progress), NOW + DAY_MS)


def test_the_last_fire_leaves_a_cron_active_until_it_is_over() -> None:
    found = planned(cron(max_fires=3, spread_seconds=30))
    assert len(found.children) == 3
    last = found.children[-1].definition.due
    assert (found.progress.state, found.progress.wake_at) == (CronState.ACTIVE, last + 1)
    over = planned(advanced(found.progress), now=last + 1)
    assert (over.children, over.wake_up, over.progress.state) == ((), None, CronState.FINISHED)


def test_kept_fires_are_passed_by_though_they_are_beyond_the_window() -> None:
    """Adding a spread moves the window back; without this rule, fires claimed before would be made again."""
    of = cron(spread_seconds=3600, revision=2, swept=1)
    assert offset_ms(of) > WINDOW_MS + 5 * MINUTE_MS
    kept = NOW + 5 * MINUTE_MS
    found = planned(of, kept=[kept])
    assert nominals(found) == [NOW + number * MINUTE_MS for number in range(1, 5)]
    assert (found.progress.expanded_through, found.progress.fires, found.progress.swept) == (kept, 5, 2)


def test_kept_fires_behind_a_backlog_are_found_again_by_the_next_turn() -> None:
    of = cron(since=NOW - DAY_MS, revision=2, swept=1)
    near, far = of.expanded_through + MINUTE_MS, NOW + MINUTE_MS
    found = planned(of, kept=[near, far])
    assert len(found.children) == MAX_CHILDREN
    assert (found.progress.swept, found.progress.fires) == (1, MAX_CHILDREN + 1)
    at, now = advanced(found.progress), NOW
    while at.swept < 2:
        found = planned(at, now=now, kept=[far])
        at = advanced(found.progress)
        assert far not in nominals(found)
    assert at.expanded_through >= far
    fires = sum(1 for _ in rule_of(of).fires(of.expanded_through, at.expanded_through))
    assert at.fires == fires


def test_kept_fires_count_for_the_last_one() -> None:
    of = cron(max_fires=3, revision=2, swept=1)
    found = planned(of, kept=[NOW + MINUTE_MS, NOW + 30_000])
    assert nominals(found) == [NOW + 2 * MINUTE_MS]
    assert found.progress.fires == 3


def test_revisions_and_instants_make_different_rows() -> None:
    one, two = cron(), cron(revision=2)
    instants = (NOW, NOW + MINUTE_MS)
    assert len({child_id(of, nominal) for of in (one, two) for nominal in instants}) == 4
    rows = [wake_up(of, at=UnixMillis(at), quota=QUOTA) for of in (one, two) for at in instants]
    assert len({row.schedule_id for row in rows}) == 4
    assert {row.client_id for row in rows} == {CRON_CLIENT}
    assert len({row.poller_id for row in rows}) == 1, "one cron, one poller"
    woken = woken_by(rows[0].body)
    assert (woken.client_id, woken.cron_id) == (SHOP, one.cron_id)


def test_wake_ups_spread_over_the_pollers() -> None:
    pollers = [wake_up(cron(name=f"c{number}"), at=NOW, quota=QUOTA).poller_id for number in range(400)]
    assert {poller: pollers.count(poller) > 60 for poller in pollers} == dict.fromkeys(range(QUOTA), True)


def test_a_rule_from_a_newer_program_is_an_error() -> None:
    with pytest.raises(InvalidRule):
        planned(cron("every other day"))


@pytest.mark.parametrize("empty", [False, True])
def test_children_have_an_empty_body_only_if_it_was_asked_for(empty: bool) -> None:
    children = planned(cron(empty_body=empty)).children
    assert {decode_options(child.definition.options).empty_body for child in children} == {empty}


@pytest.mark.parametrize(
    ("expression", "holidays"),
    [
        ("* * * * *", None),
        ('{"any":["* * * * *"],"calendar":{"dates":["2020-01-01"]}}', None),
        ('{"any":["* * * * *"],"calendar":{"country":"DE"}}', holidays_version()),
    ],
)
def test_a_child_names_the_data_that_gave_its_instant(expression: str, holidays: str | None) -> None:
    child, *_ = planned(cron(expression)).children
    options = decode_options(child.definition.options)
    assert options.cron is not None
    assert (options.cron.tzdata, options.cron.holidays) == (tzdata_version(), holidays)
    assert ("holidays" in child.definition.options) == (holidays is not None)


def test_an_interval_counts_from_the_start_of_its_cron_or_its_creation() -> None:
    created = UnixMillis(NOW + 12_345)
    every = cron("every 4 minutes", since=created, created_at=created)
    assert nominals(planned(every, now=created)) == [NOW + 12_000 + 4 * MINUTE_MS, NOW + 12_000 + 8 * MINUTE_MS]
    changed = msgspec.structs.replace(every, changed_at=UnixMillis(created + 60_000), revision=2)
    assert nominals(planned(changed, now=created)) == nominals(planned(every, now=created))
    started = cron("every 4 minutes", since=created, created_at=created, starts_at=UnixMillis(NOW + 60_000))
    assert nominals(planned(started, now=created))[0] == NOW + 60_000


@pytest.mark.parametrize("text", CANONICAL)
def test_a_program_that_knows_cronies_fields_only_refuses_every_other_rule(text: str) -> None:
    """What such a program does with a refused rule: it leaves the cron alone."""
    assert parse_recurrence(text).text == text
    with pytest.raises(InvalidRule):
        parse_expression(text)
