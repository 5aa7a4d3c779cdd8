"""The console's login at an OpenID provider that others wrote, which runs as a process of its own."""

import json
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import aiohttp
import pytest

from minutehand.local.machine import free_ports
from minutehand.processes.programs import Program
from scheduler_service.console.settings import ConsoleSettings
from tests.support.api import ApiHarness, ManualClock

PEOPLE = {"ann": "ops", "bob": "shop-team", "eve": "others"}


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    (port,) = free_ports(1)
    arguments = ["--port", str(port), "--require-nonce", "true"]
    for name, group in PEOPLE.items():
        arguments += ["--user-claims", json.dumps({"sub": name, "groups": [group]})]
    log = tmp_path_factory.mktemp("provider") / "provider.log"
    program = Program("provider", arguments, log_file=log, module="oidc_provider_mock")
    address = f"http://127.0.0.1:{port}"
    try:
        program.await_ready(f"{address}/.well-known/openid-configuration")
        yield address
    finally:
        program.stop()


@pytest.mark.parametrize(
    ("person", "status", "shown"),
    [("ann", 200, "oidc:ann"), ("bob", 200, "(read)"), ("eve", 403, "ask an operator"), ("nobody", 403, "ask an")],
)
async def test_people_log_in_there_and_are_here_what_the_claim_says(
    issuer: str, person: str, status: int, shown: str
) -> None:
    settings = ConsoleSettings(
        oidc_issuer=issuer,
        oidc_client_id="minutehand",
        oidc_client_secret="of this test",
        oidc_redirect="http://localhost/console/oidc",
        oidc_administrators=("ops",),
        oidc_clients=("shop-team=shop:read",),
    )
    async with (
        ApiHarness(clock=ManualClock(int(time.time() * 1000)), console=settings) as api,
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser,
    ):
        await api.register("shop")
        assert api.server is not None
        base = f"http://127.0.0.1:{api.server.port}"
        answer = await browser.get(f"{base}/console/oidc:begin?next=/console/clients/shop", allow_redirects=False)
        there = answer.headers["Location"]
        assert there.startswith(issuer)
        back = await browser.post(there, data={"sub": person}, allow_redirects=False)
        query = urlsplit(back.headers["Location"]).query
        page = await browser.get(f"{base}/console/oidc?{query}")
        assert page.status == status
        if status == 200:
            assert "url=/console/clients/shop" in await page.text()
            page = await browser.get(f"{base}/console/clients/shop")
        assert shown in await page.text()
        again = await browser.get(f"{base}/console/oidc?{query}")
        assert again.status == 403, "an answer counts once"
