"""Receivers of ends, as requests name them: the name of a destination, or a URL. Pure."""

from typing import Protocol

from scheduler_service.domain.destinations import named_url


class EndReceivers(Protocol):
    """A request that may name receivers of ends."""

    @property
    def on_success(self) -> str | None:
        """Who is told of a delivery."""

    @property
    def on_failure(self) -> str | None:
        """Who is told of a failure."""


def stored_receiver(asked: str | None) -> str | None:
    """The URL to store for the receiver of an end."""
    return asked if asked is None or "://" in asked else named_url(asked, "")


def named_destinations(*asked: str | None) -> list[str]:
    """Those of these receivers that are names."""
    return [name for name in asked if name is not None and "://" not in name]
