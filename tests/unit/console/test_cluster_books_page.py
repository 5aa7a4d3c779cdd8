"""The books of all clients: reconciliations that run, and the newest audits, those with findings first."""

import re

import pytest

from scheduler_service.console import book_pages
from scheduler_service.domain.audits import EVERY_CLIENT, Audit, AuditCounts, new_audit_id
from scheduler_service.domain.ids import HOUR_MS, ClientId, UnixMillis
from tests.support.api import ADMIN_KEY, NOW, ApiHarness, SeededRandomness
from tests.support.browser import Browser
from tests.unit.console.conftest import browser_of

BOOKS = "/console/books"
ASKED = {"from": "2026-11-21T09:00:00Z", "to": "2026-11-21T10:00:00Z", "states": ["failed"], "action": "report"}


async def audited(api: ApiHarness, name: str, findings: dict[str, int]) -> None:
    await api.storage.audits.insert(
        Audit(
            client_id=ClientId(name),
            audit_id=new_audit_id(at=NOW, randomness=SeededRandomness(1)),
            window_start=UnixMillis(NOW - HOUR_MS),
            window_end=UnixMillis(NOW),
            counts=AuditCounts(accepted=1_234),
            findings=findings,
        )
    )


async def test_an_operator_sees_what_runs_and_what_audits_found(api: ApiHarness, key: str) -> None:
    await api.register("bank")
    async with browser_of(api) as browser:
        await browser.log_in(ADMIN_KEY)
        shown = await browser.open(BOOKS)
        for text in ("No audit over all clients has been made yet", "There is none.", "2 have none"):
            assert text in shown.text, text
        made = (await api.send("POST", "/v1/clients/shop/reconciliations", key=key, json=ASKED)).json
        await audited(api, "bank", {})
        await audited(api, "shop", {"stranded": 3})
        await audited(api, EVERY_CLIENT, {"stranded": 3})
        api.clock.advance(60)
        shown = await browser.open(BOOKS)
        assert "3 findings of audits stand" in shown.text
        assert "report" in shown.text
        assert "0 of 60" in shown.text
        assert shown.text.index("shop 3 stranded") < shown.text.index("bank none")
        assert "1,234" in shown.text
        for link in (
            f"/console/clients/shop/reconciliations/{made['reconciliation_id']}",
            "/console/clients/shop/books",
        ):
            assert (await browser.open(next(one for one in shown.links if one == link))).status == 200
        for sample in ("/v1/cluster/reconciliations", "api.latest_audits(", "api.reconciliationsUnderWay("):
            assert sample in shown.source, sample
        assert BOOKS in (await browser.open("/console/cluster")).links


async def test_both_lists_have_pages(api: ApiHarness, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book_pages, "UNDER_WAY_A_PAGE", 1)
    monkeypatch.setattr(book_pages, "AUDITS_A_PAGE", 1)
    await api.register("bank")
    for name in ("bank", "shop"):
        await audited(api, name, {})
    made = []
    for _ in range(2):
        reply = await api.send("POST", "/v1/clients/shop/reconciliations", key=key, json=ASKED)
        made.append(reply.json["reconciliation_id"])
        api.clock.advance(1)
    async with browser_of(api) as browser:
        await browser.log_in(ADMIN_KEY)
        shown = await browser.open(BOOKS)
        assert [one in shown.source for one in made] == [True, False]
        further = {link.partition("=")[0]: link for link in shown.links if link.startswith("?")}
        runs = await browser.open(BOOKS + further["?under_way"])
        assert [one in runs.source for one in made] == [False, True]
        audits = await browser.open(BOOKS + further["?audits"])
    at = "/console/clients/{}/books"
    assert [at.format(name) in shown.links for name in ("bank", "shop")] == [True, False]
    assert [at.format(name) in audits.links for name in ("bank", "shop")] == [False, True]


async def test_a_clients_key_does_not_see_it(reader: Browser) -> None:
    shown = await reader.open(BOOKS)
    assert shown.status == 403
    assert not re.search(rf'href="{BOOKS}"', (await reader.open("/console/clients/shop")).source)
