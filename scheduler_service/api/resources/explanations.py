"""Explain: what became of one schedule, step by step, and why it was late."""

from typing import Annotated

import msgspec
from aiohttp import web
from msgspec import Meta

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.route import RequestContext, Route, json_response
from scheduler_service.api.resources.schedules import SCHEDULES, schedule_id_of
from scheduler_service.api.schemas import Instant
from scheduler_service.domain.clients import Scope
from scheduler_service.domain.instants import format_instant_or_none
from scheduler_service.domain.stories import STEPS, Step, Story, Verdict
from scheduler_service.domain.waits import CAUSES

Cause = Annotated[
    str | None,
    Meta(
        description="What a call waits for: "
        + ". ".join(f"`{cause}`: {sentence}" for cause, sentence in CAUSES.items())
        + ". A newer node may say others."
    ),
]


class StoryStepView(msgspec.Struct, frozen=True, kw_only=True):
    """One step: when it began, and how long it took; null where that is not known. `text` is a sentence for people,
    which may change. `cause` is that of a wait, and `behind` the schedule that came before it under its ordering
    key."""

    step: Annotated[str, Meta(extra_json_schema={"enum": list(STEPS)})]
    at: Instant | None
    seconds: float | None
    text: str
    cause: Cause
    behind: str | None


class StoryView(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a schedule. `sentence` says it for people; it may change, the other fields are for programs.
    `verdict` is about the first attempt: on-time, if it began within a second of its due; late; waiting, if it is
    not due yet; overdue; or not-called. `late_seconds`: how much later than its due it began, or would begin now.
    `cause`: what most of that time was spent on, null if that was not recorded. The key and the request id that
    accepted a schedule are not stored."""

    sentence: str
    verdict: Annotated[str, Meta(extra_json_schema={"enum": list(Verdict)})]
    late_seconds: float | None
    cause: Cause
    steps: list[StoryStepView]


async def explain_schedule(context: RequestContext) -> web.Response:
    story = await context.services.schedules.explain(context.client, schedule_id_of(context))
    return json_response(story_view(story))


def story_view(story: Story) -> StoryView:
    return StoryView(
        sentence=story.sentence,
        verdict=story.verdict,
        late_seconds=_seconds(story.late_ms),
        cause=story.cause,
        steps=[_step_view(step) for step in story.steps],
    )


def _step_view(step: Step) -> StoryStepView:
    return StoryStepView(
        step=step.step,
        at=format_instant_or_none(step.at),
        seconds=_seconds(step.ms),
        text=step.text,
        cause=step.cause,
        behind=step.behind,
    )


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


ROUTES = (
    Route(
        method="GET",
        path=SCHEDULES + "/{schedule_id}:explain",
        access=Access.CLIENT,
        scope=Scope.READ,
        handler=explain_schedule,
        summary="Explain what became of a schedule, step by step, and why it was late",
        response=StoryView,
        cost=3,
    ),
)
