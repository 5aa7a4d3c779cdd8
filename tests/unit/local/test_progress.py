"""Progress as lines of text."""

import io

from minutehand.local.progress import ProgressLines, silent


def test_one_line_for_each_thing_and_its_end() -> None:
    stream = io.StringIO()
    lines = ProgressLines(stream, every_seconds=3600.0)
    for done in (0, 10, 50, 100, 100):
        lines(done, 100, "downloading")
    lines(0, 0, "waiting")
    lines(0, 0, "waiting")
    assert stream.getvalue().splitlines() == ["downloading 0 %", "downloading 100 %", "waiting"]


def test_a_pause_of_nothing_shows_every_call() -> None:
    stream = io.StringIO()
    lines = ProgressLines(stream, every_seconds=0.0)
    for done in (1, 2, 300):
        lines(done, 200, "starting")
    assert stream.getvalue().splitlines() == ["starting 0 %", "starting 1 %", "starting 100 %"]
    silent(1, 2, "nothing")


def test_an_unchanged_share_is_printed_once() -> None:
    stream = io.StringIO()
    lines = ProgressLines(stream, every_seconds=0.0)
    for done in (8, 9, 9, 9, 10):
        lines(done, 10, "starting")
    assert stream.getvalue().splitlines() == ["starting 80 %", "starting 90 %", "starting 100 %"]
