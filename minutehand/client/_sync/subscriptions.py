# Made of ../_async/subscriptions.py by `make sdk`: edit that.
"""A client's subscriptions: put, look at, delete."""

from collections.abc import Mapping
from typing import Any

from minutehand.client._subscriptions import (
    NewSubscription,
    Subscription,
    delete_subscription,
    get_subscription,
    list_subscriptions,
    put_subscription,
)
from minutehand.client._sync.parts import Part


class Subscriptions(Part):
    """A client's subscriptions. Changes are for administrators and keys of scope `manage`."""

    def put(
        self,
        name: str,
        subscription: NewSubscription | Mapping[str, Any],
        *,
        revision: int | None = None,
        absent: bool = False,
    ) -> Subscription:
        """Create a subscription, or replace it as a whole. `subscription` may be a mapping, as in JSON. `revision`:
        only if it still has this one; `absent`: only if there is none. Raises MinutehandApiError: precondition-failed,
        too-many-subscriptions."""
        operation = put_subscription(self._client_id, name, subscription, revision=revision, absent=absent)
        return self._perform(operation)

    def get(self, name: str) -> Subscription:
        return self._perform(get_subscription(self._client_id, name))

    def list(self) -> tuple[Subscription, ...]:
        """By name."""
        return self._perform(list_subscriptions(self._client_id)).items

    def delete(self, name: str, *, revision: int | None = None) -> None:
        """What was not sent yet is not sent any more. `revision`: only if it still has this one."""
        self._perform(delete_subscription(self._client_id, name, revision=revision))
