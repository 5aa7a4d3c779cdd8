"""A program written for BigBen runs unchanged: whole processes, a real Cassandra, a receiver."""

import subprocess
import sys
from pathlib import Path

from tests.support.processes import Deployment

PROGRAM = Path(__file__).parents[1] / "examples" / "bigben_program.py"


def run_program(base: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(PROGRAM), base], capture_output=True, text=True, timeout=240, check=False
    )


def test_a_program_written_for_bigben_runs_unchanged(cluster: Deployment) -> None:
    cluster.start_api(variables={"MINUTEHAND_BIGBEN_CLIENT": "shop", "MINUTEHAND_BIGBEN_KEYLESS": "manage"})
    cluster.start_node("one")
    cluster.register("shop", poller_quota=20)
    done = run_program(f"{cluster.api_url}/bigben")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.splitlines()[-1].endswith("calls came: all as it was")
