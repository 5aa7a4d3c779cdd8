"""Instants of tests, written as UTC."""

from datetime import UTC, datetime


def ms(text: str) -> int:
    """Unix milliseconds of an ISO date or time of UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)
