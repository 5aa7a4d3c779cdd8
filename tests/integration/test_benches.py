"""The benches of what one create and one call cost run, so that they keep up with the code they measure."""

import re
import subprocess
import sys

import pytest

from tests.architecture.sources import ROOT


@pytest.mark.parametrize(
    "arguments",
    [
        "call_cost --rows 640 --rounds 1 --spread 0.1",
        "call_cost --rows 640 --rounds 1 --spread 0.1 --flow-keys 8",
        "create_cost --rounds 1",
        "create_cost --rounds 1 --batch 100",
    ],
)
def test_a_bench_of_costs_runs(arguments: str) -> None:
    module, *options = arguments.split()
    command = [sys.executable, "-m", f"tests.bench.{module}", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"\d us a c(all|reate)", done.stdout), done.stdout
