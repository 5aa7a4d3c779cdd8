"""The nodes that a node sends hints to."""

from collections.abc import Callable

from membership.view import MembersView
from scheduler_service.usecases.members import HintTargets


class NodeTargets:
    """The members in a node's own view, for hints about rows that it places in their pollers.

    `targets` is the same object until they change."""

    def __init__(self, view: Callable[[], MembersView]) -> None:
        self._view = view
        self._seen: MembersView | None = None
        self._targets = HintTargets()

    @property
    def targets(self) -> HintTargets:
        view = self._view()
        if view is not self._seen:
            self._seen = view
            weights = view.hint_weights()
            addresses = {
                beat.incarnation.node_id: beat.address for beat in view.members if beat.incarnation.node_id in weights
            }
            targets = HintTargets(addresses, weights)
            if targets != self._targets:
                self._targets = targets
        return self._targets
