"""The reference pages, generated from the programs' own declarations so that they can't drift: the default settings
file, and the list of metrics."""

import ast
import inspect
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

from cql.metrics import METRICS as OF_STORAGE
from minutehand.config_values import FILE_SUFFIX, PREFIX, Table
from minutehand.ingest.metrics import METRICS as OF_INGEST
from minutehand.tracing.export import METRICS as OF_TRACES
from poller_cluster.ops.metrics import METRICS as OF_NODES
from scheduler_service.api.metrics import METRICS as OF_REQUESTS
from scheduler_service.api.metrics import PROCESS_METRICS as OF_APIS
from scheduler_service.runtime.certificates import METRICS as OF_CERTIFICATES
from scheduler_service.runtime.metrics import BUILD, Kind, Metric

PAGE_WIDTH = 100

_HEAD = f"""Minutehand's settings, with their defaults.

Every setting may also be given by the environment, which wins: {PREFIX}TABLE_KEY, lists separated by commas, such as
{PREFIX}CASSANDRA_CONTACT_POINTS=10.0.0.1,10.0.0.2. Name this file with --config or {PREFIX}CONFIG."""

PROGRAMS: Final[dict[str, tuple[Metric[Any], ...]]] = {
    "api": (*BUILD, *OF_REQUESTS, *OF_APIS, *OF_STORAGE, *OF_TRACES, *OF_CERTIFICATES),
    "node": (*BUILD, *OF_NODES, *OF_STORAGE, *OF_TRACES, *OF_CERTIFICATES),
    "ingest": (*BUILD, *OF_INGEST),
}
"""The metrics of each program, beside `process_*` and `python_info`, which every Python program has."""


def render_page(tables: Iterable[Table]) -> str:
    """TOML that gives every setting its default; those without a default are commented out."""
    blocks = ["\n".join(_comment(paragraph) for paragraph in _HEAD.split("\n\n"))]
    blocks += ["\n".join(_table(table)) for table in tables]
    return "\n\n\n".join(blocks) + "\n"


def defaults(table: Table) -> dict[str, Any]:
    """The default of every key; None for those that have none."""
    by_name = {one.name: one for one in fields(table.type)}
    return {name: _default(by_name[name]) for name in table.typed_keys()}


def field_docs(type_: type[Any]) -> dict[str, str]:
    """The string below each field of a dataclass and of those that it extends, as one line each."""
    bodies = [_body_of(one) for one in type_.__mro__ if is_dataclass(one)]
    return {
        node.target.id: " ".join(str(below.value.value).split())
        for body in reversed(bodies)
        for node, below in pairwise(body)
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
    }


def _body_of(type_: type[Any]) -> list[ast.stmt]:
    (body,) = (
        node.body
        for node in ast.parse(textwrap.dedent(inspect.getsource(type_))).body
        if isinstance(node, ast.ClassDef)
    )
    return body


def summary(type_: type[Any]) -> str:
    """A dataclass's docstring without the sentences for programmers."""
    text = " ".join((type_.__doc__ or "").split())
    sentences = [sentence for sentence in text.replace("`", "").split(". ") if "aise" not in sentence]
    return ". ".join(sentences).rstrip(".") + "." if sentences else ""


def toml(value: Any) -> str:
    """A default as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, int) and value >= 10_000:
        return f"{value:_}"
    return str(value)


def _table(table: Table) -> Iterator[str]:
    yield _comment(summary(table.type))
    yield f"[{table.name}]"
    docs = field_docs(table.type)
    for name, value in defaults(table).items():
        yield ""
        yield _comment(docs[name].replace("`", "").replace("None:", "Left out:"))
        if name in table.secrets and f"{name}{FILE_SUFFIX}" not in docs:
            yield f'# {name}{FILE_SUFFIX} = "/path/of/a/file/that/holds/it"'
        elif value is None:
            yield f"# {name} ="
        else:
            yield f"{name} = {toml(value)}"


def _default(one: "Field[Any]") -> Any:
    if one.default_factory is not MISSING:
        return one.default_factory()
    return None if one.default is MISSING else one.default


def _comment(text: str) -> str:
    return textwrap.fill(text, PAGE_WIDTH, initial_indent="# ", subsequent_indent="# ", break_long_words=False)


class Documented(NamedTuple):
    """One metric. `programs`: those that expose it."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    programs: tuple[str, ...]
    meaning: str


def documented() -> list[Documented]:
    """All metrics by name. Raises ValueError where two programs use one name for different things."""
    found: dict[str, Documented] = {}
    for program, metrics in PROGRAMS.items():
        for metric in metrics:
            one = Documented(metric.name, metric.kind, metric.labels, (program,), metric.meaning)
            if (known := found.get(metric.name)) is not None:
                if known._replace(programs=()) != one._replace(programs=()):
                    raise ValueError(f"{metric.name} means different things to {known.programs} and {program}")
                one = known._replace(programs=(*known.programs, program))
            found[metric.name] = one
    return [found[name] for name in sorted(found)]
