"""Every log line's action is in the list of actions, and the list has no others."""

import ast
import re
from collections.abc import Iterator

from scheduler_service.runtime.log_actions import ACTIONS
from tests.architecture.sources import dotted, room_modules

LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
LOGGERS = {"_log", "_LOG", "log", "logger", "context"}
BY_LIBRARIES = {"library-said"}
ACTION = re.compile(r"[a-z]+(-[a-z]+)+")
DEBUG_ONLY = "debug"
PASSES_ON = "scheduler_service/api/http/route.py"
"""It passes on the actions of routes, whose own calls are checked."""


def log_calls() -> Iterator[tuple[str, ast.Call, ast.Module]]:
    """Each call that logs, with its place and its module."""
    for name, tree in room_modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS:
                owner = dotted(node.func.value)
                if owner in LOGGERS and (owner != "context" or node.func.attr == "log"):
                    yield f"{name}:{node.lineno}", node, tree


def constants(node: ast.expr, tree: ast.Module) -> list[str] | None:
    """The texts that an expression may have; None if they cannot be determined."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.IfExp(body=body, orelse=other):
            texts = [constants(one, tree) for one in (body, other)]
            return None if None in texts else [text for one in texts for text in one or ()]
        case ast.Name(id=name):
            found = [
                constants(one.value, tree)
                for one in ast.walk(tree)
                if isinstance(one, ast.Assign) and any(dotted(target) == name for target in one.targets)
            ]
            return None if not found or None in found else [text for one in found for text in one or ()]
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "action":
                    return constants(value, tree)
    return None


def actions_of(call: ast.Call, tree: ast.Module) -> list[str] | None:
    extra = next((keyword.value for keyword in call.keywords if keyword.arg == "extra"), None)
    if extra is not None:
        return constants(extra, tree)
    texts = constants(call.args[0], tree)
    return None if texts is None else [text.partition(" ")[0] for text in texts]


def test_every_line_has_an_action_from_the_list() -> None:
    said: set[str] = set()
    faults: list[str] = []
    for where, call, tree in log_calls():
        assert isinstance(call.func, ast.Attribute)
        if call.func.attr == DEBUG_ONLY or where.startswith(PASSES_ON):
            continue
        actions = actions_of(call, tree)
        if actions is None:
            faults.append(f"{where}: its action can't be read from the source")
            continue
        said.update(actions)
        faults += [f"{where}: {one} is not in the list" for one in actions if one not in ACTIONS]
    assert not faults, "\n".join(faults)
    assert set(ACTIONS) - said - BY_LIBRARIES == set()


def test_actions_are_words_with_hyphens() -> None:
    assert [one for one in ACTIONS if ACTION.fullmatch(one) is None] == []
    assert [one for one, told in ACTIONS.items() if not told.endswith(".")] == []


def test_the_reader_of_sources_sees_every_form() -> None:
    source = (
        '_log.info("a-b x=%s", 1)\n_LOG.info("t", extra={"action": "c-d" if x else "e-f"})\n'
        'action = {"action": "g-h"}\n_LOG.error("t", extra=action)\n_log.info(what)\n'
    )
    tree = ast.parse(source)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    found = [actions_of(call, tree) for call in calls]
    assert found == [["a-b"], ["c-d", "e-f"], ["g-h"], None]
