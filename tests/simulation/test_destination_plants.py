"""Planted bugs that the scenes of destinations must find."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from poller_cluster.clients import ServedClient, ServedClients
from poller_cluster.destinations import OpenedDestination, ServedDestination, serve
from poller_cluster.dispatch import named_rows
from poller_cluster.dispatch.dispatcher import Dispatcher
from scheduler_service.domain.clients import ClientSettings
from tests.simulation import destination_scenes as scenes
from tests.simulation.world import Violation, World, simulate

Plant = Callable[[pytest.MonkeyPatch], None]
Scene = Callable[[World], Awaitable[None]]


def pauses_hold_claims_alone(patch: pytest.MonkeyPatch) -> None:
    """A claimed row is called whatever its destination says by then."""
    patch.setattr(Dispatcher, "judge_named", lambda self, claim, client, name: None)


def destinations_are_opened_once(patch: pytest.MonkeyPatch) -> None:
    """A node goes on with what a destination said first."""
    known: dict[str, ServedDestination] = {}

    def first(opened: OpenedDestination, settings: ClientSettings) -> ServedDestination:
        return known.setdefault(opened.stored.name, serve(opened, settings))

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


@pytest.mark.parametrize(
    ("plant", "scene"),
    [
        (pauses_hold_claims_alone, lambda world: scenes.paused_after_the_claim(world, dies=False)),
        (pauses_hold_claims_alone, lambda world: scenes.paused_after_the_claim(world, dies=True)),
        (destinations_are_opened_once, lambda world: scenes.changed_between_claim_and_call(world, dies=False)),
        (each_row_has_a_look_of_its_own, lambda world: scenes.resumed(world, dies=False)),
        (looks_come_hours_apart, lambda world: scenes.paused_after_the_claim(world, dies=False)),
        (what_is_unknown_is_gone, scenes.named_at_once),
        (a_deletion_is_not_heard_of, lambda world: scenes.deleted(world, dies=False)),
    ],
)
def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch, plant: Plant, scene: Scene) -> None:
    plant(monkeypatch)
    with pytest.raises((Violation, AssertionError)):
        simulate(scene)
