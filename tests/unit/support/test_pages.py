"""A page whose lines do not work is found."""

from datetime import date
from pathlib import Path

import pytest

from minutehand.local.machine import free_ports
from tests.support import pages
from tests.support.pages import moved, run_python, run_shell


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    (tmp_path / "run").mkdir()
    return tmp_path / "page.md"


def shell(page: Path, *lines: str) -> pages.Ran:
    page.write_text("\n".join(["Text.", "```sh", *lines, "```", "More.", "```sh", "echo the end", "```"]))
    return run_shell(page.name, {}, page.parent / "run", demo_log=page)


def test_all_blocks_run_in_one_shell(page: Path) -> None:
    assert shell(page, "ID=17", "echo a $ID") == (0, "a 17\nthe end\n")


@pytest.mark.parametrize("line", ["no-such-command", "cat no-such-file | sed s/a/b/", "echo $UNSET"])
def test_a_line_that_fails_ends_the_page(page: Path, line: str) -> None:
    code, said = shell(page, line)
    assert code != 0
    assert "the end" not in said


def test_a_request_that_nobody_answers_is_named(page: Path) -> None:
    (port,) = free_ports(1)
    code, said = shell(page, f"curl http://127.0.0.1:{port}/v1")
    assert code != 0
    assert "failed: command curl" in said


def test_a_program_that_raises_has_failed(page: Path) -> None:
    page.write_text("```python\na = 1\n```\n\n```python\nprint(a + b)\n```\n")
    code, said = run_python(page.name, {}, page.parent / "run")
    assert code == 1
    assert "NameError: name 'b'" in said


def test_dates_are_as_far_from_today_as_from_the_day_of_the_examples() -> None:
    text = "from=2026-11-21T00:00:00Z&to=2026-11-28T09:00:00Z at 01a1fe8c-2026-11-21x"
    assert (
        moved(text, today=date(2030, 1, 1))
        == "from=2029-12-31T00:00:00Z&to=2030-01-07T09:00:00Z at 01a1fe8c-2026-11-21x"
    )
