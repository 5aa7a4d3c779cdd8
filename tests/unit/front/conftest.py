"""What the tests of the commands share: an API that answers by a script."""

import httpx
import pytest

from minutehand.cli import options
from minutehand.client import Minutehand
from tests.support.scripted_api import Script


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    found = Script()

    def connected(url: str, key: str) -> Minutehand:
        return Minutehand(url, key, transport=httpx.MockTransport(found), retries=0)

    monkeypatch.setattr(options, "Minutehand", connected)
    monkeypatch.setenv("MINUTEHAND_KEY", "the-key")
    monkeypatch.delenv("MINUTEHAND_URL", raising=False)
    return found
