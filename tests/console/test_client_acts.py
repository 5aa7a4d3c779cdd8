"""What the people of one client do: crons, dead letters, a trial call, a reconciliation, events as they happen."""

import re
from datetime import UTC, datetime, timedelta

from playwright.sync_api import Browser, expect

from scheduler_service.domain.instants import format_instant
from tests.console.conftest import Shop
from tests.support.chromium import tab

SOON_MS = 60_000.0


def test_a_cron_is_made_with_a_preview_paused_resumed_and_run_now(browser: Browser, shop: Shop) -> None:
    with tab(browser, shop.url) as one:
        page, status = one.page, one.page.get_by_role("status")
        one.log_in(shop.key)
        page.get_by_role("link", name="Crons", exact=True).click()
        page.get_by_role("link", name="New cron").click()
        page.get_by_label("Id", exact=True).fill("mornings")
        page.get_by_label("When", exact=True).press_sequentially("0 9 * * 1-5")
        page.get_by_label("Time zone").fill("Europe/Berlin")
        preview = page.locator("#preview")
        expect(preview).to_contain_text("at 09:00 on Monday to Friday")
        expect(preview.get_by_role("row")).to_have_count(11)
        page.get_by_label("When", exact=True).fill("0 99 * * 1-5")
        expect(preview).to_contain_text("99")
        page.get_by_label("When", exact=True).fill("0 9 * * 1-5")
        page.get_by_label("URL").fill(shop.demo.receiver.url)
        page.get_by_role("button", name="Create").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("mornings")
        one.act("Pause")
        expect(page.get_by_role("heading", level=1)).to_contain_text("paused")
        one.act("Resume")
        expect(page.get_by_role("heading", level=1)).to_contain_text("active")
        one.act("Run now")
        expect(status).to_contain_text("The cron is run once, now: this is it.")
        shop.settled(one.path.rpartition("/")[2], "delivered")
        page.get_by_role("link", name="mornings").click()
        run = page.get_by_role("region", name="Runs").get_by_role("row").nth(1)
        expect(run).to_contain_text("delivered")


def test_dead_letters_are_filtered_selected_and_redelivered(browser: Browser, shop: Shop) -> None:
    failed = [shop.fail(label="invoices") for _ in range(3)]
    with tab(browser, shop.url) as one:
        page = one.page
        one.log_in(shop.key)
        page.get_by_role("link", name="Dead letters", exact=True).click()
        page.get_by_label("Label").fill("invoices")
        page.get_by_role("button", name="Filter").click()
        rows = page.get_by_role("region", name="Dead letters").locator("tbody tr")
        expect(rows).to_have_count(3)
        for schedule in failed[:2]:
            page.get_by_label(f"Select {schedule}").check()
        page.get_by_role("button", name="Call selected again").click()
        expect(page.get_by_role("status")).to_contain_text("2 of 2 are called again.")
        assert page.get_by_label("Label").input_value() == "invoices", "the filters stay"
        for schedule in failed[:2]:
            shop.settled(schedule, "failed")
        page.reload()
        page.get_by_label("Select all on this page").check()
        page.get_by_role("button", name="Acknowledge selected").click()
        expect(page.get_by_role("status")).to_contain_text("acknowledged")
        expect(page.locator("main")).to_contain_text("No dead letter of the last 24 hours has these filters.")


def test_a_trial_call_shows_the_whole_exchange(browser: Browser, shop: Shop) -> None:
    with tab(browser, shop.url) as one:
        page, exchange = one.page, one.page.locator("#exchange")
        one.log_in(shop.key)
        page.get_by_role("link", name="Trial call").click()
        page.get_by_label("URL").fill(shop.demo.receiver.url)
        page.get_by_label("Body").fill('{"order": 7}')
        page.get_by_role("button", name="Call now").click()
        expect(exchange).to_contain_text("The receiver took it")
        for said in ("webhook-signature", '{"order": 7}', "204", "First byte of the answer"):
            expect(exchange).to_contain_text(said)
        page.get_by_label("URL").fill("http://127.0.0.1:9/")
        page.get_by_role("button", name="Call now").click()
        expect(exchange).to_contain_text("connect-refused")


def test_a_reconciliation_is_followed_to_its_end(browser: Browser, shop: Shop) -> None:
    now = datetime.now(UTC)
    window = [format_instant(int(at.timestamp() * 1000)) for at in (now - timedelta(hours=1), now)]
    asked = {"from": window[0], "to": window[1], "action": "report", "states": ["failed"]}
    made = shop.ask("POST", "/reconciliations", asked).json()["reconciliation_id"]
    with tab(browser, shop.url) as one:
        one.log_in(shop.key)
        one.page.get_by_role("link", name="Reconciliations").click()
        row = one.page.get_by_role("row").filter(has_text="report")
        expect(row.first).to_contain_text("finished", timeout=SOON_MS)
        row.get_by_role("link").first.click()
        assert one.path.endswith(made)
        expect(one.page.locator("main")).to_contain_text(re.compile(r"(\d+) of \1 minutes"))


def test_events_come_while_calls_are_made(browser: Browser, shop: Shop) -> None:
    with tab(browser, shop.url) as one:
        page = one.page
        one.log_in(shop.reading)
        page.get_by_role("link", name="Events", exact=True).click()
        expect(page.get_by_role("status")).to_contain_text("Live")
        page.evaluate("window.stayed = true")
        taken, failed = shop.call(), shop.fail()
        row = page.get_by_role("row")
        expect(row.filter(has_text=taken).filter(has_text="schedule.delivered")).to_be_visible(timeout=SOON_MS)
        expect(row.filter(has_text=failed).filter(has_text="schedule.failed")).to_contain_text("500")
        assert page.evaluate("window.stayed"), "without another load"
        row.filter(has_text=failed).get_by_role("link").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("failed")
