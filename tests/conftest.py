"""What every suite is held to: a mark per directory, a limit of CPU and of time, and repeatable generated cases.

The limit on unit tests is CPU time, so that a busy machine fails nobody; the limit on elapsed time only ends what
hangs.
"""

import os
import secrets
import time
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, core, settings
from hypothesis import strategies as st

from minutehand.__main__ import heed_interrupts
from minutehand.local import machine
from tests.support.kept import made_to_stay

heed_interrupts()  # the programs that tests start and interrupt inherit what this process ignores

if (worker := os.environ.get("PYTEST_XDIST_WORKER")) is not None:
    # No port that one worker has found free is taken by another before it is used.
    machine.CHOICE = machine.CHOICE[int(worker.removeprefix("gw")) :: int(os.environ["PYTEST_XDIST_WORKER_COUNT"])]

pytest_plugins = ["tests.support.cassandra", "tests.support.figures", "tests.support.kafka"]

TESTS = Path(__file__).parent

CPU_SECONDS = {"unit": 2.0, "contract": 2.0, "architecture": 2.0}
HANGING_SECONDS = {
    "unit": 30,
    "contract": 30,
    "architecture": 30,
    "simulation": 300,
    "integration": 180,
    "spark": 300,
    "helm": 60,
    "acceptance": 900,
    "console": 300,
    "typescript": 600,
}
HANGING_SECONDS_WITH_CASSANDRA = 180

_GENERATED = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", _GENERATED, derandomize=True)
settings.register_profile("random", _GENERATED, derandomize=False)
# The same cases on every machine, whatever its environment says; others by --hypothesis-profile random, whose seed the
# head of the run shows for --hypothesis-seed.
settings.load_profile("fixed")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--hypothesis-profile") == "random" and config.getoption("--hypothesis-seed") is None:
        # As an option it reaches the processes of pytest-xdist, too.
        config.option.hypothesis_seed = core.global_force_seed = secrets.randbits(32)


def pytest_report_header() -> list[str]:
    return [] if settings.default.derandomize else [f"--hypothesis-seed={core.global_force_seed}"]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    with made_to_stay():
        return (yield)


@pytest.fixture(scope="session", autouse=True)
def unicode_table() -> None:
    """Worked out once a checkout, in a second or two that are no test's own."""
    st.text().validate()


@pytest.fixture(scope="session", autouse=True)
def no_profiles_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """Commands neither use nor change what the user keeps, also in the programs that tests start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


def suite_of(path: Path) -> str | None:
    """The directory right under `tests` that holds `path`; None for what is elsewhere or belongs to no suite."""
    parts = path.relative_to(TESTS).parts if path.is_relative_to(TESTS) else ()
    return parts[0] if len(parts) > 1 and parts[0] in HANGING_SECONDS else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    for item in items:
        suite = suite_of(item.path)
        if suite is None:
            continue
        item.add_marker(suite)
        if suite == "spark":
            # py4j leaves its sockets to the collector.
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))
            item.add_marker(
                pytest.mark.filterwarnings("ignore:.*socket.socket:pytest.PytestUnraisableExceptionWarning")
            )
        if "cassandra" in getattr(item, "fixturenames", ()):
            item.add_marker("cassandra")
        if item.get_closest_marker("timeout") is None:
            real = item.get_closest_marker("cassandra") is not None
            seconds = max(HANGING_SECONDS[suite], HANGING_SECONDS_WITH_CASSANDRA if real else 0)
            item.add_marker(pytest.mark.timeout(seconds))


def cpu_limit_of(item: pytest.Item) -> float | None:
    """CPU seconds that `item` may use: its `cpu_budget` mark, else its suite's; None on a real Cassandra."""
    if (budget := item.get_closest_marker("cpu_budget")) is not None:
        return float(budget.args[0])
    if item.get_closest_marker("cassandra") is not None:
        return None
    return CPU_SECONDS.get(suite_of(item.path) or "")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    began = time.process_time()
    yield
    limit = cpu_limit_of(item)
    used = time.process_time() - began
    if limit is not None and used > limit:
        pytest.fail(f"used {used:.1f} s of CPU, {limit:g} s are allowed: test less at once", pytrace=False)
