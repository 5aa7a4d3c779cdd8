"""Which rows that name a destination may be claimed."""

from typing import Any

import pytest

from poller_cluster.minute.admission import MinuteAdmission
from poller_cluster.minute.rows import UNKNOWN, Again, Hold, PendingRow, Verdict
from poller_cluster.settings import MinuteSettings
from scheduler_service.domain.flows import Flow
from scheduler_service.domain.ids import minute_of
from scheduler_service.domain.options import ScheduleOptions, encode_options
from scheduler_service.domain.schedules import Outcome
from tests.support.api import NOW
from tests.support.node_parts import GivenOrder, minute_context
from tests.unit.poller_cluster.claimed import claim, client, destination
from tests.unit.poller_cluster.dispatch_bench import Bench

QUEUE = (UNKNOWN, "")


class Judging:
    """One admission whose client has the given destinations."""

    def __init__(self, **given: Any) -> None:
        self.bench = Bench()
        self.offer(**given)
        self.context = minute_context(
            MinuteSettings(), clients=self.bench.clients.known.values(), dispatcher=self.bench.dispatcher
        )
        self.clients: Any = self.context.clients
        self.admission = MinuteAdmission(
            client_id=self.bench.clients.known["shop"].client_id,
            minute=minute_of(NOW),
            poller=GivenOrder(),
            settings=MinuteSettings(),
            context=self.context,
        )
        self.admission.begin({})

    def offer(self, *, gone: bool = False, **given: Any) -> None:
        self.bench.clients.known["shop"] = client(destinations=() if gone else [destination(**given)], max_in_flight=20)

    def judge(self, number: int = 1, url: str = "destination://crm/a", **row: Any) -> Verdict:
        return self.admission.judge(self.row(number, url, **row), NOW)

    def row(self, number: int = 1, url: str = "destination://crm/a", **row: Any) -> PendingRow:
        return PendingRow(claim(due=NOW, tail=number, url=url, **row).row, redelivery=False)

    def again(self, queue: tuple[str, str] = QUEUE) -> Again:
        return self.admission.again(queue, self.row(), NOW)


def reason(verdict: Verdict) -> str | None:
    assert isinstance(verdict, Outcome), verdict
    return verdict.reason


def test_rows_are_claimed_within_the_destinations_limits_whatever_their_path() -> None:
    judging = Judging(max_in_flight=2)
    found = [judging.judge(number, f"destination://crm/{number}") for number in range(3)]
    assert found[:2] == [None, None]
    assert isinstance(found[2], Hold)
    assert found[2].queue == ("host", "destination://crm")
    assert judging.judge(4, "destination://crmother/") is not None, "it names another destination"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"paused_at": NOW}, "destination-paused"),
        ({"locked": "no key"}, "destination-locked"),
        ({"gone": True}, "destination-deleted"),
    ],
)
@pytest.mark.parametrize(
    "row", [{}, {"ordering_key": "cart"}, {"options": encode_options(ScheduleOptions(flow=Flow("one", None, 1)))}]
)
def test_rows_of_a_destination_that_cannot_be_called_take_no_place(
    given: dict[str, Any], said: str, row: dict[str, Any]
) -> None:
    judging = Judging(**given)
    for number in range(3):
        assert reason(judging.judge(number, **row)) == said
    assert judging.judge(9, "https://elsewhere/") is None


def test_an_unknown_destination_is_not_gone_before_that_is_certain() -> None:
    judging = Judging(gone=True)
    judging.clients.sure = False
    held = judging.judge()
    assert isinstance(held, Hold)
    assert held.queue == QUEUE
    assert judging.again().rows == 0
    judging.clients.sure = True
    assert judging.again().rows > 1
    assert reason(judging.judge()) == "destination-deleted"


def test_an_unknown_destination_that_appears_is_called() -> None:
    judging = Judging(gone=True)
    judging.clients.sure = False
    assert isinstance(judging.judge(), Hold)
    judging.offer()
    assert judging.again().rows > 1
    assert judging.judge() is None


def test_held_rows_are_judged_again_when_their_destination_is_paused() -> None:
    judging = Judging(max_in_flight=1)
    assert judging.judge(1) is None
    held = judging.judge(2)
    assert isinstance(held, Hold)
    assert judging.again(held.queue).rows == 0
    judging.offer(max_in_flight=1, paused_at=NOW)
    assert judging.again(held.queue).rows > 1
    judging.admission.begin({})
    assert reason(judging.judge(2)) == "destination-paused"


def test_a_url_that_names_no_destination_properly_is_left_to_the_attempt() -> None:
    assert Judging().judge(1, "destination://Not a name") is None
