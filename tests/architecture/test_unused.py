"""The rooms contain nothing that is unused, or used by tests alone.

A name at the top of a module counts as used where its module loads it, another module imports it, or anything has it as
an attribute; a method where it is an attribute of anything but `self`, or of `self` in its class, a base or a subclass.
What a template reads of an object counts as its attribute. So an unused name that is equal to a used one may be
overlooked, but no used name is reported.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set

from tests.architecture.sources import ROOT, dotted, room_modules

FOR_USERS = ("minutehand/client/", "minutehand/webhooks.py")
"""Their definitions are for users' programs."""
BY_LIBRARIES = {
    # the Cassandra driver
    "new_authenticator", "deserialize", "on_up", "on_down", "on_add", "on_remove",
    # httptools, h2, aiohttp, prometheus_client
    "on_message_begin", "on_headers_complete", "on_message_complete", "_receive_frame", "handle_error",
    "describe",
    # a test that compares the list with the logs
    "ACTIONS",
}  # fmt: skip
"""Names that are called or read from outside of the rooms."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Uses:
    """Loads of names and attributes in modules."""

    def __init__(self, modules: Mapping[str, ast.Module]) -> None:
        self.names: set[tuple[str, str]] = set()
        self.imported: set[tuple[str, str]] = set()
        self.attributes: set[str] = set()
        self.own: dict[str, set[str]] = defaultdict(set)
        """Attributes of `self`, by class."""
        self.bases: dict[str, set[str]] = {}
        self.methods: list[tuple[str, str, Function]] = []
        for path, tree in modules.items():
            self._walk(tree, path, "")

    def _walk(self, node: ast.AST, path: str, class_: str) -> None:
        for child in ast.iter_child_nodes(node):
            inside = class_
            match child:
                case ast.Name(id=name, ctx=ast.Load()):
                    self.names.add((path, name))
                case ast.ImportFrom(module=str(module), names=names):
                    self.imported.update((module, alias.name) for alias in names)
                case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=attr) if class_:
                    self.own[class_].add(attr)
                case ast.Attribute(attr=attr):
                    self.attributes.add(attr)
                case ast.MatchClass(kwd_attrs=attributes):
                    self.attributes.update(attributes)
                case ast.ClassDef(name=inside, bases=bases, body=body):
                    plain = [base.value if isinstance(base, ast.Subscript) else base for base in bases]
                    self.bases.setdefault(inside, set()).update(dotted(base).split(".")[-1] for base in plain)
                    self.methods += [(path, inside, one) for one in body if isinstance(one, Function)]
            self._walk(child, path, inside)

    def of_method(self, class_: str, name: str) -> bool:
        return name in self.attributes or any(name in self.own[one] for one in self._family(class_))

    def _family(self, class_: str) -> set[str]:
        found, waiting = {class_}, [class_]
        while waiting:
            one = waiting.pop()
            related = {base for base in self.bases.get(one, ()) if base in self.bases}
            related |= {other for other, bases in self.bases.items() if one in bases}
            waiting += related - found
            found |= related
        return found


def at_top(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    for node in tree.body:
        match node:
            case ast.FunctionDef(decorator_list=[]) | ast.AsyncFunctionDef(decorator_list=[]) | ast.ClassDef():
                yield node.name, node
            case ast.Assign(targets=targets):
                yield from ((target.id, node) for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name, node


def read_by_templates() -> set[str]:
    """Names that follow a dot in the console's templates."""
    templates = (ROOT / "scheduler_service/console/templates").glob("*.html")
    return {name for one in templates for name in re.findall(r"\.([a-z]\w*)", one.read_text())}


def unused(modules: Mapping[str, ast.Module], *, also: Set[str] = frozenset()) -> list[str]:
    """`also`: attributes that others than modules read."""
    uses, found = Uses(modules), []
    uses.attributes |= also
    for path, tree in modules.items():
        module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        found += [
            (path, node.lineno, name, name)
            for name, node in at_top(tree)
            if (path, name) not in uses.names and (module, name) not in uses.imported and name not in uses.attributes
        ]
    found += [
        (path, method.lineno, method.name, f"{class_}.{method.name}")
        for path, class_, method in uses.methods
        if not uses.of_method(class_, method.name)
    ]
    return [
        f"{path}:{line}: {shown}"
        for path, line, name, shown in sorted(found)
        if not path.startswith(FOR_USERS) and not name.startswith("__") and name not in BY_LIBRARIES
    ]


def test_what_is_there_is_used_by_more_than_tests() -> None:
    assert unused(room_modules(), also=read_by_templates()) == []


def test_exceptions_are_there() -> None:
    modules = room_modules()
    defined = {method.name for _, _, method in Uses(modules).methods}
    assert BY_LIBRARIES - defined - {name for tree in modules.values() for name, _ in at_top(tree)} == set()


def test_the_counter_sees_every_kind() -> None:
    sources = {
        "a/b.py": """
from a.c import Base, used
USED = 1
LEFT = USED
class Inner(Base):
    def run(self): self.step(); used()
    def step(self): ...
    def lost(self): ...
class Library(elsewhere.Listener):
    def on_up(self): ...
    def on_fire(self): ...
def gone(): ...
@app.command()
def command(): Inner().run(); Library()
""",
        "a/c.py": "class Base:\n    def step(self): ...\n    def left(self): ...\ndef used(): ...\nmissed: int = 3\n",
    }
    found = unused({name: ast.parse(text) for name, text in sources.items()})
    lost = ["LEFT", "Inner.lost", "Library.on_fire", "gone", "Base.left", "missed"]
    assert [one.split(": ")[1] for one in found] == lost
