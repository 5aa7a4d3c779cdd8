"""Logging in with a browser: refused, forgotten, ended, and at another client's address."""

import json
import re
import time
from datetime import UTC, datetime, timedelta

from playwright.sync_api import Browser, expect

from scheduler_service.domain.instants import format_instant
from tests.console.conftest import Shop
from tests.support.chromium import Tab, ask, tab

ENDS_SECONDS = 20.0
"""Within five seconds a revoked key is refused; the rest is for a busy machine."""
LASTS_SECONDS = 6
"""Of a key that ends while its page is looked at."""
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


def test_a_session_whose_key_is_revoked_leads_to_the_login_and_back(browser: Browser, shop: Shop) -> None:
    made = ask(shop.url, shop.key, "POST", "/v1/clients/shop/keys", {"scope": "read"}).json()
    with tab(browser, shop.url) as one:
        one.log_in(made["key"])
        one.open("/console/clients/shop/dead-letters")
        ask(shop.url, shop.key, "DELETE", f"/v1/clients/shop/keys/{made['key_id']}")
        log_in_again(one, shop.reading)
        expect(one.page.get_by_role("heading", level=1)).to_have_text("Dead letters")


def test_a_session_ends_with_its_key_also_on_a_page_that_is_only_looked_at(browser: Browser, shop: Shop) -> None:
    ends = format_instant(int((datetime.now(UTC) + timedelta(seconds=LASTS_SECONDS)).timestamp() * 1000))
    made = ask(shop.url, shop.key, "POST", "/v1/clients/shop/keys", {"scope": "read", "expires_at": ends}).json()
    with tab(browser, shop.url) as one:
        one.log_in(made["key"])
        one.open("/console/clients/shop/destinations/orders")
        one.page.wait_for_url("**/console/login?next=*", timeout=(LASTS_SECONDS + ENDS_SECONDS) * 1000)
        log_in_again(one, shop.reading)
        expect(one.page.get_by_role("heading", level=1)).to_have_text("orders")


def log_in_again(one: Tab, key: str) -> None:
    deadline = time.monotonic() + ENDS_SECONDS
    while "/console/login" not in one.path:
        assert time.monotonic() < deadline, "the session goes on"
        one.page.reload()
    one.page.get_by_label("Key", exact=True).fill(key)
    one.page.get_by_role("button", name="Log in").click()


def test_another_clients_address_is_as_one_that_does_not_exist(browser: Browser, shop: Shop) -> None:
    with tab(browser, shop.url, allowed=REFUSED) as one:
        one.log_in(shop.other)
        for path in (
            "",
            f"/schedules/{shop.failed}",
            "/schedules?label=newsletter",
            "/dead-letters",
            "/destinations/orders",
            "/crons/nightly",
            "/keys",
            "/trial-call",
            "/events",
        ):
            shown = []
            for client in ("shop", "nobody"):
                one.open(f"/console/clients/{client}{path}")
                text = one.page.locator("main").inner_text()
                shown.append(re.sub(r"request \w+", "", text).replace(client, "CLIENT"))
            assert shown[0] == shown[1]
            assert "no such" in shown[0]
        one.open("/console/cluster")
        expect(one.page.locator("main")).to_contain_text("Not for this key")


def test_a_form_of_another_session_is_refused(browser: Browser, shop: Shop) -> None:
    waiting = shop.waits()
    path = f"/console/clients/shop/schedules/{waiting}"
    with tab(browser, shop.url, allowed=REFUSED) as one, tab(browser, shop.url) as other:
        for each in (one, other):
            each.log_in(shop.key)
            each.open(path)
        tokens = [each.page.locator("input[name=form_token]").first.input_value() for each in (one, other)]
        assert tokens[0] != tokens[1]
        one.page.evaluate(
            "token => { for (const field of document.getElementsByName('form_token')) field.value = token; }",
            tokens[1],
        )
        one.act("Cancel")
        expect(one.page.locator("main")).to_contain_text("this form is of another session")
        assert shop.state(waiting) == "scheduled"
        other.act("Cancel")
        expect(other.page.get_by_role("heading", level=1)).to_contain_text("cancelled")


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
