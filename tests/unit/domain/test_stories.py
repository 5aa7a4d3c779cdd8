"""The story of one schedule: its sentence and its steps, for every way a schedule can go."""

from typing import Any

import pytest

from scheduler_service.domain.attempts import AttemptShown
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.domain.schedules import Row
from scheduler_service.domain.stories import STEPS, Facts, Story, length, story_of
from scheduler_service.domain.waits import CAUSES
from tests.contract.builders import definition

ONE = definition(ClientId("shop"), offset=500)
BEFORE = definition(ClientId("shop"), offset=200, tail=2)
DUE = ONE.due
NODE = "node-1@1763836790000"


def told(*, now: int = DUE, in_flight: bool = False, made: tuple[AttemptShown, ...] = (), **columns: Any) -> Story:
    held = columns.pop("client_held", False)
    owner = columns.pop("claimed_by", NODE)
    known = {name: getattr(ONE, name, None) for name in Row.__struct_fields__}
    row = Row(**{**known, "created_at": UnixMillis(DUE - 60_000), "attempts": 0, **columns})
    return story_of(
        Facts(
            row=row,
            in_flight=in_flight,
            attempts=made,
            claimed_by=owner,
            epoch=7,
            client_held=held,
            now=now,
        )
    )


def attempt(*, began: int, ms: int, **columns: Any) -> AttemptShown:
    """The first attempt, which has not delivered: begun after this many milliseconds, and as long."""
    started = UnixMillis(DUE + began)
    return AttemptShown(
        attempt=1,
        delivered=False,
        started_at=started,
        finished_at=UnixMillis(started + ms),
        duration_ms=ms,
        **columns,
    )


def delivered(late_ms: int, *, waited: str = "", **columns: Any) -> dict[str, Any]:
    return {
        "state": "delivered",
        "attempts": 1,
        "first_attempt_at": UnixMillis(DUE + late_ms),
        "finished_at": UnixMillis(DUE + late_ms + 30),
        "last_status": 204,
        "fired_by": f"{NODE}{waited and ' waited '}{waited}",
        "fired_epoch": 7,
        **columns,
    }


def test_a_call_on_time() -> None:
    story = told(**delivered(12))
    assert (story.verdict, story.late_ms, story.cause) == ("on-time", 12, None)
    assert story.sentence == "It was on time: its first attempt began 0.012 s after its due; that attempt delivered it."
    assert [step.step for step in story.steps] == ["accepted", "claimed", "ended"]
    assert story.steps[1].text == f"Node {NODE} claimed it under epoch 7."


def test_a_told_end_names_who_is_told() -> None:
    options = '{"on_success": "destination://book", "on_failure": "https://book.example/failed"}'
    assert told(**delivered(12), options=options).steps[-1].text.startswith("A notice tells book of it")
    failed = told(**delivered(12) | {"state": "failed"}, options=options)
    assert "https://book.example/failed" in failed.steps[-1].text
    cancelled = told(**delivered(12) | {"state": "cancelled"}, options=options)
    assert cancelled.steps[-1].step == "ended"


@pytest.mark.parametrize("cause", CAUSES)
def test_a_late_call_says_what_it_waited_for(cause: str) -> None:
    story = told(**delivered(5_000, waited=f"node=200,{cause}=4700"))
    assert (story.verdict, story.late_ms, story.cause) == ("late", 5_000, cause)
    assert story.sentence == f"It was late by 5 s because {CAUSES[cause]}; that attempt delivered it."
    assert (cause, 4_700) in [(step.cause, step.ms) for step in story.steps if step.step == "waited"]


def test_a_wait_for_an_order_names_the_schedule_before() -> None:
    story = told(**delivered(5_000, waited="ordering=5000/the-one-before"))
    (wait,) = [step for step in story.steps if step.step == "waited"]
    assert (wait.behind, wait.text.endswith("last of the-one-before.")) == ("the-one-before", True)


def test_a_late_call_of_an_older_node_says_that_nothing_was_recorded() -> None:
    story = told(**delivered(5_000))
    assert (story.verdict, story.cause) == ("late", None)
    assert "what delayed it was not recorded" in story.sentence


def test_a_late_create() -> None:
    assert told(**delivered(5_000, created_at=UnixMillis(DUE + 4_000))).cause == "late-create"


def test_a_call_that_was_retried() -> None:
    failed = attempt(began=3, ms=12, status=503)
    story = told(made=(failed,), **delivered(3, attempts=2, finished_at=UnixMillis(DUE + 61_500)))
    assert story.verdict == "on-time"
    assert story.sentence.endswith("; attempt 2 delivered it, 61.5 s after its due.")
    assert [step.text for step in story.steps if step.step == "attempt"] == ["Attempt 1 failed: status 503."]


