"""The requests that a page was made from, as lines for a shell and for the SDKs."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from scheduler_service.api.http.route import operation_id
from scheduler_service.api.openapi.samples import curl_line, python_line, typescript_line
from scheduler_service.api.resources import ROUTES
from scheduler_service.console.operations import Asked

_VARIABLE: Final = re.compile(r"\\?\{(\w+)\\?\}")


class Sample(NamedTuple):
    """How to ask the same without the console. `python` and `typescript` None: the SDKs have no such call."""

    title: str
    curl: str
    python: str | None
    typescript: str | None


def samples_of(asked: Sequence[Asked]) -> list[Sample]:
    return [_sample(one) for one in asked]


def _sample(asked: Asked) -> Sample:
    curl, python, typescript = curl_line(asked.method, asked.path, body=asked.body), None, None
    url = urlsplit(asked.path)
    for method, pattern, operation in _operations():
        if method == asked.method and (found := pattern.fullmatch(url.path)) is not None:
            path = {name: unquote(value) for name, value in found.groupdict().items()}
            query = _query(url.query)
            python = python_line(operation, path=path, query=query, body=asked.body)
            typescript = typescript_line(operation, path=path, query=query, body=asked.body)
            break
    return Sample(f"{asked.method} {url.path}", curl, python, typescript)


def _query(text: str) -> dict[str, str | list[str]]:
    """A name that is repeated has a list of values."""
    return {name: values[0] if len(values) == 1 else values for name, values in parse_qs(text).items()}


@cache
def _operations() -> list[tuple[str, re.Pattern[str], str]]:
    """Method, pattern of the path, and id of each operation."""
    return [
        (route.method, re.compile(_VARIABLE.sub(r"(?P<\1>[^/:]+)", re.escape(route.path))), operation_id(route))
        for route in ROUTES
    ]
