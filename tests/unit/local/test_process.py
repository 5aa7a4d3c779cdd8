"""Processes identified by number and start: one is completely frozen when the call returns."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from minutehand.processes.identity import ProcessIdentity, end_process, freeze, identify, send_signal

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="looks at process states in /proc, which only Linux has"
)


@pytest.fixture
def busy() -> Iterator[ProcessIdentity]:
    """A process that prints increasing numbers as fast as it can."""
    count = "import itertools\nfor n in itertools.count(): print(n, flush=True)"
    with subprocess.Popen([sys.executable, "-c", count], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        identity = identify(child.pid)
        assert identity is not None
        yield identity
        child.stdout.close()
        end_process(identity, grace_seconds=0.0, reap=child.poll)


def test_a_frozen_process_does_nothing(busy: ProcessIdentity) -> None:
    assert freeze(busy)
    with open(f"/proc/{busy.pid}/stat") as stat:
        assert stat.read().rpartition(")")[2].split()[0] == "T"


def test_a_process_with_another_start_is_not_frozen(busy: ProcessIdentity) -> None:
    assert not freeze(ProcessIdentity(busy.pid, "another start"))
    with open(f"/proc/{busy.pid}/stat") as stat:
        assert stat.read().rpartition(")")[2].split()[0] != "T"
    assert send_signal(busy, signal.SIGCONT)
