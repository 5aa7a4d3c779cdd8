"""Every line of the pages for users runs as it is printed, against a demo and with the variables that it prints."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.demos import Running, invited
from tests.support.pages import INTERRUPTED, ROOT, blocks, run_python, run_shell

SHOWN = {
    "README.md": (r'"state":"cancelled"',),
    "docs/how-to/first-callback.md": (
        r'handled \S+ \{"hello":"receiver"\}',
        r"that attempt delivered it",
        r"state +cancelled",
    ),
    "docs/how-to/verify-a-signature.md": (
        r'right: \{"order":17\}\nrefused: \{"order":18\}',
        r'"public_key":"whpk_',
    ),
    "docs/how-to/retries-and-dead-letters.md": (
        r"2 +failed .* 503 ",
        r'"redelivered":2,"passed_over":2',
        r"state +delivered",
        r"1 is acknowledged",
    ),
    "docs/how-to/idempotency-and-own-keys.md": (r"Idempotency-Replayed: true", r"2 +delivered .* 204 "),
    "docs/how-to/at-most-once.md": (
        r"state +failed \(in doubt\)",
        r"reason +at-most-once",
        r"last error +connect-refused",
    ),
    "docs/using.md": (r"outcome +delivered: the receiver answered 204", r"unpause_client"),
    "docs/how-to/get-notices.md": (r"state +enabled",),
    "docs/how-to/follow-events.md": (r'"type":"schedule.delivered"', r"schedule\.delivered", r"event: begin"),
    "docs/how-to/know-what-is-overdue.md": (r"schedule\.overdue .*reason=receiver",),
    "docs/operations.md": (r"\d+ of \d+ pollers are owned", r"state +finished"),
    "docs/how-to/order-calls.md": (r"earlier call of its ordering key had not ended",),
    "docs/how-to/crons-and-daylight-saving.md": (
        r"2027-03-28 01:00:00.000Z\n2027-03-29 00:30",  # Berlin: skipped, called right after it
        r"2027-03-27 01:30:00.000Z\n2027-03-29 00:30",  # or not that day
        r"2027-11-07 05:30:00.000Z\n2027-11-07 06:30",  # New York: repeated, called twice
        r"2027-10-02 15:30:00.000Z",  # Lord Howe: half an hour
        r"2027-04-03 14:30:00.000Z\n2027-04-03 15:00:00.000Z\n2027-04-03 15:30",
    ),
    "docs/how-to/long-work.md": (r'"state":"awaiting"', r"delivered .* done "),
    "docs/how-to/answer-a-call.md": (r"< webhook-delivery: abort-message", r"failed .* 489 .* not-again"),
    "docs/how-to/why-was-it-late.md": (r"that attempt delivered it", r'"verdict":"'),
    "docs/how-to/forecast.md": (r'"guaranteed_per_minute":4000', r"\d\d:\d\d +[\d,]+ +#+ +\|"),
    "docs/how-to/after-an-outage.md": (r"action +report", r'"action":"skip"'),
    "docs/how-to/trace-calls.md": (r'"state":"scheduled"',),
    "docs/how-to/test-with-virtual-time.md": (
        r'"attempt":1,.*"status":503,.*"attempt":2,.*"status":503,.*"attempt":3,.*"status":204',
        r'"at":"2027-03-27T07:30:00.000Z".*"at":"2027-03-28T06:30:00.000Z"',
    ),
}
"""What the lines of each page print in the end."""
PRINTED = {
    "docs/how-to/order-calls.md": r"step 1, attempt 1: 204\nstep 2, attempt 1: 503\nstep 2, attempt 2: 204\nstep 3, ",
    "docs/how-to/crons-and-daylight-saving.md": r"2027-11-07T05:30:00\+00:00\n2027-11-08T06:30",
}
"""What their programs print."""
TOLD = {
    "docs/how-to/first-callback.md": (r'signature right  \{"hello": "curl"\}', r'right  \{"hello":"command"\}'),
    "docs/how-to/get-notices.md": (r'"subscription":"failures".*"type":"schedule.failed"', r'"on":"success"'),
    "docs/how-to/long-work.md": (r"answered 202; it awaits a word at http",),
}
"""What the demo shows of it."""
ENDLESS = {"docs/how-to/follow-events.md"}
"""Their program is interrupted."""
NOT_RUN = {"docs/how-to/trace-calls.md"}
"""Their program needs a package of OpenTelemetry that is not among ours."""
TOLD_SECONDS = 170.0
"""The first subscription holds from the next minute on, and a notice whose hint is lost on a busy machine is sent after
the end of its minute."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with invited(tmp_path_factory.mktemp("pages")) as found:
        yield found


@pytest.mark.parametrize("page", SHOWN)
def test_its_lines_do_what_the_page_says(page: str, running: Running, tmp_path: Path) -> None:
    ran = run_shell(page, running.variables, tmp_path, demo_log=running.log)
    assert ran.code == 0, ran.said
    assert [pattern for pattern in SHOWN[page] if re.search(pattern, ran.said) is None] == [], ran.said
    for pattern in TOLD.get(page, ()):
        running.await_line(pattern, seconds=TOLD_SECONDS)


@pytest.mark.parametrize("page", SHOWN)
def test_its_program_runs(page: str, running: Running, tmp_path: Path) -> None:
    if page in NOT_RUN:
        compile("\n".join(blocks(page, "python")), page, "exec")
        return
    ran = run_python(page, running.variables, tmp_path)
    assert ran.code == (INTERRUPTED if page in ENDLESS else 0), ran.said
    assert re.search(PRINTED.get(page, ""), ran.said), ran.said
    if page in ENDLESS:
        assert re.match(r"20\d\d-.* schedule\.\w+ ", ran.said), ran.said


def test_no_page_is_forgotten() -> None:
    pages = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"))}
    assert {name for name in pages if re.search(r"\$(API|CLIENT)\b", "".join(blocks(name, "sh")))} == set(SHOWN)
