"""Looks at the built documentation as its readers do: in Chromium, on desk and phone, light and dark.

Without Chromium nothing is looked at, and a line says so.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

from playwright.sync_api import Browser

from tests.support.chromium import CHROMIUM, DESK, PHONE, Screen, Tab, chromium, tab

LOOKED_AT: Final = ("index", "how-to/after-an-outage", "glossary", "cron-rules", "reference/metrics", "reference/rest")
"""A how-to, wide tables, long code, and the largest page."""
JUDGED: Final = ("index", "cron-rules", "reference/rest")
"""Those that axe judges, which takes seconds for each; the others are made of the same."""
PARTS: Final = {"reference/rest": (".sidebar-tree", "#pollers")}
"""What axe judges of a page that is too large for it."""
FOUND: Final = {
    "at most once": "how-to/at-most-once.html",
    "DST": "how-to/crons-and-daylight-saving.html",
    "Retry-After": "how-to/retries-and-dead-letters.html",
    "ordering key": "how-to/order-calls.html",
}
"""Words to search for, with a page that is to be among the first hits."""
FIRST_HITS: Final = 6


def looked_at(site: Path) -> Iterator[str]:
    """What a reader would complain of."""
    if CHROMIUM is None:
        sys.stderr.write("there is no Chromium: the documentation is NOT looked at (apt-get install chromium)\n")
        return
    with _served(site) as address, chromium() as browser:
        for screen in (DESK, PHONE):
            yield from _pages(browser, address, screen)
        yield from _searches(browser, address)


def _pages(browser: Browser, address: str, screen: Screen) -> Iterator[str]:
    with tab(browser, address, screen) as reader:
        asked = _asked(reader)
        for name in LOOKED_AT:
            reader.open(f"/{name}.html")
            where = f"{name}, {screen.scheme}, {screen.width} px"
            if reader.sideways:
                yield f"{where}: the page scrolls sideways by {reader.sideways} px"
            if name in JUDGED:
                yield from (f"{where}: {fault}" for fault in reader.judged(*PARTS.get(name, ())))
        yield from (f"asks another machine for {url}" for url in asked if not url.startswith((address, "data:")))


def _searches(browser: Browser, address: str) -> Iterator[str]:
    with tab(browser, address) as reader:
        for words, page in FOUND.items():
            reader.open("/index.html")
            reader.page.get_by_role("textbox", name="Search").or_(reader.page.get_by_placeholder("Search")).first.fill(
                words
            )
            reader.page.keyboard.press("Enter")
            reader.page.locator("ul.search li a").first.wait_for()
            links = reader.page.locator("ul.search li > a").evaluate_all("all => all.map(one => one.pathname.slice(1))")
            hits = list(dict.fromkeys(links))[:FIRST_HITS]
            if page not in hits:
                yield f"a search for {words!r} does not find {page} among {hits}"


def _asked(reader: Tab) -> list[str]:
    urls: list[str] = []
    reader.page.on("request", lambda request: urls.append(request.url))
    return urls


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Requests are not told."""

    def handle(self) -> None:
        # A browser that goes on to the next page leaves what it still loads.
        with suppress(ConnectionError):
            super().handle()


@contextmanager
def _served(site: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site))) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
