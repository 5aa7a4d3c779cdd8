"""The TypeScript SDK, compiled as its package is, or skipped loudly."""

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.support.generators import TYPESCRIPT_FILES, GeneratorsUnavailable, ensure_node

NOT_IN_GIT = ("node_modules", "dist", "build")


async def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Run a program and return its output. Raises AssertionError with the output if it fails."""
    process = await asyncio.create_subprocess_exec(
        *map(str, command),
        cwd=cwd,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(cwd), **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0, printed.decode()
    return printed.decode()


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package, compiled, with its tools beside it."""
    try:
        installed = ensure_node(TYPESCRIPT_FILES)
    except GeneratorsUnavailable as error:
        pytest.skip(f"the TypeScript SDK was NOT tried: {error}")
    copy = tmp_path_factory.mktemp("sdk") / "typescript"
    shutil.copy(TYPESCRIPT_FILES.parent / "webhook_vectors.json", copy.parent)
    shutil.copytree(TYPESCRIPT_FILES, copy, ignore=shutil.ignore_patterns(*NOT_IN_GIT))
    (copy / "node_modules").symlink_to(installed / "node_modules")
    asyncio.run(run("npm", "run", "--silent", "build", cwd=copy))
    return copy
