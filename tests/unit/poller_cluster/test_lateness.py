"""What is recorded of a late call: the time that hindered its node or client, counted once."""

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from msgspec import structs

from poller_cluster.dispatch.job import Job
from poller_cluster.dispatch.lateness import STRETCHES_KEPT, Doubts, Stretches, explained
from poller_cluster.dispatch.outcome import defer
from poller_cluster.dispatch.request import Prepared, unsent
from scheduler_service.domain.clients import ClientSettings
from scheduler_service.domain.ids import UnixMillis
from scheduler_service.domain.options import NO_OPTIONS
from scheduler_service.domain.schedules import State
from scheduler_service.domain.waits import Waits, read_waits
from tests.support.api import NOW
from tests.unit.poller_cluster.claimed import SENDER, RowOwner, claim

PREPARED: Any = Prepared(request=cast("Any", None), options=NO_OPTIONS, settings=ClientSettings())


@dataclass
class Client:
    inactive: Stretches = field(default_factory=Stretches)
    full: Stretches = field(default_factory=Stretches)
    overdue: Stretches = field(default_factory=Stretches)


class Late:
    """A row due at NOW, claimed by a run that began before."""

    def __init__(self, **row: Any) -> None:
        self.client = Client()
        self.now, self.trusts = NOW, True
        self.doubts = Doubts(wall_ms=lambda: self.now, trusted=lambda: self.trusts)
        self.owner = RowOwner()
        self.job = Job(self.owner, claim(**row), UnixMillis(NOW))

    def waited(self, late_ms: int) -> dict[str, int]:
        """What is recorded of a start so late."""
        assert explained(PREPARED, self.job, SENDER, self.client, self.doubts, now=NOW + late_ms) is PREPARED
        return {wait.cause: wait.ms for wait in read_waits(self.job.fired_by)}


def test_a_rest_without_a_cause_is_the_nodes() -> None:
    assert Late().waited(1_001) == {"node": 1_001}


def test_what_the_row_was_parked_for_comes_first() -> None:
    late = Late()
    late.job.waits_for("receiver", NOW - 500)
    late.job.waits_for("receiver", NOW + 10)
    late.job.waits_for("flow", NOW + 2_000)
    assert late.waited(3_000) == {"receiver": 2_000, "flow": 1_000}


@pytest.mark.parametrize("trusts", [True, False])
def test_doubts_of_a_node(trusts: bool) -> None:
    late = Late()
    late.now, late.trusts = NOW - 4_000, trusts
    late.doubts.begin()
    late.now = NOW + 1_500
    late.doubts.end()
    assert late.waited(2_000) == {"clock" if trusts else "trust": 1_500, "node": 500}


def test_a_clients_suspension_and_its_limit_and_a_run_that_began_late() -> None:
    late = Late()
    late.client.inactive.begin(NOW - 1_000)
    late.client.inactive.end(NOW + 1_000)
    late.owner.began_ms = NOW + 1_500
    late.client.full.begin(NOW)
    assert late.waited(4_000) == {"client-inactive": 1_000, "takeover": 1_500, "in-flight": 1_500}


def test_a_row_beyond_the_guarantee() -> None:
    late = Late()
    late.job.over_quota = True
    assert late.waited(4_000) == {"quota": 4_000}


def test_a_late_create() -> None:
    assert Late(created_at=UnixMillis(NOW + 1_200)).waited(1_300) == {"late-create": 1_200}


def test_a_retried_call_on_time_keeps_what_was_recorded() -> None:
    late = Late(kind="copy")
    late.job.claim = structs.replace(late.job.claim, waits=Waits("n@1 waited flow=7"))
    assert late.waited(3) == {"flow": 7}


def test_it_is_in_the_outcome_of_a_row_that_is_not_called_but_not_of_one_that_is_deferred() -> None:
    late = Late()
    skipped = unsent(late.job.claim, State.SKIPPED, "late", NOW + 5_000, 4, SENDER)
    found: Any = explained(skipped, late.job, SENDER, late.client, late.doubts, now=NOW + 5_000)
    assert found.fired_by == f"{SENDER.incarnation} waited node=5000"
    later = defer(late.job.claim, at=UnixMillis(NOW + 9_000), in_doubt=False, reason="token-unavailable")
    assert explained(later, late.job, SENDER, late.client, late.doubts, now=NOW + 5_000) is later


def test_stretches_are_bounded() -> None:
    found = Stretches()
    for at in range(100):
        found.begin(10 * at)
        found.begin(10 * at + 1)
        found.end(10 * at + 5)
    found.end(2_000)
    assert found.within(0, 10_000) == 5 * STRETCHES_KEPT
    found.begin(1_000)
    assert found.within(990, 1_010) == 5 + 10
