"""How often a process that ends is restarted, and the settings of several processes on one machine."""

from pathlib import Path

from minutehand.config import load_settings
from minutehand.processes.several import cores, node_works
from minutehand.processes.workers import LONG_RUN_SECONDS, LONGEST_RESTART_SECONDS, Pauses

ENVIRONMENT = {"MINUTEHAND_CLUSTER_TOKEN": "0123456789abcdef"}


def test_pauses_double_up_to_a_bound_and_begin_again_after_a_long_run() -> None:
    pauses = Pauses()
    assert [pauses.after(0.5) for _ in range(7)] == [1.0, 2.0, 4.0, 8.0, 16.0, LONGEST_RESTART_SECONDS, 30.0]
    assert pauses.after(LONG_RUN_SECONDS) == 1.0
    assert pauses.after(0.5) == 2.0


def test_every_process_is_a_node_of_its_own() -> None:
    settings = load_settings(environment=ENVIRONMENT)
    works = node_works(settings, node_id="host", processes=3, config=None)
    assert [one.name for one in works] == ["host-0", "host-1", "host-2"]
    assert works[1].arguments == ["node", "--processes", "1", "--node-id", "host-1"]
    assert all(one.variables == {} for one in works), "each takes a free port"


def test_a_configured_port_is_the_first_ones() -> None:
    settings = load_settings(environment={**ENVIRONMENT, "MINUTEHAND_OPS_PORT": "7100"})
    works = node_works(settings, node_id="host", processes=2, config=Path("a.toml"))
    assert [one.variables["MINUTEHAND_OPS_PORT"] for one in works] == ["7100", "7101"]
    assert works[0].arguments[:3] == ["node", "--config", "a.toml"]


def test_at_least_one_core_is_counted() -> None:
    assert cores() >= 1
