"""A public constant that is defined twice has one value."""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping

from tests.architecture.sources import room_modules


def number(value: ast.expr | None) -> object:
    """The value of an expression of literals; None if it is no number."""
    if value is None or any(isinstance(node, ast.Name | ast.Call | ast.Attribute) for node in ast.walk(value)):
        return None
    found = eval(compile(ast.Expression(value), "constant", "eval"), {"__builtins__": {}})
    return found if type(found) in (int, float) else None


def constants(module: ast.Module) -> Iterator[tuple[str, object]]:
    """The public names in capitals that a module binds to numbers."""
    for node in module.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=value)
            ):
                if name.isupper() and not name.startswith("_") and (found := number(value)) is not None:
                    yield name, found


def ambiguous(modules: Mapping[str, ast.Module]) -> dict[str, dict[object, list[str]]]:
    """Names with different numbers in different modules, with the modules of each number."""
    homes: dict[str, dict[object, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path, module in modules.items():
        for name, value in constants(module):
            homes[name][value].append(path)
    return {name: dict(values) for name, values in homes.items() if len(values) > 1}


def parsed(*sources: str) -> Mapping[str, ast.Module]:
    return {str(number): ast.parse(source) for number, source in enumerate(sources)}


def test_a_constant_has_one_value_in_all_modules() -> None:
    modules = room_modules()
    assert sum(1 for module in modules.values() for _ in constants(module)) > 100
    assert ambiguous(modules) == {}


def test_two_values_of_one_name_are_found() -> None:
    assert ambiguous(parsed("PAGE = 100", "PAGE: Final = 10 * 100")) == {"PAGE": {100: ["0"], 1000: ["1"]}}
    assert ambiguous(parsed("PAGE = 1_000", "PAGE = 1000\nROWS = 2")) == {}
    assert ambiguous(parsed("_PAGE = 1\nNAME = 'a'", "_PAGE = 2\nNAME = 'b'\nWAIT = OTHER * 2", "WAIT = 2")) == {}
