"""Whom a node tells of rows that it places in others' lanes: the members as its own life sees them."""

from collections.abc import Callable

from membership.view import MembersView
from scheduler_service.usecases.members import HintTargets


class NodeTargets:
    """`targets` is the same object until they change. Nobody, until `watch` was called."""

    def __init__(self) -> None:
        self._view: Callable[[], MembersView] | None = None
        self._seen: MembersView | None = None
        self._targets = HintTargets()

    def watch(self, view: Callable[[], MembersView]) -> None:
        self._view = view

    @property
    def targets(self) -> HintTargets:
        view = None if self._view is None else self._view()
        if view is not None and view is not self._seen:
            self._seen = view
            weights = view.hint_weights()
            addresses = {beat.life.node_id: beat.address for beat in view.members if beat.life.node_id in weights}
            targets = HintTargets(addresses, weights)
            if targets != self._targets:
                self._targets = targets
        return self._targets
