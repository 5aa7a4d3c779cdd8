"""Planted bugs around destinations. Random runs find those of `DESTINATION_PLANTS`, scenes find all
(`test_destination_plants`).
"""

from dataclasses import replace

import pytest

from poller_cluster.clients import ServedClient, ServedClients
from poller_cluster.destinations import OpenedDestination, ServedDestination, serve
from poller_cluster.dispatch import named_rows
from poller_cluster.dispatch.dispatcher import Dispatcher
from scheduler_service.domain.clients import ClientSettings
from tests.simulation.plants import Plant


def pauses_hold_claims_alone(patch: pytest.MonkeyPatch) -> None:
    """A claimed row is called whatever its destination says by then."""
    patch.setattr(Dispatcher, "judge_named", lambda self, claim, client, name: None)


def destinations_are_opened_once(patch: pytest.MonkeyPatch) -> None:
    """A node goes on with what a destination said first."""
    known: dict[tuple[str, str], ServedDestination] = {}

    def first(opened: OpenedDestination, settings: ClientSettings) -> ServedDestination:
        return known.setdefault((opened.stored.client_id, opened.stored.name), serve(opened, settings))

    patch.setattr("poller_cluster.clients.serve", first)


def each_row_has_a_look_of_its_own(patch: pytest.MonkeyPatch) -> None:
    """Rows wait for as long from their own due, not for a common instant."""
    patch.setattr(named_rows, "next_look", lambda paused_at, after: after + 30_000 + after % 7_919)


def looks_come_hours_apart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(named_rows, "next_look", lambda paused_at, after: after + 3_600_000)


def what_is_unknown_is_gone(patch: pytest.MonkeyPatch) -> None:
    """A row that names a destination which this node has not heard of fails at once."""
    patch.setattr(ServedClients, "surely_without", lambda self, client_id, *, since: True)


def a_deletion_is_not_heard_of(patch: pytest.MonkeyPatch) -> None:
    """A destination that is not stored any more is served on."""
    see = ServedClients._serve

    def kept(self: ServedClients, client: ServedClient, stored: object, *, changed: bool = False) -> None:
        before = self.get(client.client_id)
        see(self, client, stored, changed=changed)  # type: ignore[arg-type]
        after = self.get(client.client_id)
        if before is not None and after is not None:
            both = {**before.destinations, **after.destinations}
            self._clients[client.client_id] = replace(after, destinations=both)

    patch.setattr(ServedClients, "_serve", kept)


def an_outage_leaves_no_doubt(patch: pytest.MonkeyPatch) -> None:
    """A node that is trusted again acts by what it knew before."""
    patch.setattr(ServedClients, "current", True)


DESTINATION_PLANTS: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (
        pauses_hold_claims_alone,
        destinations_are_opened_once,
        looks_come_hours_apart,
        a_deletion_is_not_heard_of,
    )
}
