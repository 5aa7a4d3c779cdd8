# Made of ../_async/destinations.py by `make sdk`: edit that.
"""A client's destinations: put, look at, pause, delete."""

from collections.abc import Mapping
from typing import Any

from minutehand.client._destinations import (
    Destination,
    NewDestination,
    delete_destination,
    get_destination,
    list_destinations,
    pause_destination,
    put_destination,
    resume_destination,
)
from minutehand.client._sync.parts import Part


class Destinations(Part):
    """A client's destinations. Changes are for administrators and keys of scope `manage`."""

    def put(
        self,
        name: str,
        destination: NewDestination | Mapping[str, Any],
        *,
        revision: int | None = None,
        absent: bool = False,
    ) -> Destination:
        """Create a destination, or replace it as a whole: secrets must be sent again. A paused one stays paused.
        `destination` may be a mapping, as in JSON. `revision`: only if it still has this one; `absent`: only if there
        is none. Raises MinutehandApiError: precondition-failed, too-many-destinations, destinations-too-large."""
        operation = put_destination(self._client_id, name, destination, revision=revision, absent=absent)
        return self._perform(operation)

    def get(self, name: str) -> Destination:
        return self._perform(get_destination(self._client_id, name))

    def list(self) -> tuple[Destination, ...]:
        """By name."""
        return self._perform(list_destinations(self._client_id)).items

    def pause(self, name: str, *, revision: int | None = None) -> Destination:
        """Hold its calls until it is resumed. `revision`: only if it still has this one."""
        return self._perform(pause_destination(self._client_id, name, revision=revision))

    def resume(self, name: str, *, revision: int | None = None) -> Destination:
        return self._perform(resume_destination(self._client_id, name, revision=revision))

    def delete(self, name: str, *, revision: int | None = None, force: bool = False) -> None:
        """Delete one that no cron, subscription or waiting schedule names; `force`: also one that is named, whose
        calls fail then. `revision`: only if it still has this one. Raises MinutehandApiError: destination-in-use,
        precondition-failed."""
        self._perform(delete_destination(self._client_id, name, revision=revision, force=force))
