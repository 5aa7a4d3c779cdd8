"""Clients that other generators make of the OpenAPI document, with warnings as errors, and the results of its linters.

The calls are those of `tests/integration/generated/calls.py` and its twin in TypeScript, against the API over the store
in memory.
"""

import asyncio
import re
import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from scheduler_service.api.http.route import operation_id
from scheduler_service.api.resources import ROUTES
from tests.support.api import ADMIN_KEY, ApiHarness
from tests.support.api_document import api_document
from tests.support.generators import NODE_FILES, GeneratorsUnavailable, ensure_node, ensure_python

T = TypeVar("T")
INSTALLING_SECONDS = 600
pytestmark = pytest.mark.timeout(INSTALLING_SECONDS)

ANSWERED = {
    "replayed": [201, 200, True],
    "paged": [True, True],
    "key": "cart/17",
    "triggered": "nightly",
    "cancelled": "cancelled",
    "problems": [
        [401, "/problems/unauthorized"],
        [422, "/problems/invalid"],
        [422, "/problems/idempotency-key-reused"],
        [409, "/problems/cancelled"],
        [412, "/problems/precondition-failed"],
        [404, "/problems/not-found"],
    ],
    "faults": ["/callback/url", "/delay_seconds"],
    "explained": 200,
}
"""The answers that both clients get."""
TSC = ("--strict", "--noUncheckedIndexedAccess", "--target", "es2022", "--module", "nodenext", "--types", "node")


def or_skip(ensure: Callable[[], T]) -> T:
    """Skip the test unless the programs can be installed; they are at their first use on this machine."""
    try:
        return ensure()
    except GeneratorsUnavailable as error:
        pytest.skip(f"the OpenAPI document was NOT tried with generators: {error}")


@pytest.fixture(scope="module")
def python() -> Path:
    return or_skip(ensure_python)


@pytest.fixture(scope="module")
def node() -> Path:
    return or_skip(ensure_node)


@pytest.fixture
def document(tmp_path: Path) -> Path:
    return written(api_document().value, tmp_path / "openapi.json")


def written(value: Any, path: Path) -> Path:
    path.write_bytes(msgspec.json.encode(value))
    return path


async def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Run a program and return its output. Raises AssertionError with the output if it fails."""
    process = await asyncio.create_subprocess_exec(
        *map(str, command),
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0, printed.decode()
    return printed.decode()


async def answers(*command: str | Path, cwd: Path, **environment: str) -> Any:
    """The output of a program that calls an API made for it."""
    async with ApiHarness() as api:
        assert api.server is not None
        await api.add_built_in_clients()
        url = f"http://127.0.0.1:{api.server.port}"
        return msgspec.json.decode(await run(*command, url, ADMIN_KEY, cwd=cwd, **environment))


async def made_in_python(programs: Path, document: Path) -> Path:
    """The package that openapi-python-client generates from a document. Raises AssertionError if it warns."""
    made = document.with_name("minutehand_api")
    await run(
        programs / "openapi-python-client",
        *("generate", "--path", document, "--output-path", made, "--meta", "none", "--fail-on-warning"),
        cwd=document.parent,
        PATH=f"{programs}:/usr/bin:/bin",
    )
    return made


async def test_the_python_client_has_every_operation_with_every_answer(python: Path, document: Path) -> None:
    made = await made_in_python(python, document)
    for route in ROUTES:
        operation = api_document().operation(route)
        folder = made / "api" / operation["tags"][0].replace("-", "_")
        source = (folder / f"{operation_id(route)}.py").read_text()
        assert re.findall(r"if response\.status_code == (\d+):", source) == list(operation["responses"]), route.path


async def test_the_python_client_calls_the_api(python: Path, document: Path) -> None:
    await made_in_python(python, document)
    calls = [python / "python", NODE_FILES / "calls.py"]
    assert await answers(*calls, cwd=document.parent, PYTHONPATH=str(document.parent)) == ANSWERED


async def test_an_answer_that_the_generator_leaves_out_is_noticed(python: Path, document: Path) -> None:
    value = deepcopy(api_document().value)
    narrowed = {"properties": {"status": {"const": 409}}}
    for response in value["components"]["responses"].values():
        content = response["content"]["application/problem+json"]
        content["schema"] = {"allOf": [content["schema"], narrowed]}
    written(value, document)
    with pytest.raises(AssertionError, match="response will be omitted"):
        await made_in_python(python, document)


async def test_the_typescript_client_compiles_and_calls_the_api(node: Path, document: Path) -> None:
    folder, programs = document.parent, node / "node_modules" / ".bin"
    (folder / "node_modules").symlink_to(node / "node_modules")
    shutil.copy(NODE_FILES / "calls.ts", folder)
    (folder / "package.json").write_text('{"type": "module"}')
    # By default, fields with a default are required in requests too.
    options = ("--output", "api.d.ts", "--default-non-nullable", "false")
    await run(programs / "openapi-typescript", document, *options, cwd=folder)
    await run(programs / "tsc", *TSC, "calls.ts", cwd=folder)
    assert await answers("node", "calls.js", cwd=folder) == ANSWERED


async def test_redocly_finds_nothing(node: Path, document: Path) -> None:
    """Except that `by-key` could be the id of a schedule; but ids are UUIDs."""
    (document.parent / "redocly.yaml").write_text("extends: [recommended]\nrules: {no-ambiguous-paths: off}\n")
    lint = [node / "node_modules" / ".bin" / "redocly", "lint", document, "--max-problems", "20"]
    printed = await run(*lint, cwd=document.parent, REDOCLY_TELEMETRY="off", REDOCLY_SUPPRESS_UPDATE_NOTICE="true")
    assert "Your API description is valid" in printed
    assert "warning" not in printed.partition("validating")[2], printed


async def test_spectral_finds_nothing(node: Path, document: Path) -> None:
    """Except that the document names no contact; the operator who runs the API is the contact."""
    (document.parent / ".spectral.yaml").write_text("extends: ['spectral:oas']\nrules: {info-contact: off}\n")
    lint = [node / "node_modules" / ".bin" / "spectral", "lint", document, "--fail-severity", "hint"]
    assert "No results" in await run(*lint, cwd=document.parent)
