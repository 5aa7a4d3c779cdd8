"""Every reason that code gives to an outcome is in the list that users read, and no other."""

import ast
from collections.abc import Iterator
from importlib import import_module
from typing import get_args

from scheduler_service.domain.reasons import REASONS
from scheduler_service.domain.retry import GiveUpReason
from scheduler_service.domain.retry_rows import SUPERSEDED
from tests.architecture.sources import ROOT, room_modules

_POSITION = {"unsent": 2, "_ended": 2}
"""Functions that take a reason without its name."""
_OTHERS = {"error", "warning", "ReasonView", "RedrivenItemView", "RescheduleItemView"}
"""Calls whose `reason` is that of a log line or of an answer."""


def values(tree: ast.Module) -> Iterator[ast.expr]:
    """The expressions of reasons: arguments, defaults of parameters, answers of functions that choose one."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if name not in _OTHERS:
                yield from (keyword.value for keyword in node.keywords if keyword.arg == "reason")
                position = _POSITION.get(name, len(node.args))
                yield from node.args[position : position + 1]
                # Of the ends of notices only failures are shown, as dead letters.
                if name == "_end" and [ast.unparse(state) for state in node.args[1:2]] == ["State.FAILED"]:
                    yield node.args[2]
            case ast.FunctionDef(name="_reason"):
                yield from (each.value for each in ast.walk(node) if isinstance(each, ast.Return) and each.value)
            case ast.arguments():
                pairs = zip(node.kwonlyargs, node.kw_defaults, strict=True)
                yield from (default for one, default in pairs if one.arg == "reason" and default is not None)


def test_reasons_are_those_that_outcomes_get() -> None:
    found = set(get_args(GiveUpReason))
    for path, tree in room_modules().items():
        if not path.startswith(("scheduler_service/", "poller_cluster/")) or "reason" not in (ROOT / path).read_text():
            continue
        parts = [part for value in values(tree) for part in ast.walk(value)]
        found.update(part.value for part in parts if isinstance(part, ast.Constant) and type(part.value) is str)
        constants = {part.id for part in parts if isinstance(part, ast.Name) and part.id.isupper()}
        if constants:
            module = import_module(path.removesuffix(".py").replace("/", "."))
            found.update(getattr(module, name) for name in constants)
    assert found - {SUPERSEDED, ""} == REASONS.keys()
