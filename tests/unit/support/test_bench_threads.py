"""What the bench reports about a JVM's compilers and collector, read from a made-up /proc."""

import os
from pathlib import Path

import pytest

from tests.bench.jvm import JvmThreads, kind_of

TICKS = os.sysconf("SC_CLK_TCK")
PID = 7


def put(proc: Path, tid: int, name: str, seconds: float, *, started: int = 100) -> None:
    """Half of it is user time, half system time."""
    ticks = round(seconds * TICKS)
    directory = proc / str(PID) / "task" / str(tid)
    directory.mkdir(parents=True, exist_ok=True)
    fields = ["S", *["0"] * 10, str(ticks // 2), str(ticks - ticks // 2), *["0"] * 6, str(started), *["0"] * 20]
    (directory / "stat").write_text(f"{tid} ({name}) {' '.join(fields)}\n")


def end(proc: Path, tid: int) -> None:
    directory = proc / str(PID) / "task" / str(tid)
    (directory / "stat").unlink()
    directory.rmdir()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("C1 CompilerThre", "compiler"),
        ("C2 CompilerThre", "compiler"),
        ("GC Thread#1", "collector"),
        ("G1 Main Marker", "collector"),
        ("G1 Conc#0", "collector"),
        ("G1 Refine#0", "collector"),
        ("VM Thread", None),
        ("java", None),
        ("CompactionExecu", None),
        ("GossipTasks:1", None),
        ("MutationStage-1", None),
    ],
)
def test_threads_are_known_by_name(name: str, kind: str | None) -> None:
    assert kind_of(name) == kind


def test_only_what_was_used_since_the_first_look_counts(tmp_path: Path) -> None:
    put(tmp_path, 11, "C2 CompilerThre", 40.0)
    put(tmp_path, 12, "GC Thread#0", 5.0)
    put(tmp_path, 13, "MutationStage-1", 70.0)
    threads = JvmThreads(PID, proc=tmp_path)
    threads.look()
    put(tmp_path, 11, "C2 CompilerThre", 41.5)
    put(tmp_path, 12, "GC Thread#0", 5.25)
    put(tmp_path, 13, "MutationStage-1", 90.0)
    threads.look()
    assert threads.used() == {"compiler": 1.5, "collector": 0.25}


def test_a_thread_that_has_ended_is_counted_to_the_last_look(tmp_path: Path) -> None:
    put(tmp_path, 10, "C1 CompilerThre", 1.0)
    put(tmp_path, 11, "C2 CompilerThre", 1.0)
    threads = JvmThreads(PID, proc=tmp_path)
    threads.look()
    put(tmp_path, 11, "C2 CompilerThre", 3.0)
    threads.look()
    end(tmp_path, 11)
    put(tmp_path, 10, "C1 CompilerThre", 1.5)
    threads.look()
    assert threads.used()["compiler"] == 2.5


def test_all_of_a_thread_that_has_begun_since_counts_also_under_a_former_ones_number(tmp_path: Path) -> None:
    put(tmp_path, 11, "C1 CompilerThre", 8.0, started=100)
    threads = JvmThreads(PID, proc=tmp_path)
    threads.look()
    end(tmp_path, 11)
    put(tmp_path, 11, "C1 CompilerThre", 0.5, started=900)
    put(tmp_path, 12, "C2 CompilerThre", 1.0, started=901)
    threads.look()
    assert threads.used()["compiler"] == 1.5


def test_a_name_with_a_bracket_and_a_process_that_is_gone(tmp_path: Path) -> None:
    put(tmp_path, 11, "C2 Compiler) (x", 2.0)
    threads = JvmThreads(PID, proc=tmp_path)
    threads.look()
    put(tmp_path, 11, "C2 Compiler) (x", 2.5)
    threads.look()
    assert threads.used() == {"compiler": 0.5, "collector": 0}
    gone = JvmThreads(PID + 1, proc=tmp_path)
    gone.look()
    assert gone.used() == {}
