"""What several of them read."""

import pytest

from tests.architecture.sources import parsed_tests, room_modules


@pytest.fixture(scope="session", autouse=True)
def parsed() -> None:
    """Once, in some seconds that are no test's own."""
    room_modules()
    parsed_tests()
