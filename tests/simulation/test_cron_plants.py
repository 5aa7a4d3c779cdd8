"""Every planted bug is found by a scenario that passes without it."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.simulation import test_cron_backfills as backfills
from tests.simulation import test_cron_faults as faults
from tests.simulation import test_cron_overlaps as overlaps
from tests.simulation import test_cron_pause_on_failure as failures
from tests.simulation import test_crons as crons
from tests.simulation.cron_plants import CRON_PLANTS

SLEEPS = crons.test_an_expander_that_sleeps_through_a_change_adds_nothing
FINDERS: dict[str, Callable[[], None]] = {
    "no_revision_check_at_claim_time": partial(SLEEPS, "edit"),
    "every_older_fire_is_cancelled_at_claim_time": partial(
        faults.test_a_change_while_all_nodes_are_down_takes_back_nothing_that_was_due_before, "same-rule"
    ),
    "older_children_are_not_withdrawn": partial(
        crons.test_an_edit_just_before_a_fire_neither_doubles_nor_loses_it, 1.0
    ),
    "kept_instants_are_placed_again": partial(crons.test_an_edit_just_before_a_fire_neither_doubles_nor_loses_it, 0.2),
    "kept_instants_beyond_the_window_are_forgotten": (
        faults.test_a_spread_that_is_added_repeats_no_fire_that_was_claimed_or_cancelled
    ),
    "advance_without_its_condition": partial(SLEEPS, "pause"),
    "advance_before_the_children": partial(
        crons.test_every_step_of_an_expansion_is_interrupted, "schedules.insert", "crash-before"
    ),
    "child_ids_without_the_revision": partial(crons.test_an_edit_just_before_a_fire_neither_doubles_nor_loses_it, 8.0),
    "no_wake_up": crons.test_every_minute_once_and_on_the_second,
    "catch_up_ignored": crons.test_all_nodes_down_for_hours_what_is_within_the_catch_up_runs_and_the_rest_is_recorded,
    "backfill_under_an_id_of_its_own": (
        backfills.test_the_fires_of_a_pause_are_made_once_however_often_and_by_how_many_they_are_asked_for
    ),
    "backfill_calls_what_was_made": (
        backfills.test_the_fires_of_a_pause_are_made_once_however_often_and_by_how_many_they_are_asked_for
    ),
    "a_run_that_started_holds_nothing": partial(
        overlaps.test_a_backfill_waits_for_a_run_that_waits_for_its_retry, taken_over=True, policy="buffer_all"
    ),
    "a_claimed_run_holds_nothing": partial(
        overlaps.test_a_trigger_before_a_fire_that_is_claimed_already_does_not_run_beside_it, "buffer_all"
    ),
    "a_run_holds_only_while_it_is_called": partial(
        overlaps.test_a_backfill_waits_for_a_run_that_waits_for_its_retry, taken_over=False, policy="buffer_all"
    ),
    "redelivered_runs_have_no_key": partial(overlaps.test_triggers_and_backfills_keep_to_the_policy, "skip"),
    "triggered_runs_have_no_key": partial(overlaps.test_triggers_and_backfills_keep_to_the_policy, "skip"),
    "cancel_other_cancels_nothing": overlaps.test_cancel_other_cancels_the_run_that_waits_for_its_retry,
    "buffer_one_lets_all_wait": overlaps.test_buffer_one_lets_one_wait_and_skips_the_others,
    "overlap_ignored": crons.test_overlap_skip_passes_fires_over_while_a_run_is_retried,
    "failures_are_judged_only_when_recorded": (
        failures.test_the_next_fire_is_not_called_although_the_owner_died_before_the_pause
    ),
    "failures_are_judged_only_before_a_claim": (
        failures.test_after_three_failed_runs_it_is_paused_and_a_resume_counts_again
    ),
    "failures_before_a_resume_count": failures.test_after_three_failed_runs_it_is_paused_and_a_resume_counts_again,
    "what_was_late_stands_after_a_pause_on_failure": (
        failures.test_the_next_fire_is_not_called_although_the_owner_died_before_the_pause
    ),
    "overdue_scan_finds_nothing": crons.test_a_wake_up_that_is_lost_is_made_up_for,
}


@pytest.mark.parametrize("plant", CRON_PLANTS)
def test_a_planted_bug_is_found(plant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    CRON_PLANTS[plant](monkeypatch)
    with pytest.raises(AssertionError):
        FINDERS[plant]()
