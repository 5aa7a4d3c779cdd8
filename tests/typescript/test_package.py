"""The package: its own tests, what is in it, its README, and its use of an API over the store in memory."""

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from minutehand.local.machine import free_ports
from minutehand.version import VERSION
from poller_cluster.delivery.settings import DeliverySettings
from poller_cluster.settings import ReceiverSettings
from poller_cluster.trial_calls import TrialCalls
from tests.support.api import ADMIN_KEY, ApiHarness, ManualClock
from tests.support.delivery import CLOCK, LOOPBACK
from tests.support.generators import ROOT, TYPESCRIPT_FILES
from tests.typescript.conftest import run

ANSWERED = {
    "health": "ok",
    "repeated": True,
    "batch": [201, ["/callback/url"]],
    "listed": True,
    "counted": 3,
    "cancelled": ["cancelled", "cancelled"],
    "key": ["precondition-failed", "cart/17", True, False],
    "cron": ["active", "nightly", ["1970-01-01T01:30:00.000Z"]],
    "exchange": 204,
    "received": [[True, "shop", 1, True]] * 2,
    "secrets": [True],
    "refusals": ["unauthorized", "cancelled", "not-found", "precondition-failed"],
}


@asynccontextmanager
async def calling_api() -> AsyncIterator[ApiHarness]:
    """An API that really sends its trial calls, at the present time."""
    calls = TrialCalls(
        clock=CLOCK, policy=LOOPBACK, settings=DeliverySettings(), receivers=ReceiverSettings(), version=VERSION
    )
    async with ApiHarness(trial_calls=calls, network=LOOPBACK, clock=ManualClock(CLOCK.wall_ms())) as api:
        await api.add_built_in_clients()
        yield api
    await calls.stop()


def url_of(api: ApiHarness) -> str:
    assert api.server is not None
    return f"http://127.0.0.1:{api.server.port}"


@pytest.fixture(scope="module")
def tested(package: Path) -> str:
    """What the package's own tests print."""
    return asyncio.run(run("npm", "test", cwd=package))


def test_its_own_tests_pass(tested: str) -> None:
    counts = {name: int(count) for name, count in re.findall(r"^# (tests|pass|fail|skipped) (\d+)$", tested, re.M)}
    assert counts["tests"] == counts["pass"] > 70
    assert (counts["fail"], counts["skipped"]) == (0, 0)


async def test_what_is_packed_is_what_is_used(package: Path) -> None:
    printed = await run("npm", "pack", "--dry-run", "--json", "--ignore-scripts", cwd=package)
    [packed] = json.loads(printed)
    sources = [path.stem for path in (TYPESCRIPT_FILES / "src").glob("*.ts")]
    built = {f"dist/{name}.{ending}" for name in sources for ending in ("js", "d.ts")}
    assert {file["path"] for file in packed["files"]} == {"LICENSE", "README.md", "package.json", *built}
    assert (packed["name"], packed["version"]) == ("minutehand", VERSION)


@pytest.mark.usefixtures("tested")
async def test_it_uses_an_api_and_verifies_its_call(package: Path) -> None:
    async with calling_api() as api:
        program = package / "build" / "test" / "story.js"
        assert json.loads(await run("node", "--no-warnings", program, url_of(api), ADMIN_KEY, cwd=package)) == ANSWERED


async def test_the_samples_of_its_readme_and_of_the_page_for_users_run(package: Path) -> None:
    *using, receiving = samples_in(package / "README.md")
    [page] = samples_in(ROOT / "docs" / "using.md")
    programs = package / "readme"
    programs.mkdir()
    (programs / "using.ts").write_text("".join(using))
    (programs / "page.ts").write_text(page)
    [port] = free_ports(1)
    receiving = receiving.replace("listen(8090)", f'listen({port}, "127.0.0.1", () => console.log("listens"))')
    (programs / "receiving.ts").write_text(receiving)
    shutil.copy(package / "test" / "tsconfig.json", programs)
    options = ("--outDir", "readme-built", "--noPropertyAccessFromIndexSignature", "false")
    await run("node_modules/.bin/tsc", "--project", programs, *options, cwd=package)
    async with calling_api() as api:
        key = await api.register()
        environment = {"API": url_of(api), "KEY": key}
        assert await run("node", "readme-built/using.js", cwd=package, **environment) == await listed(api, key)
        environment = {"API": url_of(api), "KEY": await api.register("demo"), "RECEIVER": "https://shop.example/hook"}
        assert await run("node", "readme-built/page.js", cwd=package, **environment) == ""
        made = await api.send("POST", "/v1/clients/shop/signing-secrets")
        assert await received(api, package, port, made.json["secret"]) == [204, 401]


def samples_in(document: Path) -> list[str]:
    return re.findall(r"```ts\n(.*?)```", document.read_text(), re.DOTALL)


async def listed(api: ApiHarness, key: str) -> str:
    """The schedules that the sample lists, as it prints them."""
    reply = await api.send("GET", "/v1/clients/shop/schedules?label=orders&state=cancelled", key=key)
    [one] = reply.json["items"]
    return f"{one['schedule_id']} {one['due']}\n"


async def received(api: ApiHarness, package: Path, port: int, secret: str) -> list[Any]:
    """The statuses that the receiver answers, of a call with this secret and of one with a later secret alone."""
    environment = {"SIGNING_SECRET": secret, "PATH": "/usr/local/bin:/usr/bin:/bin"}
    program = ("node", "readme-built/receiving.js")
    process = await asyncio.create_subprocess_exec(
        *program, cwd=package, env=environment, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"listens\n"
        statuses = []
        for _ in range(2):
            call = {"callback": {"url": f"http://127.0.0.1:{port}/hook"}}
            statuses.append((await api.send("POST", "/v1/clients/shop/callbacks:try", json=call)).json["status"])
            await api.send("POST", "/v1/clients/shop/signing-secrets")
            for known in (await api.send("GET", "/v1/clients/shop/signing-secrets")).json["items"][:-1]:
                await api.send("DELETE", f"/v1/clients/shop/signing-secrets/{known['secret_id']}")
        return statuses
    finally:
        process.terminate()
        await process.communicate()
