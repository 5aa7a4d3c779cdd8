"""A trial call: what was said is shown, and no credential is among the samples."""

from typing import Any, cast

from tests.support.api import ApiHarness, RecordedTrialCalls
from tests.support.browser import Browser, Shown

PAGE = "/console/clients/shop/trial-call"


def sent(api: ApiHarness) -> list[Any]:
    return cast(RecordedTrialCalls, api.trial_calls).sent


async def trial(browser: Browser, **typed: str) -> Shown:
    shown = await browser.open(PAGE)
    return await browser.submit(shown, next(form for form in shown.forms if "url" in form.fields), **typed)


async def test_the_whole_exchange_is_shown(api: ApiHarness, key: str, manager: Browser) -> None:
    typed = {"url": "https://a.example/x", "headers": "X-A: 1\nAuthorization: Bearer hush", "body": '{"a": 1}\r\n'}
    shown = await trial(manager, **typed)
    assert shown.status == 200
    for text in (
        "The receiver took it",
        "POST https://a.example/x",
        '{"a": 1}',
        "HTTP/2 204",
        "203.0.113.7:443",
        "50 ms",
    ):
        assert text in shown.text, text
    assert "session=of-the-receiver" not in shown.source
    [call] = sent(api)
    assert (call.definition.method, call.definition.body) == ("POST", b'{"a": 1}\n')
    samples = shown.source[shown.source.index('class="samples"') :]
    assert "callbacks:try" in samples
    assert "hush" not in samples
    assert "Authorization: ***" in shown.text


async def test_what_is_wrong_is_said_and_nothing_is_sent(api: ApiHarness, key: str, manager: Browser) -> None:
    shown = await trial(manager, url="nowhere", headers="X-A: 1")
    assert (shown.status, "/callback/url" in shown.text) == (422, True)
    shown = await trial(manager, url="https://a.example/x", headers="no colon")
    assert (shown.status, "/callback/headers" in shown.text) == (422, True)
    assert sent(api) == []


async def test_a_key_that_may_only_read_is_offered_none(api: ApiHarness, key: str, reader: Browser) -> None:
    shown = await reader.open(PAGE)
    assert (shown.status, [form for form in shown.forms if "url" in form.fields]) == (200, [])
