"""Fixtures shared by several architecture tests."""

import pytest

from tests.architecture.sources import parsed_tests, room_modules
from tests.support.kept import made_to_stay


@pytest.fixture(scope="session", autouse=True)
def parsed() -> None:
    """Parse the sources once, which takes some seconds that would count against one test's limit."""
    with made_to_stay():
        room_modules()
        parsed_tests()
