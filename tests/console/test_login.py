"""Logging in with a browser: refused, forgotten, ended, and at another client's address."""

import json
import re
import time

from playwright.sync_api import Browser, expect

from tests.console.conftest import Shop
from tests.support.chromium import ask, tab

ENDS_SECONDS = 20.0
"""Within five seconds a revoked key is refused; the rest is for a busy machine."""
REFUSED = ("403", "404")
"""Chromium says of a page with such a status that it failed to load."""


def test_a_refused_login_says_why_and_the_next_one_leads_to_the_page(browser: Browser, shop: Shop) -> None:
    with tab(browser, shop.url, allowed=REFUSED) as one:
        one.open("/console/clients/shop/schedules?label=newsletter")
        key = one.page.get_by_label("Key", exact=True)
        expect(key).to_be_focused()
        key.fill("mh_0123456789abcdef_nonsense")
        key.press("Enter")
        expect(one.page.get_by_role("alert")).to_contain_text("not known")
        expect(key).to_be_focused()
        expect(key).to_have_value("")
        key.fill(shop.key)
        key.press("Enter")
        expect(one.page.get_by_role("heading", level=1)).to_have_text("Schedules")
        assert one.path == "/console/clients/shop/schedules?label=newsletter"


def test_scripts_can_read_no_secret(browser: Browser, shop: Shop) -> None:
    with tab(browser, shop.url) as one:
        one.log_in(shop.key)
        one.open(f"/console/clients/shop/schedules/{shop.delivered}")
        readable = one.page.evaluate(
            "[document.cookie, localStorage.length + sessionStorage.length, document.documentElement.outerHTML]"
        )
        token = next(one["value"] for one in one.page.context.cookies() if one["name"] == "minutehand")
        assert readable[0] == ""
        assert readable[1] == 0
        for secret in (shop.key, token, "number-4711", "a secret text"):
            assert secret not in readable[2]


def test_logging_out_ends_the_session_behind_the_back_button_too(browser: Browser, shop: Shop) -> None:
    with tab(browser, shop.url) as one:
        one.log_in(shop.key)
        one.open("/console/clients/shop")
        one.page.get_by_role("button", name="Log out").click()
        expect(one.page.get_by_label("Key", exact=True)).to_be_visible()
        one.page.go_back()
        expect(one.page.get_by_label("Key", exact=True)).to_be_visible()


def test_a_session_that_ends_leads_to_the_login_and_back(browser: Browser, shop: Shop) -> None:
    made = ask(shop.url, shop.key, "POST", "/v1/clients/shop/keys", {"scope": "read"}).json()
    with tab(browser, shop.url) as one:
        one.log_in(made["key"])
        one.open("/console/clients/shop/dead-letters")
        ask(shop.url, shop.key, "DELETE", f"/v1/clients/shop/keys/{made['key_id']}")
        deadline = time.monotonic() + ENDS_SECONDS
        while "/console/login" not in one.path:
            assert time.monotonic() < deadline, "the session of a revoked key goes on"
            one.page.reload()
        one.page.get_by_label("Key", exact=True).fill(shop.reading)
        one.page.get_by_role("button", name="Log in").click()
        expect(one.page.get_by_role("heading", level=1)).to_have_text("Dead letters")


def test_another_clients_address_shows_nothing_of_it(browser: Browser, shop: Shop) -> None:
    with tab(browser, shop.url, allowed=REFUSED) as one:
        one.log_in(shop.other)
        for path in (
            "/console/clients/shop",
            f"/console/clients/shop/schedules/{shop.failed}",
            "/console/clients/shop/schedules?label=newsletter",
            "/console/clients/shop/destinations/orders",
            "/console/cluster",
        ):
            one.open(path)
            text = one.page.locator("main").inner_text()
            assert re.search("no such|Not for this key", text, re.IGNORECASE), text
            assert "newsletter" not in text
            assert shop.cluster.receiver.url not in text


def test_a_form_on_another_page_changes_nothing(browser: Browser, shop: Shop) -> None:
    """A page elsewhere has its visitor's browser send the console's form: it comes without the session."""
    with tab(browser, shop.url, allowed=REFUSED) as one:
        one.log_in(shop.key)
        waiting = shop.waits()
        target = f"{shop.url}/console/clients/shop/schedules/{waiting}"
        page = f"<form method=post action={json.dumps(target)}><input name=act value=cancel><button>Go</button></form>"
        one.page.route("http://evil.example/", lambda route: route.fulfill(content_type="text/html", body=page))
        one.page.goto("http://evil.example/")
        one.page.get_by_role("button", name="Go").click()
        expect(one.page.locator("main")).to_be_visible()
        assert shop.state(waiting) == "scheduled"
