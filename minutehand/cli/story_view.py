"""`minutehand schedules explain`: what became of a schedule, and why it was late."""

import typer

from minutehand.cli.options import DEFAULT_URL, AsJson, ClientId, KeyText, Url, connect
from minutehand.cli.output import print_json, print_table, say
from minutehand.cli.schedule_options import ScheduleId


def explain(
    client_id: ClientId, schedule_id: ScheduleId, url: Url = DEFAULT_URL, key: KeyText = None, as_json: AsJson = False
) -> None:
    """Tell what became of a schedule, and why it was late."""
    with connect(url, key) as api:
        story = api.client(client_id).schedules.explain(schedule_id)
    if as_json:
        print_json(story)
        return
    say(story.sentence)
    typer.echo()
    rows = [(step.at, step.seconds, step.step, step.text) for step in story.steps]
    print_table(("AT", "SECONDS", "STEP", "WHAT"), rows, yielding={"WHAT"})
