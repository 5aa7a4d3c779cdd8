"""What a new user of the demo does without a manual: find why a call failed, call it again, pause its destination."""

from playwright.sync_api import Browser, Locator, expect

from tests.console.conftest import Demo
from tests.support.chromium import PHONE, tab

AGAIN = r"attempt 2\n\s+answered 503"
"""The demo prints this when it was called once more."""
CALLED_SECONDS = 60.0


def failed_call(page: Locator) -> Locator:
    return page.get_by_role("region", name="Calls that failed").get_by_role("link").first


def test_why_a_call_failed_calling_it_again_and_pausing_its_destination(browser: Browser, demo: Demo) -> None:
    with tab(browser, demo.url) as one:
        page, main = one.page, one.page.locator("main")
        one.open("/console")
        page.get_by_label("Key", exact=True).fill(demo.client_key)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", name="Calls that failed")).to_be_in_viewport()
        expect(failed_call(main)).to_be_in_viewport()
        failed_call(main).click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("failed")
        for said in ("status 503", "that was the last attempt"):
            expect(main).to_contain_text(said)
        again = page.locator("summary", has_text="Call again")
        expect(again).to_be_in_viewport()
        page.get_by_role("button", name="Show what was answered").click()
        expect(main).to_contain_text("out of order: this address always fails")
        again.click()
        expect(main).to_contain_text("The receiver is called once more, now, with the same id and body")
        page.get_by_role("button", name="Call again").click()
        expect(page.get_by_role("status")).to_have_text("It is called again.")
        demo.running.await_line(AGAIN, seconds=CALLED_SECONDS)
        expect(page.get_by_role("link", name="destination out-of-order")).to_be_in_viewport()
        page.get_by_role("link", name="destination out-of-order").click()
        expect(main).to_contain_text("calls failed in the last hour")
        expect(page.locator("summary", has_text="Pause")).to_be_in_viewport()
        page.locator("summary", has_text="Pause").click()
        expect(main).to_contain_text("Nothing is lost.")
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_role("status")).to_have_text("It is paused: its calls wait until it is resumed.")
        assert demo.of_own("GET", "/destinations/out-of-order").json()["paused_at"] is not None
        one.act("Resume")
        expect(page.locator("summary", has_text="Pause")).to_be_visible()
        assert demo.of_own("GET", "/destinations/out-of-order").json()["paused_at"] is None


def test_the_same_by_keyboard_alone_on_a_phone(browser: Browser, demo: Demo) -> None:
    with tab(browser, demo.url, PHONE) as one:
        page, press = one.page, one.page.keyboard.press
        one.open("/console")
        page.keyboard.type(demo.client_key)
        press("Enter")
        schedule = failed_call(page.locator("main")).inner_text()
        one.reach(schedule)
        press("Enter")
        expect(page.get_by_role("heading", level=1)).to_contain_text("failed")
        one.reach("Call again")
        press("Enter")
        one.reach("Call again", within=1)
        press("Enter")
        expect(page.get_by_role("status")).to_have_text("It is called again.")
        one.reach("destination out-of-order")
        press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("out-of-order")
        for act in ("Pause", "Resume"):
            one.reach(act)
            press("Enter")
            one.reach(act, within=1)
            press("Enter")
            expect(page.get_by_role("status")).to_contain_text("It is")
            expect(page.locator("summary", has_text={"Pause": "Resume", "Resume": "Pause"}[act])).to_be_visible()
        assert one.sideways <= 0
