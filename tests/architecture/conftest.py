"""What all of them read."""

import pytest

from tests.architecture.sources import room_modules


@pytest.fixture(scope="session", autouse=True)
def parsed_rooms() -> None:
    """Parsed once, in a second or two that are no test's own."""
    room_modules()
