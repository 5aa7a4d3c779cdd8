"""Secrets are compared in constant time: `==` returns at the first difference, so its time reveals the position."""

import ast
import re

import pytest

from tests.architecture.sources import dotted, room_modules

SECRET = re.compile(r"(^|[._])(secret|secret_hash|hash|digest|hexdigest|token|password|signature|admin_key)(\(\))?$")
KINDS_OF_SETTINGS = "minutehand/config_values.py"
"""Here a variable tells which settings are secrets; none of them is compared."""
CONSTANT_TIME = "hmac.compare_digest"
WHERE = {
    "scheduler_service/runtime/file_secrets.py": 1,
    "scheduler_service/usecases/authenticate.py": 1,
    "scheduler_service/console/openid_pages.py": 1,
    "scheduler_service/console/pages.py": 1,
    "scheduler_service/usecases/sessions.py": 1,
    "minutehand/webhooks.py": 1,
    "scheduler_service/domain/acknowledgements.py": 1,
}
"""All places where a secret is compared, with their number."""


def compared(tree: ast.AST) -> list[tuple[int, str]]:
    """Line and name of operands of ==, != or in that look like a secret. A comparison with None is permitted."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare):
            continue
        operands = [node.left, *node.comparators]
        if any(isinstance(one, ast.Constant) and one.value is None for one in operands):
            continue
        names = [(node.lineno, dotted(one)) for one in operands]
        found += [(line, name) for line, name in names if SECRET.search(name)]
    return found


def test_no_secret_is_compared_otherwise() -> None:
    found = {name: compared(tree) for name, tree in room_modules().items() if name != KINDS_OF_SETTINGS}
    assert {name: places for name, places in found.items() if places} == {}


def test_where_secrets_are_judged() -> None:
    calls = {
        name: sum(
            isinstance(node, ast.Call) and dotted(node.func).endswith(CONSTANT_TIME.partition(".")[2])
            for node in ast.walk(tree)
        )
        for name, tree in room_modules().items()
    }
    assert {name: count for name, count in calls.items() if count} == WHERE


@pytest.mark.parametrize(
    "source",
    [
        "stored.secret_hash == hash_secret(key)",
        "given != self._token",
        "token in known",
        "hashlib.sha256(x).digest() == y",
    ],
)
def test_the_check_finds_plain_comparisons_of_secrets(source: str) -> None:
    assert compared(ast.parse(source))
