"""Fixtures of the command tests: an API that answers by a script, and an environment without settings of the shell."""

import os

import httpx
import pytest

from minutehand.client import Minutehand
from minutehand.processes.programs import clean_environment
from tests.support.scripted_api import Script


@pytest.fixture(autouse=True)
def no_settings_of_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ.keys() - clean_environment(os.environ).keys():
        monkeypatch.delenv(name)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    found = Script()

    def connected(url: str, key: str) -> Minutehand:
        return Minutehand(url, key, transport=httpx.MockTransport(found), retries=0)

    monkeypatch.setattr("minutehand.client.Minutehand", connected)
    monkeypatch.setenv("MINUTEHAND_KEY", "the-key")
    return found
