"""The page of the API at /docs in a real browser: its contents, its search and its samples."""

import pytest
from playwright.sync_api import Browser

from tests.console.conftest import Shop
from tests.support.chromium import DESK, PHONE, Screen, tab

PARTS = ("nav", "#put_cron", "#schema-DstRequest", "#problem-overloaded")
"""One of each kind: axe takes minutes for the whole page."""
FOUND = "nav li:not([hidden]) a"


@pytest.mark.parametrize("screen", [DESK, PHONE], ids=["desk", "phone"])
def test_operations_are_found_and_read_on_every_screen(browser: Browser, shop: Shop, screen: Screen) -> None:
    with tab(browser, shop.url, screen) as docs:
        docs.open("/docs")
        assert docs.sideways == 0
        assert docs.judged(*PARTS) == []
        search = docs.page.get_by_label("Search operations")
        for words, hash_ in (("at most once", "#create_schedule"), ("DST", "#put_cron"), ("Retry-After", "#callback")):
            search.fill(words)
            assert hash_ in docs.page.locator(FOUND).evaluate_all("all => all.map(one => one.hash)"), words
        search.fill("put cron")
        docs.page.locator(FOUND).first.click()
        docs.page.wait_for_function("document.querySelector('nav a[aria-current]')?.hash === '#put_cron'")
        assert docs.sideways == 0
        search.fill("there is no such operation")
        assert docs.page.locator("#found").inner_text() == "0 found"


def test_a_language_that_is_chosen_is_shown_everywhere(browser: Browser, shop: Shop) -> None:
    with tab(browser, shop.url) as docs:
        docs.open("/docs#get_cron")
        chosen, other = docs.page.locator("#get_cron .samples"), docs.page.locator("#list_crons .samples")
        assert "curl" in chosen.locator("pre:visible").inner_text()
        chosen.get_by_label("Python").check(force=True)
        for samples in (chosen, other):
            assert samples.locator("pre:visible").inner_text().startswith(("api.", "list(api."))


def test_the_page_is_whole_without_scripts(browser: Browser, shop: Shop) -> None:
    with tab(browser, shop.url, PHONE, scripts=False) as docs:
        docs.open("/docs")
        assert not docs.page.get_by_label("Search operations").is_visible()
        samples = docs.page.locator("#get_cron .samples")
        samples.get_by_label("Python").check(force=True)
        assert "crons.get(" in samples.locator("pre:visible").inner_text()
