"""The progress of a start follows the server's log."""

from pathlib import Path

import pytest

from minutehand.local.stages import STAGES, StartStages


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "system.log"


def write(log: Path, text: bytes) -> None:
    with log.open("ab") as file:
        file.write(text)


def test_each_stage_begins_at_its_share(log: Path) -> None:
    stages = StartStages(log, began=100.0)
    assert stages.percent(100.0) == 0
    for now, (line, share) in enumerate(STAGES, start=101):
        write(log, b"INFO [main] " + line + b"...\nINFO [main] something else\n")
        assert stages.percent(now) == share


def test_it_moves_on_within_a_stage_and_does_not_reach_the_next(log: Path) -> None:
    stages = StartStages(log, began=0.0)
    write(log, STAGES[0][0])
    shares = [stages.percent(now) for now in (0.0, 0.2, 0.4, 1.0, 3.0, 1e6)]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (STAGES[0][1], STAGES[1][1] - 1)
    assert len(set(shares)) > 3


def test_stages_that_pass_between_two_looks_are_all_seen(log: Path) -> None:
    stages = StartStages(log, began=0.0)
    write(log, b"\n".join(line for line, _ in STAGES[:4]))
    assert stages.percent(1.0) == STAGES[3][1]


def test_a_line_that_is_half_written_is_seen_when_it_is_whole(log: Path) -> None:
    stages = StartStages(log, began=0.0)
    line, share = STAGES[0]
    write(log, b"x" * 1000 + line[:5])
    assert stages.percent(0.0) == 0
    write(log, line[5:])
    assert stages.percent(0.0) == share