@pytest.mark.parametrize(
    ("columns", "verdict", "cause", "words"),
    [
        ({"now": DUE - 90_000}, "waiting", None, "It is due in 90 s."),
        ({"now": DUE + 9_000, "client_held": True}, "overdue", "client-inactive", "the client was suspended or paused"),
        ({"now": DUE + 9_000, "claimed_by": None}, "overdue", "takeover", "no node holds its poller"),
        ({"now": DUE + 9_000}, "overdue", None, "It is overdue by 9 s; it has not been called yet."),
        ({"now": DUE + 9_000, "in_flight": True}, "overdue", None, "a node is calling it now"),
        (
            {"now": DUE + 2_000, "state": "retrying", "next_attempt_at": DUE + 30_000, "reason": "destination-paused"},
            "overdue",
            "destination-paused",
            "it is looked at again in 28 s",
        ),
        (
            {
                "now": DUE + 2_000,
                "state": "retrying",
                "attempts": 1,
                "first_attempt_at": DUE,
                "last_status": 500,
                "next_attempt_at": DUE + 30_000,
            },
            "on-time",
            None,
            "attempt 1 failed (500) and the next one comes in 28 s",
        ),
        (
            {"state": "skipped", "reason": "late", "finished_at": DUE + 61_000, "fired_by": " waited takeover=60000"},
            "not-called",
            "takeover",
            "It was skipped, late by 61 s because its poller had no living owner.",
        ),
        ({"state": "cancelled", "finished_at": DUE}, "not-called", None, "It was cancelled without a call."),
        (
            {"state": "failed", "finished_at": DUE, "reason": "destination-deleted"},
            "not-called",
            None,
            "its destination does not exist any more",
        ),
        (
            {"state": "failed", "attempts": 2, "first_attempt_at": DUE, "finished_at": DUE + 9, "last_status": 503},
            "on-time",
            None,
            "it was given up after 2 attempts, the last with status 503.",
        ),
        (
            {
                "state": "failed",
                "attempts": 1,
                "first_attempt_at": DUE,
                "finished_at": DUE + 9,
                "last_error": "timeout",
            },
            "on-time",
            None,
            "it was given up after 1 attempt, with timeout.",
        ),
        (
            {"state": "cancelled", "finished_at": DUE, "reason": "rescheduled", "rescheduled_to": ONE.schedule_id},
            "not-called",
            None,
            f"{ONE.schedule_id} is called instead",
        ),
    ],
)
def test_a_call_that_was_not_made_or_not_yet(
    columns: dict[str, Any], verdict: str, cause: str | None, words: str
) -> None:
    story = told(**columns)
    assert (story.verdict, story.cause) == (verdict, cause)
    assert words in story.sentence
    assert {step.step for step in story.steps} <= set(STEPS)


def test_a_snoozed_attempt_has_not_failed() -> None:
    snoozed = attempt(began=3, ms=12, status=202, verb="snooze")
    later = UnixMillis(DUE + 90_000)
    story = told(
        made=(snoozed,),
        now=DUE + 5_000,
        state="retrying",
        reason="snoozed",
        attempts=1,
        first_attempt_at=UnixMillis(DUE + 3),
        next_attempt_at=later,
        last_status=202,
        redelivered_at=later,
        redelivered_after=1,
    )
    texts = [step.text for step in story.steps]
    assert "Attempt 1 was answered with status 202 and the wish to be called again later." in texts
    assert "It is looked at again then: its receiver asked to be called again at that instant." in texts
    assert "redelivered" not in {step.step for step in story.steps}
    assert story.sentence.endswith("; its receiver asked in its answer to attempt 1 (202) to be called again, in 85 s.")


def test_a_redelivery_that_is_due_has_not_failed() -> None:
    later = UnixMillis(DUE + 9_000)
    story = told(
        now=DUE + 5_000,
        state="retrying",
        reason="redelivery",
        attempts=1,
        first_attempt_at=UnixMillis(DUE + 3),
        next_attempt_at=later,
        last_status=204,
        redelivered_at=UnixMillis(DUE + 4_000),
        redelivered_after=1,
    )
    assert story.sentence.endswith("; it is called again on request in 4 s.")
    assert "It was asked to be called again, after 1 attempt." in [step.text for step in story.steps]


def test_doubt_moves_updates_and_redeliveries_are_steps() -> None:
    story = told(
        **delivered(3, redelivered_at=UnixMillis(DUE + 9_000), redelivered_after=1, reason="in-doubt"),
        rescheduled_from=BEFORE.schedule_id,
        revision="2 a,b",
    )
    kinds = [step.step for step in story.steps]
    assert kinds == ["accepted", "moved", "updated", "claimed", "redelivered", "doubt", "ended"]
    assert str(BEFORE.schedule_id) in story.steps[1].text
    assert "updated 2 times" in story.steps[2].text


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0 s"), (7, "0.007 s"), (1_500, "1.5 s"), (119_999, "119.999 s"), (120_000, "2 min"), (90_061_000, "1 d 1 h")],
)
def test_lengths(ms: int, text: str) -> None:
    assert length(ms) == text


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("awaiting", "its receiver has 40 s left to say what became of it"),
        ("acknowledged", "its receiver has said that the work is done"),
        ("receiver-failed", "its receiver has said that the work has failed"),
    ],
)
def test_a_call_that_its_receiver_has_taken_is_awaited(reason: str, said: str) -> None:
    row = delivered(12, state="retrying", finished_at=None, last_status=202, reason=reason)
    made = attempt(began=12, ms=30, status=202, awaiting=True)
    story = told(now=DUE + 20_000, made=(made,), next_attempt_at=UnixMillis(DUE + 60_000), **row)
    assert story.sentence == (
        f"It was on time: its first attempt began 0.012 s after its due; attempt 1 was taken (202) and {said}."
    )
    steps = {step.step: step.text for step in story.steps}
    assert steps["attempt"] == "Attempt 1 was taken: status 202. Its receiver has yet to say what became of it."
    assert ("until then" in steps["next"]) == (reason == "awaiting")
