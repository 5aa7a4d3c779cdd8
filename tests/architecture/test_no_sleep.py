"""Tests that wait for real time are slow and lie on a busy machine: these suites move a virtual clock instead."""

import ast

from tests.architecture.sources import dotted, parsed_tests

TIMELESS = ("tests/unit/", "tests/contract/", "tests/simulation/")


def test_no_suite_on_virtual_time_sleeps() -> None:
    sleeping = [
        f"{name}:{node.lineno}"
        for name, module in parsed_tests().items()
        if name.startswith(TIMELESS)
        for node in ast.walk(module)
        if isinstance(node, ast.Call) and dotted(node.func) in {"time.sleep", "asyncio.sleep", "sleep"} and waits(node)
    ]
    assert sleeping == []


def waits(call: ast.Call) -> bool:
    """`sleep(0)` only lets others run."""
    return not (call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0)
