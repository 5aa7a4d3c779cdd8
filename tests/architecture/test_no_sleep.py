"""Tests that wait for real time are slow, and fail on a busy machine: these suites move a virtual clock instead."""

import ast

import pytest

from tests.architecture.sources import dotted, parsed_tests

TIMELESS = ("tests/unit/", "tests/contract/", "tests/simulation/")


def sleeping(module: ast.Module) -> list[int]:
    """The lines that wait for real time."""
    return [
        node.lineno
        for node in ast.walk(module)
        if isinstance(node, ast.Call) and dotted(node.func) in {"time.sleep", "asyncio.sleep", "sleep"} and waits(node)
    ]


@pytest.mark.parametrize("suite", TIMELESS)
def test_no_suite_on_virtual_time_sleeps(suite: str) -> None:
    judged = {name: sleeping(module) for name, module in parsed_tests().items() if name.startswith(suite)}
    assert judged
    assert {name: lines for name, lines in judged.items() if lines} == {}


def test_a_sleep_is_found() -> None:
    source = "await asyncio.sleep(0)\nsleep(1)\nawait asyncio.sleep(pause)\ntime.sleep(0.1)"
    assert sorted(sleeping(ast.parse(source))) == [2, 3, 4]


def waits(call: ast.Call) -> bool:
    """Whether a call waits; `sleep(0)` only lets others run."""
    return not (call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0)
