"""A real browser: the distribution's Chromium, driven by Playwright."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import httpx
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Response, sync_playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""Where the distribution put it; None: it has none."""
MISSING = "there is no Chromium: the console is NOT tested in a browser (apt-get install chromium)"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_COUNT_SHIFTS = """
window.shifts = [];
new PerformanceObserver((seen) => {
  for (const one of seen.getEntries()) {
    const moved = one.sources?.map((source) => source.node?.outerHTML?.slice(0, 100) ?? source.node?.textContent);
    window.shifts.push([one.value, String(moved)]);
  }
}).observe({ type: "layout-shift", buffered: true });
"""
_GRAVE = ("serious", "critical")
_FAULTS_ONLY = {"resultTypes": ["violations"]}
"""What is right is not described: on the largest page that takes as long again."""

Scheme = Literal["light", "dark"]


@dataclass(frozen=True, slots=True)
class Screen:
    """How somebody looks at a page. `width`: pixels."""

    scheme: Scheme = "light"
    width: int = 1280


DESK, PHONE = Screen(), Screen("dark", 360)


@dataclass(slots=True)
class Tab:
    """A page of a browser, and what went wrong in it. `transferred`: bytes of bodies since `forget`."""

    page: Page
    base_url: str
    faults: list[str] = field(default_factory=list)
    answers: list[Response] = field(default_factory=list)

    def open(self, path: str) -> None:
        self.page.goto(self.base_url + path)

    @property
    def path(self) -> str:
        return self.page.url.removeprefix(self.base_url)

    def log_in(self, key: str) -> None:
        self.open("/console/login")
        self.page.get_by_label("Key", exact=True).fill(key)
        self.page.get_by_role("button", name="Log in").click()
        self.page.wait_for_url(lambda url: "/console/login" not in url)

    def act(self, menu: str) -> None:
        """Open an act's menu, in which its consequence is said, and confirm it."""
        self.page.locator("summary", has_text=menu).click()
        self.page.get_by_role("button", name=menu, exact=True).click()

    def reach(self, text: str, *, within: int = 60) -> None:
        """Go on by the Tab key until what has the keyboard says this."""
        for _ in range(within):
            self.page.keyboard.press("Tab")
            if text in self.focused:
                return
        raise AssertionError(f"{text!r} is not reached by {within} presses of Tab")

    @property
    def focused(self) -> str:
        """What has the keyboard: the text of a link or a button, else its name."""
        return str(
            self.page.evaluate(
                "one => one.matches('a, button, summary') ? one.textContent.trim() : one.name || ''",
                self.page.evaluate_handle("document.activeElement"),
            )
        )

    @property
    def shifts(self) -> list[tuple[float, str]]:
        """By how much what was drawn has moved on this page, as browsers measure it, and what it was."""
        self.page.screenshot()  # so that everything is drawn
        return [(value, moved) for value, moved in self.page.evaluate("window.shifts")]

    @property
    def sideways(self) -> int:
        """By how many pixels the page can be scrolled sideways."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def judged(self, *within: str) -> list[str]:
        """What axe finds that is serious, with where. `within`: selectors of parts of the page; without, all of it."""
        parts = {"include": [[one] for one in within]} if within else None
        found = Axe().run(self.page, context=parts, options=_FAULTS_ONLY).response["violations"]
        return [
            f"{one['id']}: {node['html'][:200]}" for one in found if one["impact"] in _GRAVE for node in one["nodes"]
        ]

    def transferred(self) -> int:
        """Bytes that came for the pages since the last call, headers included."""
        answers, self.answers[:] = list(self.answers), []
        # A stream of events has no size before it ends.
        sizes = [one.request.sizes() for one in answers if not one.url.partition("?")[0].endswith("/stream")]
        return sum(one["responseBodySize"] + one["responseHeadersSize"] for one in sizes)


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def tab(
    browser: Browser, base_url: str, screen: Screen = DESK, *, scripts: bool = True, allowed: Sequence[str] = ()
) -> Iterator[Tab]:
    """A tab with no cookies. Asserts at its end that nothing went wrong in it: no error of a script, nothing that the
    Content-Security-Policy held back, no file that failed to load. `allowed`: parts of messages that may come."""
    context = browser.new_context(
        color_scheme=screen.scheme,
        viewport={"width": screen.width, "height": 800},
        java_script_enabled=scripts,
        reduced_motion="reduce",
    )
    context.set_default_timeout(20_000)
    try:
        context.add_init_script(_COUNT_SHIFTS)
        page = context.new_page()
        made = Tab(page, base_url)
        page.on("pageerror", lambda error: made.faults.append(str(error)))
        page.on(
            "console", lambda line: made.faults.append(f"{page.url}: {line.text}") if line.type == "error" else None
        )
        page.on("response", lambda answer: made.answers.append(answer))
        yield made
        faults = [one for one in made.faults if not any(part in one for part in allowed)]
        assert not faults, faults
    finally:
        context.close()


def ask(base_url: str, key: str, method: str, path: str, json: object = None) -> httpx.Response:
    """A request to the API beside the browser."""
    headers = {"Authorization": f"Bearer {key}"}
    answer = httpx.request(method, base_url + path, headers=headers, json=json, trust_env=False, timeout=60)
    return answer.raise_for_status()
