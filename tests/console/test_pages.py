"""Every page: axe finds nothing serious, it fits, it is small, and it needs no mouse."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, expect

from scheduler_service.console.routes import PAGES
from tests.console.conftest import REFRESHED_MS, Shop
from tests.support.chromium import DESK, PHONE, Screen, Tab, tab

SHOWN = sorted({route.path for route in PAGES if route.method == "GET" and not route.path.endswith("/stream")})
TRANSFERRED_BYTES = 100_000
JUMP = 0.02
"""Of the screen, times the way that it went; what people notice begins at five times that."""
FIRST_PAGE_MS = 2_000.0
"""On the demo it is 200 ms; machines that run tests are busy."""


def address(shop: Shop, path: str) -> str:
    names = {
        "client_id": "shop",
        "schedule_id": shop.failed,
        "destination": "orders",
        "cron_id": "nightly",
        "reconciliation_id": "00000000-0000-0000-0000-000000000000",
    }
    return re.sub(r"\{(\w+)\}", lambda found: names[found[1]], path)


@pytest.mark.parametrize("screen", [DESK, PHONE], ids=str)
def test_axe_finds_nothing_serious_and_no_page_scrolls_sideways(browser: Browser, shop: Shop, screen: Screen) -> None:
    found: dict[str, list[str]] = {}
    with tab(browser, shop.url, screen, allowed=("404",)) as one:
        one.open("/console/login")
        found["login"] = faults_of(one)
        one.log_in(shop.demo.admin_key)
        for path in SHOWN:
            one.open(address(shop, path))
            found[path] = faults_of(one)
            for menu in one.page.locator("details").all():
                menu.evaluate("one => one.open = true")
            found[path + ", opened"] = faults_of(one)
    assert {where: faults for where, faults in found.items() if faults} == {}


def faults_of(one: Tab) -> list[str]:
    wide = [f"{one.sideways} px too wide"] if one.sideways > 0 else []
    return wide + one.judged()


@pytest.mark.parametrize("screen", [DESK, PHONE], ids=str)
def test_nothing_jumps_while_a_page_comes_or_is_refreshed(browser: Browser, shop: Shop, screen: Screen) -> None:
    jumped: dict[str, list[tuple[float, str]]] = {}
    with tab(browser, shop.url, screen, allowed=("404",)) as one:
        one.log_in(shop.demo.admin_key)
        one.page.clock.install()
        for path in SHOWN:
            one.open(address(shop, path))
            if one.page.locator("[data-refresh]").count():
                with one.page.expect_response(one.page.url):
                    one.page.clock.fast_forward(REFRESHED_MS)
            jumped[path] = one.shifts
    assert {path: seen for path, seen in jumped.items() if sum(value for value, _ in seen) > JUMP} == {}


def test_a_first_page_is_small_and_soon_there(browser: Browser, shop: Shop, show: Callable[..., None]) -> None:
    figures = []
    with tab(browser, shop.url, allowed=("404",)) as one:
        one.log_in(shop.demo.admin_key)
        one.page.wait_for_load_state("networkidle")
        one.transferred()
        for path in SHOWN:
            one.open(address(shop, path))
            one.page.wait_for_load_state("load")
            took = one.page.evaluate("performance.getEntriesByType('navigation')[0].loadEventStart")
            size = one.transferred()
            figures.append(f"{size:>7,} bytes {took:>5.0f} ms  {path}")
            assert size < TRANSFERRED_BYTES, path
            assert took < FIRST_PAGE_MS, path
    show(*figures)


def test_everything_of_the_first_visit_together_is_small(
    browser: Browser, shop: Shop, show: Callable[..., None]
) -> None:
    with tab(browser, shop.url) as one:
        one.log_in(shop.demo.admin_key)
        one.page.wait_for_load_state("networkidle")
        size = one.transferred()
    assert size < TRANSFERRED_BYTES
    show(f"{size:>7,} bytes, the login and the first page with all that they load")


def test_nothing_is_loaded_from_elsewhere(browser: Browser, shop: Shop) -> None:
    with tab(browser, shop.url, allowed=("404",)) as one:
        one.log_in(shop.demo.admin_key)
        for path in SHOWN:
            one.open(address(shop, path))
        assert {answer.url for answer in one.answers if not answer.url.startswith(shop.url + "/console")} == set()


def test_by_keyboard_alone(browser: Browser, shop: Shop) -> None:
    failed = shop.fail()
    with tab(browser, shop.url) as one:
        one.open("/console/login")
        one.page.keyboard.type(shop.key)
        one.page.keyboard.press("Enter")
        one.page.wait_for_url("**/console/clients/shop")
        one.page.keyboard.press("Tab")
        assert one.focused == "To the content"
        one.page.keyboard.press("Enter")
        assert one.page.evaluate("document.activeElement.id") == "content"
        one.page.keyboard.press("Tab")
        one.page.keyboard.type(failed)
        one.page.keyboard.press("Enter")
        expect(one.page.get_by_role("heading", level=1)).to_contain_text("failed")
        one.reach("Call again")
        outline = one.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", "where the keyboard is can be seen"
        one.page.keyboard.press("Enter")
        one.reach("Call again", within=1)
        one.page.keyboard.press("Escape")
        assert one.page.evaluate("document.activeElement.tagName") == "SUMMARY"
        assert one.page.locator("details.menu[open]").count() == 0
        one.page.keyboard.press("Enter")
        one.page.keyboard.press("Tab")
        one.page.keyboard.press("Enter")
        expect(one.page.get_by_role("status")).to_contain_text("called again")
