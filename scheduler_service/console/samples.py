"""The requests that a page was made from, as lines for a shell."""

import json
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from scheduler_service.console.operations import Asked


class Sample(NamedTuple):
    """How to ask the same without the console."""

    title: str
    curl: str


def samples_of(asked: Sequence[Asked]) -> list[Sample]:
    return [Sample(f"{one.method} {one.path}", _curl(one)) for one in asked]


def _curl(asked: Asked) -> str:
    method = "" if asked.method == "GET" else f" -X {asked.method}"
    parts = [f'curl{method} "$API{asked.path}"', '-H "Authorization: Bearer $KEY"']
    if asked.body is not None:
        parts += ["-H 'Content-Type: application/json'", f"-d {shlex.quote(json.dumps(asked.body))}"]
    return " \\\n     ".join(parts)
